"""The card that estimators show below scikit-learn's diagram: what was solved, what is proven, how long it took."""

from __future__ import annotations

from typing import Any

from ..learning.objectives.stored import StoredObjective
from ..learning.result import learning_card
from ..models.convex import ConvexBound


class ResultCard:
    """Adds a card of ``result_`` to the HTML of a fitted estimator; before `fit` there is scikit-learn's alone."""

    @property
    def _repr_html_(self) -> Any:
        """scikit-learn's HTML, which raises AttributeError where it is turned off, and the card."""
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + result_card(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += result_card(self)
        return bundle


def result_card(estimator: Any) -> str:
    """The card of a fitted estimator; empty before `fit`."""
    if not hasattr(estimator, "result_"):
        return ""
    return learning_card(type(estimator).__name__, estimator.result_, [("problem", problem_words(estimator))])


def problem_words(estimator: Any) -> str:
    """What was minimised, over what, in a line."""
    model, objective = estimator.model_, getattr(estimator, "objective_", None)
    potentials = f"convex ({model.spec.form})" if isinstance(model, ConvexBound) else estimator.potentials
    C = f", C = {objective.C:g}" if objective is not None else ""
    n_samples, n_nodes = model.n_examples, len(model.data.n_states)
    if isinstance(objective, StoredObjective):
        n_samples, n_nodes = objective.n_examples, objective.n_nodes
    return (
        f"surrogate {estimator.surrogate}, potentials {potentials}{C}; {n_samples} samples, "
        f"{n_nodes} nodes, {len(estimator.weights_)} weights"
    )
