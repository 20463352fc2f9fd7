"""SolverOracle: a solver, or a function of the user, that answers example by example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...core.errors import CertificateError, OracleError
from ...core.problem import Problem
from ...core.result import Result
from ...executors.threads import thread_map
from ...inference.base import Solver
from ...inference.dispatch import solve
from ...inference.moves.icm import polish
from ...inference.prepare import prepare
from ...kernels.records import Design
from ...models.bound import BoundModel
from .base import Effort, Key, augmented
from .bracket import BracketOracle
from .factored import FactorOracle, possible

_AGREE = 1e-9  # a bound may be so far below a known score, relative to it: sums of the same terms in another order
_POLISH_SWEEPS = 10  # local search behind the score that a bound is compared with: cheap beside any oracle


class SolverOracle:
    """One call of a solver, or of a function of the user, an example.

    Labels that come without a bound get one from a `BracketOracle`, with the effort that the learner asks for, and are replaced by its
    labels where those score more: without a bound nothing would be proven about the weights, and training would end far from the best.
    """

    def __init__(self, model: BoundModel, design: Design, solver: Solver | str | Callable[[Problem], Any] | None, exact: bool):
        self.model, self.design, self.solver, self.exact = model, design, solver, exact
        self.bracket: BracketOracle | FactorOracle | None = None

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Labellings of the solver, with gaps from its certificates."""
        problems = augmented(self.model, self.design.loss, w, examples)
        found = thread_map(self._ask, list(zip(examples.tolist(), problems, strict=True)), n_jobs)
        keys, gaps = [labels for labels, _ in found], np.array([gap for _, gap in found])
        left = np.flatnonzero(np.isinf(gaps))
        if len(left):
            if self.bracket is None:
                self.bracket = self._new_bracket()
            for i, key, gap in zip(left.tolist(), *self.bracket.answer(w, examples[left], effort, n_jobs), strict=True):
                ahead = problems[i].score(key) - problems[i].score(keys[i])
                keys[i], gaps[i] = (key, gap) if ahead > 0 else (keys[i], gap - ahead)
        return keys, gaps

    def state(self) -> dict[str, np.ndarray]:
        """Messages behind the bounds, for a checkpoint."""
        return {} if self.bracket is None else self.bracket.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The state that `state` gave."""
        self.bracket = self._new_bracket() if "oracle_messages" in state else None
        if self.bracket is not None:
            self.bracket.restore(state)

    def _new_bracket(self) -> BracketOracle | FactorOracle:
        if self.model.data.factors is not None or self.model.has_forbidden:
            return FactorOracle(self.model, self.design, exact=False)
        return BracketOracle(self.model, self.design)

    def _ask(self, item: tuple[int, Problem]) -> tuple[np.ndarray, float]:
        """Labels, and the gap that is proven for them; infinite without a proof."""
        j, problem = item
        if self.solver is None or isinstance(self.solver, (str, Solver)):
            result = solve(problem, self.solver)
            if len(problem.factors) or self.model.has_forbidden:
                return possible(problem, result, self.model.truth(j))
            if result.labels is None:
                raise OracleError(f"example {j}: {result.solver} returned no labelling ({result.message})")
            return result.labels, result.gap if result.certificate is not None else np.inf
        try:
            given = self.solver(problem)
        except Exception as error:
            raise OracleError(f"example {j}: the oracle raised {type(error).__name__}: {error}") from error
        return _checked(j, problem, given, self.model.truth(j))


def _checked(j: int, problem: Problem, given: Any, truth: np.ndarray) -> tuple[np.ndarray, float]:
    """Labels and gap of what a user's oracle returned: labels (the gap is then infinite), (labels, bound), or a `Result`.

    A bound is compared with labellings that are easy to have: the one returned, the same improved node by node, the truth.
    """
    bound: Any = None
    if isinstance(given, Result):
        given, bound = given.labels, given.bound
    elif isinstance(given, tuple) and len(given) == 2:
        given, bound = given
    labels = np.asarray(given)
    if labels.dtype.kind not in "iu" or labels.shape != (problem.n_nodes,):
        raise OracleError(
            f"example {j}: the oracle returned shape {labels.shape}, dtype {labels.dtype}; wanted {problem.n_nodes} label numbers."
        )
    if labels.size and (labels.min() < 0 or (labels >= problem.n_states).any()):
        node = int(np.flatnonzero((labels < 0) | (labels >= problem.n_states))[0])
        raise OracleError(
            f"example {j}: the oracle returned label {labels[node]} at node {node}, wanted 0..{problem.n_states[node] - 1}."
        )
    if bound is not None and (not isinstance(bound, (int, float, np.number)) or not float(bound) > -np.inf):
        raise OracleError(f"example {j}: the oracle returned the bound {bound!r}, wanted a number, or labels alone.")
    labels, score = labels.astype(np.int32), problem.score(labels)
    if score == -np.inf:
        raise OracleError(
            f"example {j}: the oracle returned labels that the factors of the sample forbid, or a rule of neighbours, wanted some that they allow."
        )
    if bound is None or bound == np.inf:
        return labels, np.inf
    if len(problem.factors):  # local search looks at nodes and edges alone
        known = max(score, problem.score(truth))
    else:
        known = max(score, problem.score(polish(prepare(problem).net, labels.copy(), _POLISH_SWEEPS)), problem.score(truth))
    if bound < known - _AGREE * (1.0 + abs(known)):
        raise CertificateError(f"example {j}: the oracle's bound {bound} is below {known}, the score of a known labelling.")
    return labels, max(0.0, float(bound) - score)
