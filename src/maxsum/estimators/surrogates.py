"""The surrogates: for each what is minimised, by whom where nobody chose, how it predicts, and what does not go with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.certificates.base import MessageCertificate
from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.problem import Messages, Problem
from ..core.result import Guarantee, Result, Termination
from ..executors.threads import thread_map
from ..inference.base import Run
from ..learning import registry
from ..learning.driver import Learner
from ..learning.dual.associative import lp_learner
from ..learning.dual.dual_bound import many_blocks
from ..learning.learners.perceptron import Perceptron
from ..learning.learners.quasi_newton import ProjectedQuasiNewton
from ..learning.learners.smoothed_lp import SmoothedLP
from ..learning.learners.subset_ascent import unsuited
from ..learning.objectives.likelihood import LikelihoodObjective, marginals
from ..learning.objectives.logistic import LogisticObjective, predict_logistic
from ..learning.objectives.lp import LPObjective
from ..learning.objectives.margin import MarginObjective, loss_table
from ..learning.objectives.multilabel import MultiLabelObjective, SubsetOracle
from ..learning.objectives.pseudolikelihood import PseudoLikelihoodObjective
from ..learning.objectives.qp import QPObjective, predict_convex
from ..learning.oracles.bracket import BracketOracle
from ..learning.oracles.clusters import ClusterOracle
from ..learning.oracles.enumeration import EnumerationOracle
from ..learning.oracles.exact import ForestOracle
from ..learning.oracles.factored import FactorOracle
from ..learning.oracles.relaxed import RelaxedOracle
from ..learning.oracles.second_best import SecondBestOracle
from ..learning.oracles.second_order import PairLoss, PairOracle
from ..learning.oracles.solver import SolverOracle
from ..learning.penalties.hinge import PenalisedHinge
from ..learning.penalties.objective import L1_SHARES, PenalisedObjective
from ..learning.whole.zero_one import ZeroOneObjective
from ..losses import as_loss
from ..models.bound import BoundModel, Encoded
from ..models.convex import Convex, ConvexBound
from ..models.labels import read_labels
from ..models.matting import RestrictedOperator
from ..models.multilabel import MultiLabelBound, MultiLabelModel, SingleNodes
from ..models.sample import GraphSample
from ..models.second_order import second_order
from ..models.trees import Trees
from .costs import (
    is_zero_one,
    weighted_loss,
)
from .memory import check_room, model_bytes
from .settings import Settings

_SWEEPS = 1_000_000  # of Perceptron on the trivial surrogate where max_iter is not set: consistent sets (Sudoku) took up to 130 000, each is cheap


class Choice(NamedTuple):
    """A learner by its name, and why it is this one."""

    learner: str
    why: str


class Point(NamedTuple):
    """What a convex energy says of one sample: labels, the point (n_nodes, K) they are rounded from, marginals, and words."""

    labels: np.ndarray
    mu: np.ndarray
    marginals: np.ndarray
    termination: Termination
    words: str


class Surrogate(ABC):
    """What is minimised. One object of each class below is in `SURROGATES`, under its name.

    Attributes
    ----------
    name, default : str
        Its own name, and that of the learner where nobody chose.
    has_loss, asks_oracle : bool
        Whether losses of labels have an effect, and whether training asks who maximises problems.
    on_rows : bool
        Whether it is there for rows of a table.
    rounds : bool
        Whether it has predictions of its own (`points`): those of a relaxation, rounded.
    has_penalties : bool
        Whether other penalties than the sum of squares are there.
    """

    name: ClassVar[str]
    default: ClassVar[str]
    has_loss: ClassVar[bool] = True
    asks_oracle: ClassVar[bool] = True
    on_rows: ClassVar[bool] = True
    rounds: ClassVar[bool] = False
    has_penalties: ClassVar[bool] = False
    no_loss: ClassVar[str] = ""
    """Why there is no loss."""

    def check(self, settings: Settings, learner: Learner) -> None:
        """Refuse settings that contradict each other, or that this surrogate or learner would ignore."""
        self._check_potentials(settings)
        if settings.smoothing > 0 and self.name != "lp":
            raise InvalidParameterError(
                f"smoothing is {settings.smoothing!r}, wanted 0: only surrogate='lp' has a smooth version."
            )
        if settings.penalty != "l2" and not self.has_penalties:
            raise InvalidParameterError(
                f"penalty is {settings.penalty!r} beside surrogate={self.name!r}, wanted 'l2': absolute values are for surrogate='likelihood' and 'margin', "
                "whose learners have lower bounds for them."
            )
        if settings.tighten and self.name != "lp":
            raise InvalidParameterError(
                f"tighten is True beside surrogate={self.name!r}, wanted False: only surrogate='lp' has a relaxation to tighten."
            )
        if settings.order == 2:
            self._check_second_order(settings)
        if settings.forbidden is not None:
            self._check_forbidden(settings)
        if settings.unknown != "drop":
            self._check_unknown(settings)
        if settings.has_states:
            self._check_states(settings)
        plain = isinstance(settings.loss, str) and settings.loss == "hamming"
        if is_zero_one(settings.loss):
            self._check_zero_one(settings)
        elif not self.has_loss and not plain:
            raise InvalidParameterError(
                f"loss is {settings.loss!r} beside surrogate={self.name!r}, wanted the default 'hamming', which it does not use: {self.no_loss}. "
                "Losses go with surrogate='margin', 'lp' or 'qp'."
            )
        if not self.has_loss and settings.class_weight is not None:
            raise InvalidParameterError(
                f"class_weight is given beside surrogate={self.name!r}, wanted None: {self.no_loss}. Give sample_weight to fit, or use "
                "surrogate='margin'."
            )
        if not self.asks_oracle and settings.oracle is not None:
            raise InvalidParameterError(
                f"oracle is {settings.oracle!r} beside surrogate={self.name!r}, wanted None: training needs no max-sum solver. A solver of "
                "predictions is solver=..."
            )
        if isinstance(learner, Perceptron) and not (plain and settings.class_weight is None):
            raise InvalidParameterError(
                f"loss is {settings.loss!r} and class_weight {settings.class_weight!r} beside the learner Perceptron, wanted 'hamming' and None: it "
                "separates the examples, whatever a wrong label costs. Losses go with other learners."
            )

    def _check_potentials(self, settings: Settings) -> None:
        given = settings.potentials
        if isinstance(given, Convex) or (isinstance(given, str) and given == "convex"):
            raise InvalidParameterError(
                f"potentials is {given!r} beside surrogate={self.name!r}, wanted surrogate='qp' or 'logistic' with convex energies."
            )

    def _check_zero_one(self, settings: Settings) -> None:
        kept = {"order": 1, "oracle": None, "unknown": "drop", "n_hidden": 1}
        wrong = [f"{name}={getattr(settings, name)!r}" for name, value in kept.items() if getattr(settings, name) != value]
        if self.name not in ("margin", "trivial") or wrong:
            raise InvalidParameterError(
                f"loss is {settings.loss!r} beside {', '.join(wrong) or f'surrogate={self.name!r}'}, wanted surrogate='margin' (or 'trivial', whose "
                "slack bounds it), order=1, no oracle, unknown='drop' and n_hidden=1: it needs the second best labelling exactly, and is no sum over nodes."
            )

    def _check_unknown(self, settings: Settings) -> None:
        kept = {"order": 1, "warm_start": False, "checkpoint": None}
        wrong = [f"{name}={getattr(settings, name)!r}" for name, value in kept.items() if getattr(settings, name) != value]
        if self.name != "margin" or wrong:
            raise InvalidParameterError(
                f"unknown is {settings.unknown!r} beside {', '.join(wrong) or f'surrogate={self.name!r}'}, wanted surrogate='margin', order=1, no warm_start and no "
                "checkpoint: several trainings of the margin hinge follow each other. Or leave unknown nodes out, unknown='drop'."
            )

    def _check_states(self, settings: Settings) -> None:
        kept = {"order": 1, "warm_start": False, "checkpoint": None}
        wrong = [f"{name}={getattr(settings, name)!r}" for name, value in kept.items() if getattr(settings, name) != value]
        wrong += [] if settings.tie is None else ["tie"]
        if settings.potentials not in (None, "general", "associative", "potts"):
            wrong.append(f"potentials={settings.potentials!r}")
        if self.name != "margin" or wrong:
            raise InvalidParameterError(
                f"n_hidden is {settings.n_hidden!r} beside {', '.join(wrong) or f'surrogate={self.name!r}'}, wanted surrogate='margin', order=1, no tie, no "
                "warm_start, no checkpoint, and general, associative or potts potentials: several trainings of the margin hinge follow each other, and states "
                "have no order. Or one state a class, n_hidden=1."
            )

    def _check_forbidden(self, settings: Settings) -> None:
        if self.name not in ("margin", "likelihood"):
            raise InvalidParameterError(
                f"forbidden is given beside surrogate={self.name!r}, wanted 'margin' or 'likelihood': a score of -inf has no finite messages or "
                "energies to learn with."
            )
        if settings.potentials not in (None, "general"):
            raise InvalidParameterError(
                f"forbidden is given beside potentials={settings.potentials!r}, wanted 'general': a score of -inf fits no smaller class of tables."
            )
        if settings.order == 2:
            raise InvalidParameterError(
                "forbidden is given beside order=2, wanted order=1: chains over pairs have rules of their own."
            )

    def _check_second_order(self, settings: Settings) -> None:
        raise InvalidParameterError(
            f"order is 2 with surrogate={self.name!r}, wanted 'margin': labels of pairs exclude each other. Or use order=1."
        )

    def potentials(self, settings: Settings) -> str | None:
        """The tables of the model; None where they are to be chosen for the data."""
        found: str | None = settings.potentials
        return found

    def energies(self, settings: Settings) -> Convex | None:
        """The convex energies in the place of tables, where there are any."""
        return None

    def choose(self, settings: Settings, bound: BoundModel) -> Choice:
        """The learner where nobody chose."""
        return Choice(self.default, f"the default of the {self.name} surrogate")

    def faster(self, settings: Settings, objective: Any) -> Choice | None:
        """A learner that is faster than the default for the sizes of an objective."""
        return None

    def instead(self, settings: Settings, objective: Any) -> Instead | None:
        """Another surrogate that suits the sizes of an objective better, where nobody chose."""
        return None

    @abstractmethod
    def objective(self, settings: Settings, bound: BoundModel, weight: np.ndarray, C: float, operators: Any = None) -> Any:
        """What is minimised; its ``model`` may be another than ``bound``."""

    def model(self, settings: Settings, objective: Any, full: BoundModel | None) -> Any:
        """The model that predicts: that of the objective, or ``full``, where samples of unknown labels were cut for the training."""
        return objective.model if full is None else full

    def points(self, model: Any, w: np.ndarray, samples: Any, n_jobs: int) -> list[Point]:
        """Predictions of a surrogate that `rounds`."""
        raise TypeError(f"the surrogate {self.name} predicts labellings of the largest score, not rounded points.")

    def results(self, model: Any, w: np.ndarray, samples: Any, n_jobs: int) -> list[Result]:
        """`points` as answers to max-sum problems, with proofs."""
        raise TypeError(f"the surrogate {self.name} predicts labellings of the largest score, not rounded points.")

    def marginals(self, model: Any, w: np.ndarray, samples: Any, n_jobs: int) -> list[Any]:
        """Probabilities of labels, of a model that was trained for them."""
        raise InvalidParameterError(
            f"predict_marginals needs a model trained with surrogate='likelihood', but this one was with surrogate={self.name!r}, whose "
            "scores are no logarithms of probabilities. Set surrogate='likelihood' and fit again."
        )

    def describe(self, settings: Settings, objective: Any, learner: str) -> str:
        """Who maximises the problems of a training, and why."""
        return "no oracle, as the surrogate needs no max-sum solver"


class Margin(Surrogate):
    """Margin-rescaled hinge with the exact maximum, or a proven bracket of it; of chains over pairs of labels with order 2."""

    name, default = "margin", "BlockFrankWolfe"
    has_penalties = True

    def check(self, settings: Settings, learner: Learner) -> None:
        super().check(settings, learner)
        if settings.penalty == "l2" or not self.has_penalties:
            return
        kept = {"order": 1, "unknown": "drop", "n_hidden": 1, "warm_start": False}
        wrong = [f"{name}={getattr(settings, name)!r}" for name, value in kept.items() if getattr(settings, name) != value]
        wrong += [f"loss={settings.loss!r}"] if is_zero_one(settings.loss) else []
        if settings.potentials not in (None, "general"):
            wrong.append(f"potentials={settings.potentials!r}")
        if wrong:
            raise InvalidParameterError(
                f"penalty is {settings.penalty!r} beside {', '.join(wrong)}, wanted order=1, unknown='drop', n_hidden=1, no warm_start, a loss of nodes and "
                "general potentials: cutting planes with absolute values need free weights and planes of their own. Or penalty='l2'."
            )

    def _check_second_order(self, settings: Settings) -> None:
        if settings.potentials not in (None, "general") or settings.symmetric:
            raise InvalidParameterError(
                f"order is 2 with potentials={settings.potentials!r}, symmetric={settings.symmetric!r}; wanted potentials='general' and "
                "symmetric=False, as scores of three labels have no such restriction. Or use order=1."
            )
        if settings.oracle is not None:
            raise InvalidParameterError(
                f"order is 2 with oracle={settings.oracle!r}, wanted None: chains over pairs have an exact oracle of their own."
            )

    def choose(self, settings: Settings, bound: BoundModel) -> Choice:
        if settings.penalty != "l2":
            return Choice("PenalisedCuttingPlane", "that of the hinge with penalties of absolute values")
        if not isinstance(bound.layout, MultiLabelModel):
            return super().choose(settings, bound)
        why = unsuited(bound) if isinstance(bound, MultiLabelBound) else "takes samples without unknown labels"
        why = why or ("asks no oracle, and one is given" if settings.oracle is not None else "")
        why = why or ("adds up losses of labels, and the loss is that of whole sets" if is_zero_one(settings.loss) else "")
        if why:
            return Choice(self.default, f"as SubsetAscent {why}")
        return Choice("SubsetAscent", "as all subsets of so few labels are scored")

    def instead(self, settings: Settings, objective: Any) -> Instead | None:
        """The linear relaxation for large graphs with cycles and many weights, such as one graph with known and unknown nodes."""
        tied = (settings.surrogate, settings.learner, settings.oracle, settings.checkpoint) != (
            None,
        ) * 4 or settings.warm_start
        fixed = (
            objective.model.data.factors is not None
            or settings.unknown != "drop"
            or settings.has_states
            or is_zero_one(settings.loss)
            or settings.penalty != "l2"
        )  # the linear relaxation of factors is not learned with
        if tied or fixed or settings.rows or settings.order != 1 or not many_blocks(objective):
            return None
        return Instead(
            SURROGATES["lp"], "the lp surrogate, as one slack for each of so large graphs with cycles converges slowly"
        )

    def objective(self, settings: Settings, bound: BoundModel, weight: np.ndarray, C: float, operators: Any = None) -> Any:
        loss = weighted_loss(settings, bound, weight)
        if is_zero_one(loss):
            return ZeroOneObjective(bound, C, weight, settings.n_jobs)
        if settings.order == 1:
            kind: Any = MultiLabelObjective if isinstance(bound, MultiLabelBound) else MarginObjective
            margin = kind(bound, C, loss, settings.oracle, weight, settings.n_jobs)
            share = L1_SHARES.get(settings.penalty, settings.penalty)
            return margin if share == "l2" else PenalisedHinge(margin, float(share))
        pairs, loss = second_order(bound), as_loss(loss)
        check_room(model_bytes(pairs), "this training")
        oracle = PairOracle(pairs, loss_table(bound, loss))
        return MarginObjective(pairs, C, PairLoss(loss, bound.n_labels), oracle, weight, settings.n_jobs)

    def describe(self, settings: Settings, objective: Any, learner: str) -> str:
        if hasattr(objective, "source"):
            return f"oracles where the shards are, by {type(objective.executor).__name__}"
        if learner in ("ProximalPoint", "CompactQP", "SmoothedLP", "FactorAscent"):
            return super().describe(settings, objective, learner)
        given, oracle = settings.oracle, objective.oracle
        if given is not None and given != "bracket":
            return f"oracle {given if isinstance(given, str) else type(given).__name__}, as given"
        kinds = {
            SecondBestOracle: "the best labellings other than the truth, exactly, as the loss is 0 or 1",
            SubsetOracle: "enumeration, as all sets of so few labels can be tried",
            EnumerationOracle: "enumeration, as all labellings of so small graphs can be tried",
            FactorOracle: f"{'elimination' if objective.exact else 'elimination or TRW-S with brackets'}, as samples have factors or forbidden pairs of labels",
            ForestOracle: "dynamic programming, as no training graph has a cycle",
            SolverOracle: "an exact solver by structure, as the graphs have cycles and solve() knows one for each",
            ClusterOracle: "TRW-S with cycles as clusters, which the examples on one graph share, and brackets",
            RelaxedOracle: "TRW-S, then the linear program where that leaves a gap, as the graphs have cycles",
            BracketOracle: "TRW-S with brackets, as the graphs have cycles and no fast exact solver fits them all",
        }
        return f"oracle {next((words for kind, words in kinds.items() if isinstance(oracle, kind)), type(oracle).__name__)}"


class Instead(NamedTuple):
    """Another surrogate where none is named, and why."""

    surrogate: Surrogate
    why: str


class LP(Margin):
    """Hinge with the maximum of the linear relaxation; with ``smoothing`` its smooth version."""

    name = "lp"
    has_penalties = False

    def _check_second_order(self, settings: Settings) -> None:
        Surrogate._check_second_order(self, settings)

    def choose(self, settings: Settings, bound: BoundModel) -> Choice:
        if settings.smoothing > 0 and isinstance(bound.layout, SingleNodes):
            raise InvalidParameterError(
                f"smoothing is {settings.smoothing!r} for classes that exclude each other, wanted 0: a single node has no relaxation to smooth."
            )
        usual = Surrogate.choose(self, settings, bound)
        return usual._replace(learner="SmoothedLP") if settings.smoothing > 0 else usual

    def faster(self, settings: Settings, objective: Any) -> Choice | None:
        """Another learner asks no oracle and goes on from nothing, so that the default stays with an oracle, a checkpoint or a warm start."""
        tied = settings.oracle is not None or settings.checkpoint is not None or settings.warm_start
        if tied or settings.rows or settings.smoothing > 0 or settings.tighten:
            return None
        name = lp_learner(objective)
        return None if name == self.default else Choice(name, f"the fastest of the {self.name} surrogate for these sizes")

    def objective(self, settings: Settings, bound: BoundModel, weight: np.ndarray, C: float, operators: Any = None) -> Any:
        loss = weighted_loss(settings, bound, weight)
        if isinstance(bound.layout, SingleNodes):
            return MarginObjective(bound, C, loss, settings.oracle, weight, settings.n_jobs)  # a single node has no relaxation
        return LPObjective(bound, C, loss, settings.smoothing, settings.oracle, weight, settings.n_jobs, settings.tighten)


class Trivial(Surrogate):
    """Strictly trivial equivalents: training needs no max-sum solver."""

    name, default = "trivial", "CuttingPlane"
    has_loss = asks_oracle = on_rows = False
    no_loss = (
        "one slack serves all inequalities of an example, which have a margin of 1, so that it bounds the 0/1 loss of the example and no sum over "
        "nodes"
    )

    def objective(self, settings: Settings, bound: BoundModel, weight: np.ndarray, C: float, operators: Any = None) -> Any:
        from ..learning.objectives.trivial import TrivialObjective

        return TrivialObjective(bound, C=C, sample_weight=weight, n_jobs=settings.n_jobs)


class _Smooth(Surrogate):
    """Surrogates that are minimised by values and gradients."""

    asks_oracle = False

    def check(self, settings: Settings, learner: Learner) -> None:
        super().check(settings, learner)
        if not isinstance(learner, ProjectedQuasiNewton) or isinstance(learner, SmoothedLP):
            names = "None or ProjectedQuasiNewton" if self.rounds else f"None, {self.default} or ProjectedQuasiNewton"
            raise InvalidParameterError(
                f"learner is {type(learner).__name__} beside surrogate={self.name!r}, wanted {names}: the objective is smooth and has no "
                "planes."
            )


class _Convex(_Smooth):
    """Surrogates on convex energies, which predict what they learned: a rounded point."""

    default, rounds = "ProjectedQuasiNewton", True
    kind: ClassVar[Any]
    solver: ClassVar[str]
    """Name that answers of `results` bear."""

    def _check_potentials(self, settings: Settings) -> None:
        given = settings.potentials
        if not isinstance(given, Convex) and not (given is None or (isinstance(given, str) and given in ("general", "convex"))):
            raise InvalidParameterError(
                f"potentials is {given!r} beside surrogate={self.name!r}, wanted 'general' or 'convex' (here the same) or a "
                "maxsum.models.Convex: its energies are made of positive definite matrices. Other tables go with surrogate='margin' or 'lp'."
            )
        if settings.symmetric:
            raise InvalidParameterError(
                f"symmetric is True beside surrogate={self.name!r}, wanted False: both ends of an edge have blocks of their own."
            )
        spec = self.energies(settings)
        if spec.n_operators and spec.operators is None:
            raise InvalidParameterError(
                f"potentials has n_operators={spec.n_operators} but no operators, wanted Convex(operators=Matting(...)): an estimator makes them "
                "from each sample. For operators of your own use QPObjective itself."
            )
        if (spec.operators is not None or spec.trees is not None) and settings.rows:
            raise InvalidParameterError(
                f"potentials has operators or trees in a {settings.owner}, wanted neither: its samples are rows of a table. They go with "
                "GridLabeler and GraphLabeler."
            )
        if spec.trees is not None and not isinstance(spec.trees, Trees):
            raise InvalidParameterError(f"trees of potentials is {spec.trees!r}, wanted None or maxsum.models.Trees(...).")

    def potentials(self, settings: Settings) -> str:
        return "general"

    def energies(self, settings: Settings) -> Convex:
        return settings.potentials if isinstance(settings.potentials, Convex) else Convex()

    def objective(self, settings: Settings, bound: BoundModel, weight: np.ndarray, C: float, operators: Any = None) -> Any:
        loss, model = weighted_loss(settings, bound, weight), self.energies(settings).bind(bound)
        return self.kind(model, C, loss, weight, operators=operators, n_jobs=settings.n_jobs)

    def model(self, settings: Settings, objective: Any, full: BoundModel | None) -> Any:
        return objective.model if full is None else self.energies(settings).bind(full)

    def points(self, model: ConvexBound, w: np.ndarray, samples: Any, n_jobs: int) -> list[Point]:
        return self._points(model, w, model.encode(samples), n_jobs, sample_operators(model.spec, samples))

    @abstractmethod
    def _points(self, model: ConvexBound, w: np.ndarray, data: Any, n_jobs: int, operators: Any = None) -> list[Point]: ...

    def results(self, model: ConvexBound, w: np.ndarray, samples: Any, n_jobs: int) -> list[Result]:
        if model.spec.n_operators:
            raise InvalidParameterError(
                "predict_result answers max-sum problems, but operators join all pixels of an image, so there is none; use predict, or "
                "maxsum.learning.objectives.qp.predict_convex(model_, weights_, samples, operators=...), whose answers have bounds of their own."
            )
        data = model.encode(samples)
        return proven(self.solver, model, w, data, model.problems(w, samples), self._points(model, w, data, n_jobs), n_jobs)


class QP(_Convex):
    """Hinge of a convex quadratic relaxation."""

    name, kind, solver = "qp", QPObjective, "ConvexQP"

    def _points(self, model: ConvexBound, w: np.ndarray, data: Any, n_jobs: int, operators: Any = None) -> list[Point]:
        return qp_points(model, w, data, n_jobs, operators)

    def describe(self, settings: Settings, objective: Any, learner: str) -> str:
        return "no oracle, as projected gradients minimise the convex energies"


class Logistic(_Convex):
    """Logistic loss of the unconstrained minimiser of convex energies; not convex in the weights."""

    name, kind, solver = "logistic", LogisticObjective, "LogisticField"

    def _points(self, model: ConvexBound, w: np.ndarray, data: Any, n_jobs: int, operators: Any = None) -> list[Point]:
        return logistic_points(model, w, data, n_jobs, operators)

    def describe(self, settings: Settings, objective: Any, learner: str) -> str:
        return "no oracle, as scores solve linear systems"


class Likelihood(_Smooth):
    """Conditional log-likelihood, or a convex upper bound of it where sums over labellings are out of reach."""

    name, default = "likelihood", "MaximumLikelihood"
    has_loss = False
    has_penalties = True
    no_loss = "a likelihood has no loss to weight"

    def objective(self, settings: Settings, bound: BoundModel, weight: np.ndarray, C: float, operators: Any = None) -> Any:
        smooth = LikelihoodObjective(bound, C, weight, settings.n_jobs)
        share = L1_SHARES.get(settings.penalty, settings.penalty)
        return smooth if share == "l2" else PenalisedObjective(smooth, float(share))

    def choose(self, settings: Settings, bound: BoundModel) -> Choice:
        if settings.penalty == "l2":
            return super().choose(settings, bound)
        return Choice("ProximalQuasiNewton", "that of penalties of absolute values")

    def marginals(self, model: Any, w: np.ndarray, samples: Any, n_jobs: int) -> list[Any]:
        return marginals(model, w, samples, n_jobs)

    def describe(self, settings: Settings, objective: Any, learner: str) -> str:
        return f"no oracle, as {objective.words()}"


class PseudoLikelihood(Likelihood):
    """Log-likelihood of each label given the true labels of its neighbours: exact on every graph."""

    name, default = "pseudolikelihood", "ProjectedQuasiNewton"
    no_loss = "a pseudo-likelihood has no loss to weight"

    def objective(self, settings: Settings, bound: BoundModel, weight: np.ndarray, C: float, operators: Any = None) -> Any:
        return PseudoLikelihoodObjective(bound, C, weight)

    def describe(self, settings: Settings, objective: Any, learner: str) -> str:
        return "no oracle, as labels are conditioned on their neighbours"


SURROGATES: dict[str, Surrogate] = {
    own.name: own for own in (Margin(), LP(), Trivial(), QP(), Logistic(), Likelihood(), PseudoLikelihood())
}


def surrogate_of(settings: Settings) -> Surrogate:
    """The surrogate that settings name; margin where they leave it open."""
    return SURROGATES[settings.surrogate or "margin"]


def choose_learner(settings: Settings, default: str) -> Learner:
    """The learner that is given, or the one of that name (or the default) with the limits of the estimator."""
    if isinstance(settings.learner, Learner):
        return settings.learner
    name = default if settings.learner is None else settings.learner
    if not isinstance(name, str) or name not in registry.LEARNERS:
        raise InvalidParameterError(
            f"learner is {settings.learner!r}, wanted None or a learner such as maxsum.learning.BlockFrankWolfe(), or one of the "
            f"names {', '.join(registry.LEARNERS)}."
        )
    limits = settings.limits
    if settings.surrogate == "trivial" and name == "Perceptron" and "max_iter" not in settings.given:
        limits["max_iter"] = _SWEEPS
    return registry.learner_class(name)(**limits)


def sample_operators(
    spec: Convex | None, samples: Sequence[GraphSample], labels: Any = None, classes: Any = None
) -> list[Any] | None:
    """The operators that the energies ask for, made from each sample; with labels those of the nodes whose label is known."""
    if spec is None or spec.operators is None:
        return None
    known = [None] * len(samples) if labels is None else [own for _, own in read_labels(samples, labels, classes)]
    found = []
    for j, (sample, mask) in enumerate(zip(samples, known, strict=True)):
        try:
            own = [rule.of(sample) for rule in spec.operators]
        except InvalidSampleError as error:
            raise InvalidSampleError(f"sample {j}: {error}") from error
        found.append(own if mask is None or mask.all() else [RestrictedOperator(one, mask) for one in own])
    return found


def qp_points(model: ConvexBound, w: np.ndarray, data: Encoded, n_jobs: int, operators: list[Any] | None = None) -> list[Point]:
    """Predictions of the convex quadratic relaxation."""
    if not data.n_examples:
        return []
    return [
        Point(
            own.labels,
            own.mu,
            own.mu,
            own.termination,
            f"the energy of the QP relaxation has its minimum in [{own.lower_bound:.8g}, {own.value:.8g}], and the rounded "
            f"labelling has {own.energy:.8g}",
        )
        for own in predict_convex(model, w, data=data, operators=operators, n_jobs=n_jobs)
    ]


def logistic_points(
    model: ConvexBound, w: np.ndarray, data: Encoded, n_jobs: int, operators: list[Any] | None = None
) -> list[Point]:
    """Predictions of a logistic random field."""
    if not data.n_examples:
        return []
    ends = data.node_ptr.tolist()
    return [
        Point(
            own.labels,
            own.scores,
            _softmax(own.scores, data.n_states[ends[j] : ends[j + 1]]),
            Termination.converged,
            "the labels have the largest logistic scores, which solve a linear system up to the relative residual "
            f"{own.residual:.1g}; they need not be those of the best score of the max-sum problem",
        )
        for j, own in enumerate(predict_logistic(model, w, data=data, operators=operators, n_jobs=n_jobs))
    ]


def _softmax(scores: np.ndarray, n_states: np.ndarray) -> np.ndarray:
    inside = np.arange(scores.shape[1]) < n_states[:, None]
    mass = np.where(inside, np.exp(scores - np.where(inside, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)), 0.0)
    return mass / mass.sum(axis=1, keepdims=True)


def proven(
    name: str, model: ConvexBound, w: np.ndarray, data: Encoded, problems: Sequence[Problem], found: list[Point], n_jobs: int
) -> list[Result]:
    r"""Predictions as answers to the max-sum problems ``model.problems(w, samples)``, with a proof for each.

    As :math:`W \succeq 0`, the tangent of an edge's energy at any point bounds it: with :math:`z = (\mu_u, \mu_v)`

    .. math:: -\tfrac12 (e_k, e_l)^\top W (e_k, e_l) \le \tfrac12 z^\top W z - (Wz)_u(k) - (Wz)_v(l),

    so :math:`Wz` are messages, whose bound is at most that of the tangent of the whole energy. The certificate holds them, and
    needs no trust in the matrices.
    """
    bank = model.family.bank(w[model.slices[2]])

    def one(j: int) -> Result:
        return _result(name, problems[j], found[j], _messages(bank, data, j, found[j].mu))

    return thread_map(one, range(len(found)), n_jobs)


def _result(name: str, problem: Problem, point: Point, edge: np.ndarray) -> Result:
    run = Run(name, problem)
    run.offer(point.labels)
    run.marginals, run.termination = point.marginals, point.termination
    run.certify(np.inf, MessageCertificate(Messages(edge, problem.zero_messages().clique)))
    result = run.result()
    proven = (
        "proven to be the best one"
        if result.guarantee == Guarantee.optimal
        else f"at most {result.gap:.3g} below the best score"
    )
    return replace(result, message=f"{name}: {point.words}; in the max-sum problem this labelling is {proven}.")


def _messages(bank: np.ndarray, data: Encoded, j: int, mu: np.ndarray) -> np.ndarray:
    r""":math:`Wz` at both ends of the edges of a sample, (2, n_edges, K)."""
    first, last = int(data.edge_ptr[j]), int(data.edge_ptr[j + 1])
    size = mu.shape[1]
    out = np.zeros((last - first, 2 * size))
    if last > first:
        edges = data.edges[first:last] - int(data.node_ptr[j])
        z = np.concatenate([mu[edges[:, 0]], mu[edges[:, 1]]], axis=1)
        f = data.f[first:last].tocsc()
        for p in range(f.shape[1]):
            part = slice(int(f.indptr[p]), int(f.indptr[p + 1]))
            rows = f.indices[part]
            out[rows] += f.data[part, None] * (z[rows] @ bank[p])
    return np.ascontiguousarray(np.stack([out[:, :size], out[:, size:]]))
