"""FactorAscent on one graph with many weights: the case that it is for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import CertificateError, UnsupportedProblemError
from maxsum.datasets import make_citations
from maxsum.learning import BlockFrankWolfe, FactorAscent, LPObjective, MarginObjective, path
from maxsum.learning.dual.associative import lp_learner
from maxsum.learning.learners import factor_ascent
from maxsum.models import GraphModel, GraphSample

POTENTIALS = ("general", "associative")


def objective(potentials: str = "general", C: float = 1.0, n_nodes: int = 300, n_words: int = 200) -> LPObjective:
    """A small citation graph, all labels known."""
    papers = make_citations(n_nodes, 2 * n_nodes, n_words, 4, 0, random_state=1)
    return LPObjective(GraphModel(potentials=potentials).bind([papers.sample], [papers.y]), C)


@pytest.mark.parametrize("potentials", POTENTIALS)
@pytest.mark.parametrize("C", [0.001, 0.1, 10.0])
def test_one_graph_is_learned_at_every_C(potentials, C):
    own = objective(potentials, C)
    result = FactorAscent(tol=1e-2, max_iter=60).fit(own)
    assert result.relative_gap <= 1e-2
    assert result.n_oracle_calls == 0
    assert result.verify(own)
    assert own.cone.contains(result.weights)


@pytest.mark.parametrize("potentials", POTENTIALS)
def test_the_optimum_is_that_of_another_learner(potentials):
    own = objective(potentials, 0.05, 120, 60)
    one = FactorAscent(tol=1e-3, max_iter=1000).fit(own)
    two = BlockFrankWolfe(tol=1e-3, max_iter=2000, time_limit=60).fit(own)
    assert one.relative_gap <= 1e-3
    assert two.relative_gap <= 1e-2
    assert one.lower_bound <= two.objective * (1 + 1e-9)
    assert two.lower_bound <= one.objective * (1 + 1e-9)


def test_messages_of_the_result_prove_its_objective():
    own = objective("general", 0.1)
    result = FactorAscent(tol=1e-2, max_iter=60).fit(own)
    problem, messages = own.loss_problem(result.weights, 0), result.extra["messages"]
    slack = problem.bound(ms.core.problem.Messages(messages, np.zeros((0, own.model.n_labels)))) - problem.score(
        own.model.truth(0)
    )
    assert own.primal(result.weights, np.array([slack])) == pytest.approx(result.objective, rel=1e-9)


def test_messages_of_the_certificate_are_checked_and_may_be_any():
    own = objective("general", 10.0)
    result = FactorAscent(tol=1e-2, max_iter=60).fit(own)
    assert "messages of the certificate" in result.verify(own).checked
    assert result.verify(own, exact=True).relative_gap <= 1e-2
    noise = 5.0 * np.random.default_rng(0).normal(size=result.certificate.messages.shape)
    wild = replace(result.certificate, messages=noise)
    assert wild.verify(own, result.weights).objective >= result.lower_bound
    for bad in (noise[:, 1:], np.full_like(noise, np.nan), "none"):
        with pytest.raises(CertificateError, match="messages"):
            replace(result.certificate, messages=bad).verify(own, result.weights)
    with pytest.raises(CertificateError, match="claimed objective"):
        result.certificate.verify(own, result.weights, claimed=SimpleNamespace(objective=0.9 * result.objective))


def test_a_path_goes_on_from_the_masses_of_the_C_before():
    own, learner = objective("general", 1.0), FactorAscent(tol=1e-2, max_iter=100)
    results = path(learner, own, [0.01, 0.1, 1.0, 3.0])
    assert max(result.relative_gap for result in results) <= 1e-2
    own.set_C(3.0)
    assert results[-1].n_iter <= learner.fit(own).n_iter
    down = learner.fit(own, init=results[0].extra["planes"])
    assert down.relative_gap <= 1e-2


def test_several_graphs_with_weights_of_their_own_and_nodes_with_fewer_labels():
    rng, papers = np.random.default_rng(0), make_citations(90, 150, 50, 3, 0, random_state=2)
    types = np.zeros(90, dtype=np.int64)
    samples = [
        papers.sample,
        replace(papers.sample, X=papers.sample.X[rng.permutation(90)]),
        GraphSample(papers.sample.X, ms.Graph.chain(90)),
    ]
    model = GraphModel().bind(samples, [papers.y, papers.y, types])
    own = LPObjective(model, 0.3, sample_weight=[1.0, 2.0, 0.0])
    result = FactorAscent(tol=1e-2, max_iter=300).fit(own)
    assert result.relative_gap <= 1e-2
    assert result.verify(own)


@pytest.mark.parametrize(("better", "worse", "grows"), [(1.0, 1e3, True), (1e3, 1.0, False)])
def test_the_penalty_follows_the_larger_part_of_the_gap(better, worse, grows):
    own = objective()
    state = FactorAscent(penalty=7.0).init(own, None)
    state.adapt(better, worse)
    assert state.penalty == (7.0 * factor_ascent.TUNING.turn if grows else 7.0 / factor_ascent.TUNING.turn)


def test_the_learner_for_one_graph_with_many_weights():
    assert lp_learner(objective("general")) == "FactorAscent"
    assert lp_learner(objective("supermodular")) == "BlockFrankWolfe"
    assert lp_learner(objective("general", n_words=10)) == "BlockFrankWolfe"  # few weights: all nodes pull at the same ones
    chain = GraphSample(np.eye(300), ms.Graph.chain(300))
    assert lp_learner(LPObjective(GraphModel().bind([chain], [np.arange(300) % 3]))) == "BlockFrankWolfe"


def test_what_it_does_not_take_is_refused():
    papers = make_citations(60, 100, 20, 3, 0)
    with pytest.raises(UnsupportedProblemError, match="HasRelaxation"):
        FactorAscent().fit(MarginObjective(GraphModel().bind([papers.sample], [papers.y])))
    with pytest.raises(UnsupportedProblemError, match="supermodular rows"):
        FactorAscent().fit(objective("supermodular"))
    cliques = GraphSample(papers.sample.X, papers.sample.graph, cliques=[[0, 1, 2]])
    with pytest.raises(UnsupportedProblemError, match="cliques"):
        FactorAscent().fit(LPObjective(GraphModel(potentials="associative").bind([cliques], [papers.y])))


def test_estimators_choose_it_and_say_so():
    papers = make_citations(400, 800, 300, 4, 100, random_state=3)
    labeler = ms.GraphLabeler(surrogate="lp", potentials="general", C=0.3, tol=1e-2).fit([papers.sample], [papers.known])
    assert labeler.result_.learner == "FactorAscent"
    assert "no oracle" in labeler.result_.message
    guess = labeler.predict([papers.sample])[0]
    most = np.bincount(papers.y[~papers.hidden]).argmax()
    assert (guess == papers.y)[papers.hidden].mean() > (papers.y == most)[papers.hidden].mean() + 0.2
