"""Parameters that a surrogate or learner has no use for are refused, not ignored."""

from __future__ import annotations

import numpy as np
import pytest
from factories.samples import label_table

import maxsum as ms
from maxsum.core.errors import InvalidParameterError
from maxsum.learning import CompactQP, LPObjective, ProximalPoint, SmoothedLP, Subgradient
from maxsum.models import GraphModel

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def samples(n=6, seed=0):
    rng = np.random.default_rng(seed)
    labels = [rng.integers(0, 2, 4) for _ in range(n)]
    graph = ms.Graph.grid(2, 2)
    return [ms.GraphSample(np.eye(2)[y] + 0.5 * rng.normal(size=(4, 2)), graph) for y in labels], labels


COSTS = [[0.0, 2.0], [1.0, 0.0]]
REFUSED = [
    ({"surrogate": "trivial", "loss": "normalised"}, "loss"),
    ({"surrogate": "trivial", "loss": COSTS}, "loss"),
    ({"surrogate": "trivial", "oracle": "TRWS"}, "oracle"),
    ({"surrogate": "trivial", "oracle": lambda problem: None}, "oracle"),
    ({"surrogate": "trivial", "class_weight": "balanced"}, "class_weight"),
    ({"surrogate": "trivial", "smoothing": 0.1}, "smoothing"),
    ({"surrogate": "likelihood", "oracle": "TRWS"}, "oracle"),
    ({"surrogate": "likelihood", "loss": "normalised"}, "loss"),
    ({"surrogate": "qp", "oracle": "TRWS"}, "oracle"),
    ({"surrogate": "logistic", "oracle": "TRWS"}, "oracle"),
    ({"surrogate": "margin", "smoothing": 0.1}, "smoothing"),
    ({"penalty": "l1", "potentials": "associative"}, "penalty"),
    ({"penalty": "l1", "loss": "zero_one"}, "penalty"),
    ({"surrogate": "lp", "penalty": 0.5}, "penalty"),
    ({"surrogate": "likelihood", "tighten": True}, "tighten"),
    ({"surrogate": "lp", "tighten": True, "oracle": "TRWS"}, "oracle"),
    ({"surrogate": "lp", "tighten": True, "smoothing": 0.1}, "smoothing"),
    ({"learner": "Perceptron", "loss": COSTS}, "loss"),
    ({"learner": "Perceptron", "class_weight": "balanced"}, "class_weight"),
    ({"surrogate": "lp", "learner": "ProximalPoint", "oracle": "TRWS"}, "oracle"),
    ({"surrogate": "lp", "learner": "CompactQP", "oracle": "TRWS"}, "oracle"),
    ({"surrogate": "lp", "learner": "Subgradient", "oracle": "TRWS"}, "oracle"),
    ({"surrogate": "lp", "smoothing": 0.1, "oracle": "TRWS"}, "oracle"),
]


@pytest.mark.parametrize(("options", "name"), REFUSED, ids=range(len(REFUSED)))
def test_what_would_be_ignored_is_refused(options, name):
    X, y = samples()
    with pytest.raises(InvalidParameterError, match=name):
        ms.GraphLabeler(max_iter=5, **options).fit(X, y)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"surrogate": "likelihood", "oracle": "TRWS"}, "oracle"),
        ({"surrogate": "qp", "oracle": "TRWS"}, "oracle"),
        ({"learner": "SubsetAscent", "oracle": "Exhaustive"}, "oracle"),
        ({"surrogate": "lp", "smoothing": 0.1, "oracle": "TRWS"}, "oracle"),
    ],
    ids=str,
)
def test_multi_label(options, name):
    X, Y = label_table(30, 3, noise=0.3)
    with pytest.raises(InvalidParameterError, match=name):
        ms.MultiLabelClassifier(max_iter=5, **options).fit(X, Y)


def test_smoothing_of_a_single_node_is_refused():
    X, Y = label_table(30, 3, noise=0.3)
    with pytest.raises(InvalidParameterError, match="smoothing"):
        ms.MultiLabelClassifier(surrogate="lp", smoothing=0.1).fit(X, Y @ [1, 2, 4] % 3)


def test_an_oracle_of_few_labels_is_asked():
    X, Y = label_table(30, 3, noise=0.3)
    asked = []

    def oracle(problem):
        asked.append(problem.n_nodes)
        return ms.solve(problem)

    net = ms.MultiLabelClassifier(C=5.0, oracle=oracle).fit(X, Y)
    assert asked and net.result_.relative_gap <= 1e-3
    plain = ms.MultiLabelClassifier(C=5.0).fit(X, Y)
    assert "SubsetAscent" in plain.result_.learner and plain.result_.objective == pytest.approx(net.result_.objective, rel=2e-3)


@pytest.mark.parametrize("surrogate", ["margin", "lp", "trivial", "qp", "logistic", "likelihood", "pseudolikelihood"])
def test_the_defaults_pass_everywhere(surrogate):
    X, y = samples()
    for oracle in (None, "auto"):
        assert ms.GraphLabeler(surrogate=surrogate, oracle=oracle, max_iter=5).fit(X, y).score(X, y) > 0


@pytest.mark.parametrize("learner", [ProximalPoint(), CompactQP(), Subgradient()], ids=lambda own: type(own).__name__)
def test_learners_refuse_an_oracle_that_they_do_not_ask(learner):
    X, y = samples()
    model = GraphModel().bind(X, y, [0, 1])
    with pytest.raises(InvalidParameterError, match="asks none"):
        learner.fit(LPObjective(model, oracle="TRWS"))
    with pytest.raises(InvalidParameterError, match="asks none"):
        SmoothedLP().fit(LPObjective(model, smoothing=0.1, oracle="TRWS"))
    assert learner.fit(LPObjective(model)).objective > 0
    ProximalPoint().fit(LPObjective(model, oracle="bracket"))
