"""Labeler: what the estimators of lists of structures share; each adds how its input becomes graph samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.cliques import Cliques
from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.graph import Graph
from ..core.parameters import Elsewhere, Flag, Maybe, OneOf, settings
from ..core.problem import Problem
from ..inference.base import Solver
from ..learning.driver import Learner
from ..learning.learners.grow import TreeGrower
from ..learning.result import LearningResult
from ..models.bound import FORBIDDEN, BoundModel
from ..models.convex import ConvexBound
from ..models.features import Codes
from ..models.graph_model import GraphModel
from ..models.labels import read_labels
from ..models.sample import GraphSample
from ..models.scaling import SCALE, Scaling, collapsed, very_different_scales
from ..models.second_order import PairLayout
from ..models.trees import TreeLayout
from ..shards.dataset import ShardedDataset
from .answers.confidence import RankedLabels, label_numbers
from .answers.inspection import column_names, place_of
from .latent.partial import partly_labelled
from .latent.states import States, with_states
from .memory import Size, chain_size, check_room, data_bytes, model_bytes, total
from .pipeline import Bound, Data, MaxSumEstimator, Plan, best, labels_of
from .settings import Settings, as_jobs
from .surrogates import SURROGATES, sample_operators, surrogate_of
from .targets import Coding, Rule, allowed_labels, form_of, in_form, split_sets, unmasked


class Labeler(MaxSumEstimator):
    """Base of the labelers; subclasses have an ``__init__`` of their own, `_list` and `_samples`."""

    classes: Any
    scale: Any
    _coding: Rule | None
    _states: States | None = None

    _parameters = settings(
        surrogate=Maybe(OneOf(*SURROGATES, "auto")),
        features=Elsewhere("None, 'auto' or NodeFeatures, as `GraphModel` takes them"),
        symmetric=Flag(),
        scale=SCALE,
        classes=Elsewhere("None, or all labels that exist, as `bind` takes them"),
        unknown=OneOf("drop", "infer", "complete"),
        n_hidden=Elsewhere("whole numbers >= 1, of a dictionary by class; the classes are known to `fit`"),
        forbidden=Elsewhere(
            "None, 'bio', 'bioes', pairs of labels, or a dictionary of these, which the classes of the data decide"
        ),
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        return tags

    # ---- what a labeler adds -------------------------------------------------------------------------------------

    @abstractmethod
    def _list(self, X: Any) -> list[Any]:
        """The input as a list with one item a sample."""

    @abstractmethod
    def _samples(self, items: list[Any], facts: dict[str, Any] | None = None) -> list[GraphSample]:
        """The samples; ``facts`` are those of the last fit by default."""

    def _facts(self, items: list[Any], weight: np.ndarray) -> dict[str, Any]:
        """What the training set says about features, as attributes that `fit` sets at its end."""
        return {"scaling_": Scaling.fit([self._observed(item) for item in items], weight, self.scale)}

    def _observed(self, item: Any) -> Any:
        """The features of an item, to be scaled."""
        return item

    def _scaling(self, facts: dict[str, Any] | None) -> Scaling:
        """How features are scaled; models of before this was known leave them."""
        found: Scaling | None = (vars(self) if facts is None else facts).get("scaling_")
        return Scaling() if found is None else found

    def _size(self, item: Any) -> Size:
        """Nodes, edges and features of one item, before anything is made of it."""
        return chain_size(item)

    def _edge_names(self) -> tuple[list[str], list[str]]:
        """Names of edge types and of edge features; empty for numbers."""
        return [], []

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, executor: Any = None) -> Self:
        """Learn weights. An earlier fit is forgotten, unless ``warm_start`` is on and the data are the same.

        Parameters
        ----------
        X : list or ShardedDataset
            Samples, or a folder of shards with samples and labels; for these the surrogates ``margin``, ``lp`` and ``qp``.
        y : list of array-like
            A label for each node of each sample; -1, None, NaN, pandas' NA, an empty string or masked where unknown (-1 and the empty string
            are classes where ``classes`` declares them). Nodes of unknown label, and their edges, are
            left out of training.
        sample_weight : array-like, shape (n_samples,), optional
            Weights >= 0 of the slacks; a weight of 2 is as good as the sample twice, 0 as good as without it.
        executor : None, str, Executor or dask.distributed.Client
            Who works on shards: ``"serial"``, ``"threads"``, ``"processes"`` or a Dask cluster; weights do not depend on it.
        """
        for name in ("stream_", "stream_names_", "stream_classes_"):  # of `partial_fit`, which fit forgets
            self.__dict__.pop(name, None)
        if isinstance(X, ShardedDataset):
            if y is not None or sample_weight is not None:
                raise InvalidSampleError("y or sample_weight is given beside shards, wanted None: shards hold their labels.")
            from .sharded import fit_shards

            return fit_shards(self, X, executor)  # type: ignore[no-any-return]
        if executor is not None:
            raise InvalidParameterError(
                f"executor is {executor!r}, but X is in memory; wanted n_jobs=... for threads, or X=ShardedDataset(folder)."
            )
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        r"""Learn from a chunk of data beside what was learned from those before it, whose data are forgotten.

        Of all examples seen before one plane is kept, :math:`\sum_j c_j\xi_j(w) \ge \beta - \langle w, v\rangle`, and the chunk is trained by
        `BlockFrankWolfe` with it. So ``stream_.lower_bound`` is valid for the objective of *all data seen*: no weights have a smaller one. ``result_``
        is about the chunk beside that plane; its objective is no upper bound for all data. A chunk that comes twice counts twice; for ``n`` passes
        over the data give a ``sample_weight`` of ``1 / n``.

        Parameters
        ----------
        X, y
            As in `fit`, with features that do not depend on the data (arrays, CSR matrices, ``features=Hashed(...)``).
        classes : list, optional
            All labels that will ever be seen: needed in the first call, unless the estimator declares them.
        sample_weight : array-like, shape (n_samples,), optional
        """
        from .streaming import learn_chunk

        learn_chunk(self, X, y, classes, sample_weight)
        return self

    def to_torch(self, **settings: Any) -> Any:
        """A linear scorer and a layer of PyTorch that start from the learned weights; see `maxsum.torch.from_estimator`, which takes the settings.

        Returns
        -------
        scorer : torch.nn.Linear
        layer : maxsum.torch.StructuredHinge
        """
        check_is_fitted(self, "model_")
        self._refuse_states("to_torch", "a layer's loss is that of its labels")
        from importlib import import_module

        return import_module("maxsum.torch").from_estimator(
            self, **settings
        )  # by name: layers stand above estimators, and PyTorch is optional

    def predict_shards(self, X: ShardedDataset, folder: str | Path, executor: Any = None) -> ShardedDataset:
        """Predict shard by shard, into a new folder of shards that hold labels alone.

        Parameters
        ----------
        X : ShardedDataset
        folder : path
        executor : None, str, Executor or dask.distributed.Client
            As in `fit`.
        """
        check_is_fitted(self, "model_")
        self._refuse_states("predict_shards", "shards hold labels; predict(X) gives classes")
        from .sharded import predict_shards

        return predict_shards(self, X, folder, executor)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Data:
        items = self._list(X)
        return Data(items, as_labels(y), _weights(sample_weight, len(items)), form_of(y))

    def _bind(self, settings: Settings, data: Data, C: float, classes: Any = None, features: Any = None, **known: Any) -> Bound:
        """``classes`` and ``features`` stand in the place of those of the estimator, if they are given."""
        surrogate, declared = surrogate_of(settings), settings.classes if classes is None else classes
        items, labels, weight, form = data
        # Samples and labels as models read them; those of weight 0 are looked at, then left out.
        n_labels = len(declared) if isinstance(declared, (list, tuple, np.ndarray)) else 2
        check_room(data_bytes(total(self._size(item) for item in items), n_labels), "this training set")
        facts = self._facts(items, weight)
        samples = self._samples(items, facts)
        if all(sample.graph.shape is None for sample in samples):  # one label after the other is the only form then
            form = form.replace("flat", "").strip()
        told = labels  # with sets of those that are possible; for the convex training these are unknown
        labels, _ = split_sets(samples, labels)
        coding = Coding.read(samples, labels, declared)
        targets, declared = coding.targets, coding.declared
        settings = replace(settings, forbidden=coding.rules(settings.forbidden))
        if not weight.all():
            read_labels(samples, targets, declared)
            kept = np.flatnonzero(weight)
            samples, targets, told, weight = *([own[j] for j in kept] for own in (samples, targets, told)), weight[kept]
        # The model, on trees that are grown for it if it asks for them.
        model, spec = graph_model(settings, features), surrogate.energies(settings)
        if spec is not None and spec.trees is not None:
            bound = tree_model(settings, model, samples, targets, declared, weight, C)
        else:
            bound = model.bind(samples, targets, declared)
        words = ""
        if surrogate.potentials(settings) is None:
            constrained = bound.data.factors is not None or bound.has_forbidden
            two = bound.n_labels == 2 and not settings.has_states
            if two and not bound.is_forest and not constrained and bound.data.f.min() >= 0:
                bound = replace(model, potentials="supermodular").bind(samples, targets, declared)
                words = "supermodular potentials, as two labels on graphs with cycles are then solved exactly; "
            else:
                why = (
                    "classes have hidden states"
                    if settings.has_states
                    else "no graph has a cycle"
                    if bound.is_forest
                    else "no smaller class is known to fit"
                )
                why = "pairs of labels are forbidden" if bound.has_forbidden else "samples have factors" if constrained else why
                words = f"general potentials, as {why}; "
        partial = None
        if settings.unknown != "drop":
            bound, partial = partly_labelled(model, bound, coding, samples, targets, declared, told, weight)
        plain = bound = coding.named(bound)
        states = None
        if settings.has_states:
            states, bound, partial, settings = with_states(settings, plain, partial, weight)
        operators = sample_operators(spec, samples, targets, declared)
        found = (
            facts
            | labels_known(plain, coding.rule)
            | {"_states": states, "n_features_in_": _n_features_in(samples, bound), "labels_form_": form}
            | self._feature_names(items)
        )
        return Bound(bound, weight, settings, found, None, operators, words, partial)

    def _doubts(self, plan: Plan, result: LearningResult, finished: bool) -> Iterable[str]:
        """One class; features on very different scales; one label for all training data, of which samples are predicted until two labels differ."""
        model = plan.bound
        if type(model) is BoundModel and all(len(own) == 1 for own in model.classes):
            yield (
                f"all labels are {model.classes[0].tolist()[0]!r}, and so will be every prediction; wanted labels of two classes or more. If the data have "
                "others that the training set lacks, say classes=[...]."
            )
        if type(model) is not BoundModel or model.labels is None or isinstance(model.layout, (PairLayout, TreeLayout)):
            return
        if not hasattr(model.data.x, "tocsr"):
            yield very_different_scales([np.asarray(model.data.x)]) or ""
        if finished and len(model.classes) == 1 and not plan.settings.has_states:
            said = (labels_of(best(model.problem(self.weights_, j)), j) for j in range(model.n_examples))
            yield collapsed(said, np.split(model.labels, model.data.node_ptr[1:-1]), model.classes[0].tolist()) or ""

    def _feature_names(self, items: list[Any]) -> dict[str, Any]:
        """Names of features where samples are DataFrames; those of an earlier fit are forgotten."""
        self.__dict__.pop("feature_names_in_", None)
        names = column_names(items[0]) if items else None
        return {} if names is None else {"feature_names_in_": names}

    def _training_bytes(self, bound: Bound, learner: Learner) -> int:
        return model_bytes(bound.model)

    def _fold(self, data: Data, whole: Plan, C: float) -> Plan:
        classes, features = whole.bound.classes, _features(whole.bound)
        declared: Any = classes[0] if all(own is classes[0] for own in classes) else list(classes)
        return self._prepare(data, C, classes=declared, features=features if isinstance(features, Codes) else None)

    # ---- prediction ----------------------------------------------------------------------------------------------

    def _new(self, X: Any) -> list[GraphSample]:
        check_is_fitted(self, "model_")
        items = self._list(X)
        check_room(data_bytes(total(self._size(item) for item in items), self.model_.n_labels), "this prediction")
        return self._samples(items)

    def predict(self, X: Any, solver: Solver | str | None = None, observed: Any = None) -> Any:
        """Labels of the nodes of each sample, in the shape in which `fit` was given them.

        A list with an array for each sample, of shape (height, width) for grids; rows where ``y`` had rows, and one array for all samples where
        ``y`` was one and they are of one size. Answers that are not proven to be the best are told in a warning.

        Parameters
        ----------
        X : list
        solver : Solver or str, optional
            As in `predict_result`.
        observed : sequence of array-like, optional
            Labels that are known, a label for each node of each sample; -1, None and the like where nothing is known, and a ``set`` of labels where
            it is one of these. They are kept exactly, and the rest is labelled given them.
        """
        samples = self._new(X)
        if observed is None:
            found = self._predict(samples, solver, warn=True)
        else:
            found = self._shaped(samples, [labels_of(own, j) for j, own in enumerate(self._given(samples, observed, solver))])
        return in_form(getattr(self, "labels_form_", ""), found)

    def _observed_labels(self, samples: list[GraphSample], observed: Any) -> list[np.ndarray]:
        masks = allowed_labels(samples, observed, self._known_classes, self._coding)
        return masks if self._states is None else [mask[:, self._states.owner] for mask in masks]

    def _refuse_states(self, what: str, why: str) -> None:
        """Refuse what is about labels of the model where these are hidden states."""
        if self._states is not None:
            raise InvalidParameterError(
                f"{what} is for labels, which are hidden states in this model; wanted one with n_hidden=1: {why}."
            )

    def _weighted_labels(self) -> list[tuple[Any, int]]:
        if self._states is None:
            return super()._weighted_labels()
        return [(label, t) for t, own in enumerate(self.model_.classes) for label in own.tolist()]

    @property
    def _known_classes(self) -> list[np.ndarray]:
        """Classes of each node type, whose hidden states the labels of the model may be."""
        classes = list(self.model_.classes)
        return classes if self._states is None else [self._states.classes] * len(classes)

    def predict_states(self, X: Any, solver: Solver | str | None = None) -> list[np.ndarray]:
        """The hidden state of each node, its number 0, 1, ... within the class that `predict` gives; all 0 where classes have one.

        Parameters
        ----------
        X : list
            Samples, as in `fit`.
        solver : Solver or str, optional
            As in `predict`.
        """
        samples, states = self._new(X), self._states
        found = self._labellings(samples, solver, warn=True)
        place = np.zeros(self.model_.n_labels, dtype=np.int64) if states is None else states.place
        return [place[own].reshape(sample.graph.shape or own.shape) for sample, own in zip(samples, found, strict=True)]

    def _predict(self, samples: list[GraphSample], solver: Solver | str | None = None, warn: bool = False) -> list[np.ndarray]:
        return self._shaped(samples, self._labellings(samples, solver, warn))

    def _shaped(self, samples: list[GraphSample], labellings: Sequence[np.ndarray] | np.ndarray) -> list[np.ndarray]:
        """Numbers of labels as classes, in the shape of each sample."""
        found = [self._outside(sample, own) for sample, own in zip(samples, labellings, strict=True)]
        return [
            own if sample.graph.shape is None else own.reshape(sample.graph.shape)
            for sample, own in zip(samples, found, strict=True)
        ]

    def _at_once(self, samples: list[GraphSample]) -> Sequence[np.ndarray] | np.ndarray | None:
        """Labellings of several small forests by one call for their union."""
        plain = all(sample.graph.is_forest and not sample.cliques and not sample.factors for sample in samples)
        if len(samples) < 2 or not plain:
            return None
        model, data = self.model_, self.model_.encode(samples)
        bank, edge_table, edge_weight = model.tables(self.weights_, data).of(0, len(data.edges))
        problem = Problem._trusted(
            graph=Graph.union(data.graphs),
            unary=model.unary(self.weights_, data),
            tables=bank,
            edge_table=edge_table,
            edge_weight=edge_weight,
            n_states=data.n_states,
            cliques=Cliques.build(None, data.n_states, model.n_labels),
            offset=0.0,
        )
        labels = best(problem).labels
        return None if labels is None else np.split(labels, data.node_ptr[1:-1])

    def predict_marginals(self, X: Any, edge_marginals: bool = False) -> Any:
        r"""Probabilities of labels under :math:`p(y) = e^{F(x, y)} / Z`, after training with ``surrogate="likelihood"``.

        Exact on forests and on graphs of small width; elsewhere those of the tree-reweighted bound that training minimises.

        Parameters
        ----------
        X : list
            Samples.
        edge_marginals : bool
            Give those of edges as well.

        Returns
        -------
        nodes : list of ndarray, shape (n_nodes, K), or (height, width, K) for grids
            Rows sum to 1; columns are the classes of the node, in order.
        edges : list of ndarray, shape (n_edges, K, K)
            With ``edge_marginals``: for each edge the labels of its first node, then of its second.
        """
        samples = self._new(X)
        found = self._surrogate.marginals(self.model_, self.weights_, samples, as_jobs(self.n_jobs))
        shapes = [sample.graph.shape or (sample.n_nodes,) for sample in samples]
        nodes = [own.node.reshape(*shape, -1) for own, shape in zip(found, shapes, strict=True)]
        return (nodes, [own.edge for own in found]) if edge_marginals else nodes

    def label_numbers(self, X: Any, y: Any) -> list[np.ndarray]:
        return label_numbers(self._known_classes, self._coding, self._new(X), as_labels(y))

    def predict_k_best(
        self, X: Any, k: int = 5, *, diverse: int | None = None, time_limit: float | None = None, gap: float | None = None
    ) -> list[RankedLabels]:
        self._refuse_states(
            "predict_k_best", "several labellings have the same classes; maxsum.k_best ranks the states of problems(X)"
        )
        return super().predict_k_best(X, k, diverse=diverse, time_limit=time_limit, gap=gap)

    def _ranked(self, samples: list[GraphSample], j: int, rows: np.ndarray) -> list[np.ndarray]:
        return self._shaped([samples[j]] * len(rows), rows)

    def _table_of(self, samples: list[GraphSample], j: int, table: np.ndarray) -> np.ndarray:
        own = table if self._states is None else self._states.best(table)
        return own.reshape(*(samples[j].graph.shape or (samples[j].n_nodes,)), -1)

    def _outside(self, sample: GraphSample, labels: np.ndarray) -> np.ndarray:
        """Numbers of labels as classes."""
        if self._states is not None:
            found: np.ndarray = self._states.classes[self._states.owner[labels]]
            return found
        classes = self.model_.classes
        if sample.node_types is None or all(own is classes[0] for own in classes):
            return classes[0][labels]
        kinds = {own.dtype.kind for own in classes}
        numbers = kinds <= set("iuf")
        out = np.empty(len(labels), dtype=np.result_type(*classes) if len(kinds) == 1 or numbers else object)
        for t, own in enumerate(classes):
            here = sample.node_types == t
            out[here] = own[labels[here]]
        return out

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Fraction of right labels among all nodes whose label is known; a `ShardedDataset` holds its labels itself."""
        if isinstance(X, ShardedDataset):
            from .sharded import score_shards

            self._refuse_states("score on shards", "give lists of samples and labels")
            return score_shards(self, X)
        samples = self._new(X)
        weight = np.ones(len(samples)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weight.shape != (len(samples),):
            raise InvalidSampleError(
                f"sample_weight has shape {weight.shape}, wanted one number for each of {len(samples)} samples."
            )
        fraction = self._fraction(samples, as_labels(y), weight)
        if np.isnan(fraction):
            raise InvalidSampleError("no node has a known label, so there is nothing to score; wanted at least one.")
        return fraction

    def _fraction(self, samples: list[GraphSample], given: list[Any], weight: np.ndarray) -> float:
        own = self._predict(samples)
        given, _ = split_sets(samples, given)  # sets of possible labels count as unknown
        if self._coding is None:
            targets = read_labels(samples, given, self.classes_)
            texts = {own.dtype.kind in "US" for own in self._known_classes}
            strange = [t[known] for t, known in targets if known.any() and {t.dtype.kind in "US"} != texts]
            if len(texts) == 1 and strange:
                raise InvalidSampleError(
                    f"y has labels such as {strange[0].tolist()[0]!r}, but the classes of the model are {self._known_classes[0].tolist()[:5]}; wanted both to be "
                    "strings, or both numbers."
                )
        else:
            targets = read_labels(samples, self._coding.encode(samples, given), None)
            own = self._coding.encode(samples, own)
        right = [np.count_nonzero(z.reshape(-1)[known] == t[known]) for z, (t, known) in zip(own, targets, strict=True)]
        count = weight @ np.array([np.count_nonzero(known) for _, known in targets], dtype=np.float64)
        return float(weight @ np.array(right, dtype=np.float64) / count) if count > 0 else np.nan

    # ---- what was learned ----------------------------------------------------------------------------------------

    @property
    def weight_names_(self) -> list[str]:
        """Names of the weights, in the order of ``weights_``."""
        check_is_fitted(self, "model_")
        return self.model_.names

    @property
    def coef_blocks_(self) -> dict[str, np.ndarray]:
        """Weights by name: ``nodes`` (d, K), ``bias`` (K,) and ``edges`` (K, K), one for each type and edge feature."""
        check_is_fitted(self, "model_")
        return coefficients(self.model_, self.weights_, *self._edge_names())

    def _class_weights(self, label: Any, node_type: int) -> tuple[list[str], np.ndarray]:
        blocks, classes = self.coef_blocks_, self.model_.classes
        if not 0 <= node_type < len(classes):
            raise InvalidParameterError(f"node_type is {node_type!r}, wanted 0 to {len(classes) - 1}.")
        where = f"[type {node_type}]" if f"nodes[type {node_type}]" in blocks else ""
        k = place_of(label, classes[node_type])
        names = list(self.model_.layout.model.features.names)
        given = getattr(self, "feature_names_in_", None)
        names = given.tolist() if given is not None and len(given) == len(names) else names
        weights = blocks[f"nodes{where}"][..., k]
        if f"bias{where}" in blocks:
            weights, names = np.concatenate([weights, blocks[f"bias{where}"][..., [k]]], axis=-1), [*names, "bias"]
        if weights.ndim == 2:  # without homogeneity each node has weights of its own
            names = [f"node {v}: {name}" for v in range(len(weights)) for name in names]
        return names, weights.reshape(-1)

    def _axes(self, name: str) -> list[list[Any]]:
        classes = self.model_.classes
        shared = all(own is classes[0] for own in classes)
        return [classes[0].tolist() if shared else list(range(self.model_.n_labels))] * 2


def _weights(given: Any, n_samples: int) -> np.ndarray:
    weight = np.ones(n_samples) if given is None else np.asarray(given, dtype=np.float64)
    good = weight.shape == (n_samples,) and bool((np.isfinite(weight) & (weight >= 0)).all())
    if not good or (n_samples and not weight.any()):
        raise InvalidSampleError(f"sample_weight is {given!r}, wanted {n_samples} finite numbers >= 0 that are not all 0.")
    return weight


def _n_features_in(samples: Sequence[GraphSample], bound: BoundModel) -> int:
    """Columns of the observations; the number of codes, or of features in dicts, where they have none."""
    for sample in samples:
        if sample.n_nodes and sample.kind in ("dense", "sparse"):
            return int(sample.X.shape[1])
    return int(_features(bound).n_features)


def _features(bound: BoundModel) -> Any:
    return bound.layout.model.features


def graph_model(settings: Settings, features: Any = None) -> GraphModel:
    """Node features and tables as the settings say, general tables where that is open; ``features`` in the place of theirs if given."""
    coder = settings.features if features is None else features
    potentials = surrogate_of(settings).potentials(settings) or "general"
    return GraphModel(
        "auto" if coder is None else coder, potentials, settings.bias, settings.homogeneous, settings.symmetric, settings.tie,
        settings.forbidden,
    )  # fmt: skip


def tree_model(
    settings: Settings,
    model: GraphModel,
    samples: list[GraphSample],
    labels: Any,
    classes: Any,
    weight: np.ndarray,
    C: float,
) -> BoundModel:
    """The model with the leaves of trees, grown on the samples, as node features and edge types; it leads new samples through them.

    Operators have no part in the growth: their weights are learned with all others afterwards.
    """
    spec, surrogate = settings.potentials, str(settings.surrogate)
    if settings.class_weight is not None:
        raise InvalidParameterError("class_weight is given beside trees, wanted None: give the weights as a loss instead.")
    own = spec.trees
    grower = TreeGrower(
        own.ask(samples), own.node_depth, own.edge_depth, own.n_candidates, own.min_items, own.max_items, C, settings.loss, surrogate,
        replace(spec, trees=None, operators=None, n_operators=0), n_jobs=settings.n_jobs, random_state=settings.random_state, model=model,
    )  # fmt: skip
    return grower.grow(samples, labels, classes, sample_weight=weight).model.base


def labels_known(bound: Any, rule: Rule | None) -> dict[str, Any]:
    """Attributes of an estimator that has learned the classes of a model."""
    same = all(own is bound.classes[0] for own in bound.classes)
    return {"classes_": bound.classes[0] if same else list(bound.classes), "_coding": rule, "_states": None}


def as_labels(y: Any) -> list[Any]:
    """Labels sample by sample, None where they are masked."""
    if y is None:
        raise InvalidSampleError("y is None, wanted a list with the labels of each sample.")
    return [unmasked(own) for own in y]


def coefficients(
    bound: BoundModel | ConvexBound, weights: np.ndarray, type_names: list[str], feature_names: list[str]
) -> dict[str, np.ndarray]:
    """Weights as arrays by name, 0 where a table has no weight; without homogeneity a first axis runs over nodes or edges.

    Convex energies have matrices and linear terms in the place of tables, without homogeneity one for each edge by name.
    """
    layout = bound.layout
    if isinstance(bound, ConvexBound):
        nodes, terms, matrices = convex_blocks(bound, weights)
        blocks = _node_blocks(bound.base, layout, nodes)
        if isinstance(layout, TreeLayout):
            type_names = layout.trees.leaf_names(type_names)
        for where, term, matrix in zip(_places(layout, type_names, feature_names), terms, matrices, strict=True):
            blocks |= {f"linear{where}": term, f"matrices{where}": matrix}
        return blocks | ({"operators": weights[bound.slices[3]]} if bound.spec.n_operators else {})
    blocks = _node_blocks(bound, layout, weights)
    n_edges = 1 if layout.model.homogeneous else layout.graph_size[1]
    n_types, n_features = layout.n_edge_types if layout.model.homogeneous else 1, layout.n_edge_features
    index = bound.edge_index[: n_types * n_edges * n_features]
    edges = np.where(index == FORBIDDEN, -np.inf, _take(weights, index))
    edges = edges.reshape(n_types, n_edges, n_features, bound.n_labels, bound.n_labels)
    names = _places(layout, type_names, feature_names)
    for t in range(n_types):
        for f in range(n_features):
            own = edges[t, :, f]
            if layout.model.homogeneous:
                blocks[f"edges{names[t * n_features + f]}"] = own[0]
            else:
                blocks["edges" + (f"[{_name(feature_names, f, 'feature')}]" if n_features > 1 else "")] = own
    return blocks


def _take(weights: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.where(index >= 0, weights[np.maximum(index, 0)], 0.0) if len(weights) else np.zeros(index.shape)


def _node_blocks(bound: BoundModel, layout: Any, weights: np.ndarray) -> dict[str, np.ndarray]:
    model, width = layout.model, layout.width
    n_nodes = 1 if model.homogeneous else layout.graph_size[0]
    blocks: dict[str, np.ndarray] = {}
    nodes = _take(weights, bound.node_index).reshape(layout.n_node_types, n_nodes, width, bound.n_labels)
    for t, own in enumerate(nodes):
        where = f"[type {t}]" if len(nodes) > 1 else ""
        own = own[:, :, : layout.n_classes[t]]
        own = own[0] if model.homogeneous else own
        blocks[f"nodes{where}"] = own[..., : width - model.bias, :]
        if model.bias:
            blocks[f"bias{where}"] = own[..., -1, :]
    return blocks


def _places(layout: Any, type_names: list[str], feature_names: list[str]) -> list[str]:
    """Type (or edge, without homogeneity) and feature of each table, in brackets where there are several."""
    one = layout.model.homogeneous
    n_blocks, n_features = layout.n_edge_types if one else layout.graph_size[1], layout.n_edge_features
    found = []
    for t in range(n_blocks):
        for f in range(n_features):
            parts = [_name(type_names if one else [], t, "type" if one else "edge")] if n_blocks > 1 else []
            parts += [_name(feature_names, f, "feature")] if n_features > 1 else []
            found.append(f"[{', '.join(parts)}]" if parts else "")
    return found


def _name(names: list[str], number: int, kind: str) -> str:
    return names[number] if names else f"{kind} {number}"


def convex_blocks(model: ConvexBound, w: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    r"""Weights of the nodes, as long as those of the base model, linear terms :math:`b_p`, and matrices :math:`W_p`."""
    nodes = np.zeros(max(model.base.n_weights, model.slices[0].stop))
    nodes[model.slices[0]] = w[model.slices[0]]
    places = model.family.places
    terms = np.zeros((len(places), 2 * model.n_labels))
    if model.spec.linear:
        terms = w[model.slices[1]].reshape(terms.shape)
    return nodes, [own[place] for own, place in zip(terms, places, strict=True)], model.matrices(w)
