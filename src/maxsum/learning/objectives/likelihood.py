r"""Conditional log-likelihood: a conditional random field where sums over labellings are exact, a convex upper bound elsewhere.

.. math:: F(w) = \tfrac12\|w\|^2 + \sum_j c_j\,\big[\log Z_j(w) - \langle w, \Psi(x_j, y_j)\rangle\big],\qquad
          Z_j(w) = \sum_y e^{\langle w, \Psi(x_j, y)\rangle}.

On forests and graphs of small width :math:`\log Z` is exact; elsewhere it is replaced by its tree-reweighted bound
(`maxsum.inference.sums.reweighted`), also convex and never below it, so that F bounds the regularised negative log-likelihood from above.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...core.certificates.elimination_order import elimination_order
from ...core.errors import CertificateError, InvalidSampleError
from ...core.problem import Problem
from ...inference.sums.log_elimination import eliminate
from ...inference.sums.log_partition import MAX_CELLS, LogPartition
from ...models.bound import BoundModel, Encoded, Tables, refuse_factors
from ...models.multilabel import MultiLabelBound
from ..certificate import Check, Proven
from ..proofs.evaluation import Slacks, total, trees
from ..proofs.feature_sums import EPS, PAIRWISE, FeatureSum
from ..proofs.forests import Forest, Scores, beliefs, log_sums, scores_of
from ..proofs.tangents import marginal_tangent
from .base import as_sample_weight, check_C
from .smooth import Evaluation, SmoothObjective

_PROOF = 1e-12  # how far a bound may be from its minimum in a check, for a node: far below what claims are held to
_THIN = 0.3  # share of nonzeros of dense features below which products of them are faster as those of a sparse matrix
_TINIEST = 1e-300  # in the place of 0 under a fraction
_ULPS = 1e-13  # of a value: what rounding can hide in sums over all examples


class Marginals(NamedTuple):
    r"""Marginals of one sample under the model.

    Attributes
    ----------
    node : ndarray, shape (n_nodes, K)
    edge : ndarray, shape (n_edges, K, K)
        Axes as in pairwise tables: the label of the edge's first node, then that of its second.
    log_z : float
        :math:`\log Z`, or an upper bound on it.
    exact : bool
        Whether these are the marginals of the model, or those of its tree-reweighted bound.
    """

    node: np.ndarray
    edge: np.ndarray
    log_z: float
    exact: bool


class LikelihoodObjective(SmoothObjective):
    r"""The regularised negative log-likelihood, strongly convex with modulus 1; see the formula above.

    Parameters
    ----------
    model : BoundModel
        With labels.
    C : float
    sample_weight : array-like, optional
    n_jobs : int
        Threads over examples.
    max_cells : int
        Graphs with cycles are summed exactly where elimination needs at most so many table entries (for two labels, a width of about
        13); 0 takes the bound for all of them.
    max_rounds : int
        Most rounds of messages, forwards and backwards, over an example with cycles in one evaluation.

    Attributes
    ----------
    exact : ndarray of bool, shape (n_examples,)
        Where :math:`\log Z` is exact, not its bound.
    """

    surrogate = "likelihood"

    modulus = 1.0
    convex = True

    def __init__(
        self,
        model: BoundModel,
        C: float = 1.0,
        sample_weight: Any = None,
        n_jobs: int = 1,
        max_cells: int = MAX_CELLS,
        max_rounds: int = 200,
    ):
        check_C(C)
        model.refuse_cliques("the likelihood")
        model.refuse_factors("the likelihood")
        if model.labels is None:
            raise InvalidSampleError("the model was bound without labels; give them to bind().")
        if not (model.data.node_weights == 1.0).all():
            raise InvalidSampleError(
                "samples have node_weights that are not 1, wanted none: the likelihood of a labelling has no loss of nodes to weight. "
                "Give sample_weight, or use surrogate='margin'."
            )
        self.model, self.cone, self.n_jobs, self.max_rounds = model, model.cone, n_jobs, max_rounds
        self.n_weights, self.n_examples, self.free = model.n_weights, model.n_examples, model.cone.is_free
        self.sample_weight = as_sample_weight(sample_weight, self.n_examples)
        self.set_C(C)
        data = model.data
        self._features = _Features(model)
        self.partition = _partition(model, data, n_jobs, max_cells, False)
        self.exact = self.partition.exact
        if model.has_forbidden and not self.exact.all():
            raise InvalidSampleError(
                f"the model forbids pairs of labels (-inf), and the sums over labellings of sample {int((~self.exact).argmax())} are out of reach, where "
                "the bound in their place has no finite messages; train with surrogate='margin'."
            )
        self.inexact = not self.exact.all()
        self._rows, self._owner = np.arange(len(model.labels)), np.repeat(np.arange(self.n_examples), np.diff(data.node_ptr))
        self._edge_owner = np.repeat(np.arange(self.n_examples), np.diff(data.edge_ptr))
        size = np.diff(data.node_ptr) + np.diff(data.edge_ptr)
        self._shares = size / max(1, int(size.sum()))
        self.allowed = 0.0 if self.exact.all() else -1.0

    def value_and_gradient(self, w: np.ndarray) -> Evaluation:
        """Value and gradient at ``w``; with cycles, as exact as was asked for (see `tighten`)."""
        w = np.ascontiguousarray(w, dtype=np.float64)
        if self.allowed < 0:
            lower, upper, _ = self._sums(w, np.full(self.n_examples, np.inf))
            self.allowed = self.accuracy.first * (0.5 * float(w @ w) + max(0.0, float(self.c @ upper)))
        weight = np.maximum(self.c, _TINIEST)
        lower, upper, gradient = self._sums(w, self.allowed * self._shares / weight)
        error = float(self.c @ (upper - lower))
        return Evaluation(0.5 * float(w @ w) + float(self.c @ lower), gradient, max(error, 0.0))

    def _sums(self, w: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lower and upper values of the slacks, and the gradient of the objective."""
        unary, bank, truth = self._features.unary(w), self.model.tables(w).bank, self.model.labels
        assert truth is not None
        found = self.partition(unary, bank, self.c, allowed, self.max_rounds)
        score = self._score(unary, bank)
        node, edge = found.node, found.edge
        node *= self.c[self._owner][:, None]
        node[self._rows, truth] -= self.c[self._owner]
        ends = truth[self.model.data.edges]
        np.subtract.at(edge, (self.partition.slot, ends[:, 0], ends[:, 1]), self.c[self._edge_owner])
        edge *= self.partition.slot_weight[:, None, None]
        gradient = self._features.gradient(node, edge, self.partition.slot_table)
        gradient += w
        return found.lower - score, found.upper - score, gradient

    def _score(self, unary: np.ndarray, bank: np.ndarray) -> np.ndarray:
        """Scores of the training labellings."""
        truth, part, n = self.model.labels, self.partition, self.n_examples
        assert truth is not None
        nodes = unary[self._rows, truth]
        ends = truth[self.model.data.edges]
        edges = bank[part.slot_table[part.slot], ends[:, 0], ends[:, 1]] * part.slot_weight[part.slot]
        return np.bincount(self._owner, nodes, minlength=n) + np.bincount(self._edge_owner, edges, minlength=n)

    def project(self, w: np.ndarray) -> np.ndarray:
        return w if self.free else self.cone.project(w).weights

    def least_error(self) -> float:
        return self.accuracy.last * (1.0 + float(self.c.sum()) * len(self._rows))

    def tangent(self, w: np.ndarray, check: Check) -> FeatureSum:
        return self._proof(np.ascontiguousarray(w, dtype=np.float64), check)[0]

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """Sums over forests level by level, over graphs of small width by elimination, and elsewhere the tree-reweighted bound at the
        messages of a fresh run: all in plain numpy."""
        w = np.ascontiguousarray(w, dtype=np.float64)
        return self._proof(w, check)[1]

    def _proof(self, w: np.ndarray, check: Check) -> tuple[FeatureSum, Proven]:
        """What marginals at ``w`` prove about all weights, and the objective at ``w``."""
        if check.exact:
            raise CertificateError(
                "a likelihood has sums of exponentials, which cannot be checked in rational arithmetic; leave exact=True out, or use "
                "surrogate='margin'."
            )
        model, data, n = self.model, self.model.data, self.n_examples
        scores = scores_of(model, w)
        easy = trees(model)
        check.expect(3 * int(np.diff(data.node_ptr)[easy].sum()))
        owner = np.repeat(np.arange(n), np.diff(data.node_ptr))
        forest = Forest.of(len(owner), data.edges, easy[owner], most=len(owner))
        assert forest is not None
        high = np.bincount(owner[forest.roots], log_sums(forest, data.edges, scores, check), minlength=n).astype(np.float64)
        node, edge = beliefs(forest, data.edges, scores, check)
        low, error = high.copy(), 2 * scores.error + 4 * EPS * (model.n_labels + 8) * np.diff(data.node_ptr)
        words = ["sums over forests"]
        for j in np.flatnonzero(self.exact & ~easy).tolist():
            rows, edges = (slice(int(own[j]), int(own[j + 1])) for own in (data.node_ptr, data.edge_ptr))
            found = self._narrow(scores, j, rows, edges)
            low[j] = high[j] = found.log_z[0]
            node[rows], edge[edges] = found.node[0], found.edge[0]
            check.step(0)
        narrow = np.flatnonzero(self.exact & ~easy)
        none = np.zeros((len(owner), model.n_labels))
        tangent = marginal_tangent(model, none, self.c, np.flatnonzero(easy), node, edge, (1.0, 1.0), 1.0, check)
        if len(narrow):
            words.append("elimination on graphs of small width, the learner's own")
            own = marginal_tangent(model, none, self.c, narrow, node, edge, (0.0, 0.0), 0.0, check)
            size = float(np.abs(own.vector) @ np.abs(w))
            value = float(self.c[narrow] @ high[narrow]) + float(own.vector @ w)
            slip = float(self.c[narrow] @ error[narrow]) + PAIRWISE * size + float(own.error @ np.abs(w)) + _ULPS * abs(value)
            tangent = tangent + own._replace(value=value, value_error=slip)
        if self.partition.reweighted is not None:
            words.append("the tree-reweighted bound at given messages")
            loopy = self.partition._loopy
            self._reweight(w, scores, high, node, edge, check)
            rho = np.ones(len(data.edges))
            rho[loopy.edge_rows] = self.partition.reweighted.rho
            own = marginal_tangent(model, none, self.c, loopy.examples, node, edge, (rho, rho), 1.0, check)
            tangent = tangent + own
            low[loopy.examples] = 0.0
        found_low = total(
            self.c, w, Slacks(np.maximum(low - error, 0.0), np.maximum(high + error, 0.0), 2 * error, " and ".join(words))
        )
        if self.partition.reweighted is not None:  # what the tangent proves at w itself is a value from below
            half, product = 0.5 * float((w * w).sum()), float((tangent.vector * w).sum())
            slip = (
                tangent.value_error
                + float(tangent.error @ np.abs(w))
                + PAIRWISE * (half + float(np.abs(tangent.vector) @ np.abs(w)))
            )
            found_low = found_low._replace(low=half + tangent.value - product - slip)
        return tangent, found_low

    def _narrow(self, scores: Scores, j: int, rows: slice, edges: slice) -> Any:
        """Sums of one graph of small width, less the score of the truth."""
        data = self.model.data
        states = data.n_states[rows]
        tables = scores.edge(data.edges, np.arange(edges.start, edges.stop))
        shape = Problem(
            data.graphs[j], np.zeros((len(states), self.model.n_labels)), np.zeros((self.model.n_labels,) * 2), n_states=states
        )
        order = elimination_order(shape)
        assert order is not None
        return eliminate(order, data.graphs[j].edges, states, scores.unary[rows][None], tables[None])

    def _reweight(
        self, w: np.ndarray, scores: Scores, high: np.ndarray, node: np.ndarray, edge: np.ndarray, check: Check
    ) -> None:
        """Bound and consistent marginals of the other examples: messages of a fresh run, which nobody has to trust."""
        part, own = self.partition._loopy, self.partition.reweighted
        assert own is not None
        before = own.messages.copy()
        own.messages[:] = 0.0  # from nothing, so that whoever checks finds the same
        try:
            tables = self.model.tables(w)
            kinds = tables.bank[self.partition._table] * self.partition._factor[:, None, None]
            given = part.take(self._features.unary(w)), kinds, self.partition._kind[part.edge_rows]
            weight = np.maximum(self.c, _TINIEST)
            allowed = _PROOF * self._shares * max(float(self.c.sum()), _TINIEST) * len(self._rows) / weight
            found = own.bracket(*given, allowed[part.examples], self.max_rounds)
            node[part.nodes], edge[part.edge_rows] = found.node, found.edge
            high[part.examples] = self._reweighted_bound(scores, own.messages, check)
        finally:
            own.messages[:] = before

    def _reweighted_bound(self, scores: Scores, messages: np.ndarray, check: Check) -> np.ndarray:
        r""":math:`\sum_t\rho_t\log Z_t(\theta^t)` less the score of the truth, with the division of scores that messages make."""
        part, own, data = self.partition._loopy, self.partition.reweighted, self.model.data
        assert own is not None
        whole = scores.unary[part.nodes].copy()
        for side in range(2):
            np.add.at(whole, own.edges[:, side], messages[side])
        copies = whole[own._home]
        for side in range(2):
            np.subtract.at(copies, own._virtual[:, side], messages[side] / own.rho[:, None])
        bank = scores.edge(data.edges, part.edge_rows) / own.rho[:, None, None]
        tables = Tables(bank, np.arange(len(bank), dtype=np.int32), np.ones(len(bank)), True)
        forest = Forest.of(len(copies), own._virtual, np.ones(len(copies), dtype=bool), most=len(copies))
        assert forest is not None
        value = log_sums(forest, own._virtual, Scores(copies, tables, None, np.zeros(0)), check)
        first = forest.roots
        owner = np.searchsorted(part.node_ptr, own._home[first], side="right") - 1
        return np.bincount(owner, own._weight[first] * value, minlength=len(part.examples))

    def evaluate(self, w: np.ndarray) -> float:
        """The objective, never from below; see `prove`."""
        return self.prove(w, Check()).high

    def content(self) -> Iterable[np.ndarray]:
        data = self.model.data
        x = (data.x.data, data.x.indices, data.x.indptr) if hasattr(data.x, "indptr") else (data.x,)
        f = (data.f.data, data.f.indices, data.f.indptr)
        maps = (self.model.node_index, self.model.edge_index, self.cone.nonneg, *self.cone.tables)
        return (data.node_ptr, data.edge_ptr, data.edges, *x, *f, *maps, np.asarray(self.model.labels), self.exact)

    def state(self) -> dict[str, np.ndarray]:
        loopy = self.partition.reweighted
        return {} if loopy is None else {"trw_messages": loopy.messages, "trw_allowed": np.array([self.allowed])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        loopy = self.partition.reweighted
        if loopy is not None:
            loopy.messages[:] = state["trw_messages"]
            self.allowed = float(state["trw_allowed"][0])

    def words(self) -> str:
        """Which sums were exact."""
        n = int(self.exact.sum())
        if n == self.n_examples:
            return "sums over labellings are exact"
        return f"sums over labellings are exact for {n} of {self.n_examples} samples, and a tree-reweighted upper bound for the others"


class _Features:
    """The linear map from weights to scores, and its adjoint, for all examples at once."""

    def __init__(self, model: BoundModel):
        self.model = model
        index, x = model.node_index, model.data.x
        self.plain = not model.data.joint and np.array_equal(index.reshape(-1), np.arange(index.size))
        self.own = model.tables(np.zeros(model.n_weights)).own
        thin = isinstance(x, np.ndarray) and np.count_nonzero(x) < _THIN * x.size
        self.x = sparse.csr_array(x) if thin else x

    def unary(self, w: np.ndarray) -> np.ndarray:
        """Node scores (N, K)."""
        model, data = self.model, self.model.data
        if not self.plain:
            return model.unary(w)
        index = model.node_index
        scores = np.asarray(self.x @ w[: index.size].reshape(index.shape))
        if (data.n_states < model.n_labels).any():
            scores[np.arange(model.n_labels) >= data.n_states[:, None]] = -np.inf
        if data.excluded is not None:
            scores[data.excluded] = -np.inf
        return scores

    def gradient(self, node: np.ndarray, edge: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Sums of features times ``node`` (N, K) and times ``edge`` (n_slots, K, K), whose slots are those tables of the bank."""
        model, data = self.model, self.model.data
        result = np.zeros(model.n_weights)
        if isinstance(model, MultiLabelBound):
            value = np.asarray(self.x.T @ node[:, 1].reshape(data.n_examples, -1)).T
            result[: value.size] = value.reshape(-1)
        elif data.joint:
            add_at(result, model.node_index[:, 0], np.asarray(self.x.T @ node.reshape(-1)))
        elif self.plain:
            result[: model.node_index.size] = np.asarray(self.x.T @ node).reshape(-1)
        else:
            add_at(result, model.node_index, np.asarray(self.x.T @ node))
        sums = np.zeros((len(data.edges) if self.own else len(model.edge_index), *edge.shape[1:]))
        np.add.at(sums, table, edge)
        if data.joint:
            add_at(result, model.edge_index[:, 0, 0], np.asarray(data.f.T @ sums.reshape(-1)))
        elif self.own:
            add_at(result, model.edge_index, np.asarray(data.f.T @ sums.reshape(len(sums), -1)).reshape(model.edge_index.shape))
        else:
            add_at(result, model.edge_index, sums)
        return result


def add_at(result: np.ndarray, index: np.ndarray, value: np.ndarray) -> None:
    """Add values to the weights that an index map names."""
    used = index >= 0
    np.add.at(result, index[used], value[used])


def _partition(model: BoundModel, data: Encoded, n_jobs: int, max_cells: int, each: bool) -> LogPartition:
    found = model.tables(np.zeros(model.n_weights), data)
    return LogPartition(
        data.graphs, data.node_ptr, data.edge_ptr, data.edges, data.n_states, found.edge_table, found.edge_weight, model.n_labels,
        each, n_jobs, max_cells,
    )  # fmt: skip


def marginals(
    model: BoundModel, w: np.ndarray, samples: Any, n_jobs: int = 1, max_cells: int = MAX_CELLS, tol: float = 1e-6
) -> list[Marginals]:
    r"""Marginals :math:`p(y_v)` and :math:`p(y_u, y_v)` of :math:`p(y) \propto e^{F(y)}` for new samples.

    Parameters
    ----------
    model : BoundModel
    w : ndarray, shape (n_weights,)
    samples : sequence
        What the model encodes.
    n_jobs, max_cells
        As in `LikelihoodObjective`.
    tol : float
        On other graphs, how far the bound of an example may be from its minimum.
    """
    data = model.encode(samples)
    refuse_factors(data.factors, "predict_marginals")
    if not data.n_examples:
        return []
    part = _partition(model, data, n_jobs, max_cells, True)
    tables = model.tables(w, data)
    found = part(model.unary(w, data), tables.bank, allowed=np.full(data.n_examples, tol))
    nodes, edges = np.split(found.node, data.node_ptr[1:-1]), np.split(found.edge, data.edge_ptr[1:-1])
    return [
        Marginals(node, edge, float(value), bool(exact))
        for node, edge, value, exact in zip(nodes, edges, found.upper, part.exact, strict=True)
    ]


def log_partition(problem: Problem) -> float:
    r""":math:`\log\sum_y e^{F(y)}` of a problem without cliques, by elimination in plain numpy."""
    order = elimination_order(problem)
    assert order is not None
    tables = (problem.tables[problem.edge_table] * problem.edge_weight[:, None, None])[None]
    found = eliminate(order, problem.graph.edges, problem.n_states, problem.unary[None], tables)
    return float(found.log_z[0]) + problem.offset
