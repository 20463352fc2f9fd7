"""What a solver returns: why it stopped and what is proven are two separate facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from .cards import card, gap_words, number, proven, times

if TYPE_CHECKING:
    from .certificates.base import Certificate, Verification
    from .problem import Problem


class Termination(StrEnum):
    """Why a solver stopped."""

    converged = "converged"
    stalled = "stalled"
    iteration_limit = "iteration_limit"
    time_limit = "time_limit"
    interrupted = "interrupted"
    stopped = "stopped"


class Guarantee(StrEnum):
    """What is proven about an answer.

    ``optimal``: score equals bound up to `Problem.resolution`. ``within_gap``: labelling and finite bound.
    ``upper_bound``: a bound but no labelling. ``feasible``: a labelling but no bound. ``infeasible``: no labelling has a
    finite score. ``none``: nothing.
    """

    optimal = "optimal"
    within_gap = "within_gap"
    upper_bound = "upper_bound"
    feasible = "feasible"
    infeasible = "infeasible"
    none = "none"


@dataclass(frozen=True)
class TracePoint:
    """State of a run at one moment."""

    iteration: int
    seconds: float
    score: float
    bound: float

    @property
    def gap(self) -> float:
        """``bound - score`` at that moment."""
        return self.bound - self.score


@dataclass(frozen=True, eq=False)
class Result:
    """Answer of a solver.

    Attributes
    ----------
    labels : ndarray of int32, shape (n_nodes,), or None
        Best labelling found; None if there is none.
    score : float
        ``problem.score(labels)``; ``-inf`` without labels.
    bound : float
        No labelling scores higher. ``inf`` if nothing is known, ``-inf`` if proven infeasible.
    gap : float
        ``bound - score``, summed term by term, so it is never negative and free of cancellation.
    termination : Termination
    guarantee : Guarantee
    message : str
        One sentence for people.
    certificate : Certificate or None
        Proof of the bound: ``certificate.verify(problem, labels)``.
    marginals : ndarray, shape (n_nodes, K), or None
        Node marginals of a relaxation, where the solver has them.
    edge_marginals : ndarray, shape (n_edges, K, K), or None
        Those of the edges, which agree with ``marginals``, where the solver has them.
    fixed : ndarray of bool, shape (n_nodes,), or None
        Nodes whose label is the same in every optimal labelling, where proven.
    n_iter : int
    seconds : float
        Wall time.
    trace : tuple of TracePoint
    solver : str
    """

    labels: np.ndarray | None
    score: float
    bound: float
    gap: float
    termination: Termination
    guarantee: Guarantee
    message: str
    certificate: Certificate | None
    solver: str
    marginals: np.ndarray | None = None
    edge_marginals: np.ndarray | None = None
    fixed: np.ndarray | None = None
    n_iter: int = 0
    seconds: float = 0.0
    trace: tuple[TracePoint, ...] = field(default=(), repr=False)

    @property
    def relative_gap(self) -> float:
        """``gap / max(|score|, |bound|)``, and 0 if the gap is 0."""
        if self.gap == 0:
            return 0.0
        scale = max(abs(self.score), abs(self.bound))
        return float(self.gap / scale) if np.isfinite(scale) and scale > 0 else float("inf")

    def verify(self, problem: Problem, *, exact: bool = False) -> Verification:
        """Check every claim of this result (score, bound, guarantee) by its certificate, in plain numpy.

        Parameters
        ----------
        problem : Problem
        exact : bool
            Use rational arithmetic, without any rounding.

        Raises
        ------
        CertificateError
            If a claim does not hold.
        """
        from .certificates.answers import AnswerClaims

        claims = AnswerClaims(self.labels, self.score, self.bound, self.certificate, self.solver, self.guarantee)
        return claims.verify(problem, exact=exact)

    @property
    def messages(self) -> Any:
        """Messages of the certificate, for a warm start; None where it has another form."""
        return getattr(self.certificate, "messages", None)

    def __repr__(self) -> str:
        return (
            f"Result({self.guarantee}, score={self.score:.10g}, bound={self.bound:.10g}, gap={self.gap:.3g}, "
            f"{self.solver}, {self.termination}, {self.seconds:.3g} s)"
        )

    def _repr_html_(self) -> str:
        """A card for notebooks."""
        nodes = 0 if self.labels is None else len(self.labels)
        rows = [
            ("solver", f"{self.solver}: {self.termination.replace('_', ' ')} after {self.n_iter} iterations"),
            ("labelling", f"{nodes} nodes" if self.labels is not None else "none"),
            ("score", number(self.score)),
            ("upper bound", number(self.bound)),
            ("gap", gap_words(self.gap, self.relative_gap)),
            ("time", times(self.seconds)),
        ]
        if self.fixed is not None and nodes:
            rows.insert(2, ("fixed", f"{int(self.fixed.sum())} of {nodes} nodes have this label in every best labelling"))
        return card("Result", proven(self.guarantee, self.relative_gap), rows, self.message)
