"""AlphaExpansion: every move is the best of its kind, scores rise, bounds hold; labellings of tight relaxations."""

from __future__ import annotations

import itertools
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from factories.problems import associative, random_case
from reference.enumeration import every_labelling
from reference.seeds import seeds, share

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, UnsupportedProblemError
from maxsum.inference import LinearProgram, MaxFlow, TreeDP
from maxsum.inference.moves.expansion import AlphaExpansion, Expander, expand
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations.linear_program import roundings
from maxsum.inference.trivial import is_trivial, trivial_labelling


def metric(rng, rows, cols):
    return -rng.exponential() * np.minimum(np.abs(np.arange(rows)[:, None] - np.arange(cols)), 2.0)


def lifted(rng, rows, cols):
    """Equal labels gain; all pairs gain or lose the same."""
    return associative(rng, rows, cols) + rng.normal()


def mixed(rng, rows, cols):
    return np.where(np.eye(rows), 1.0, -np.inf) if rng.random() < 0.3 else lifted(rng, rows, cols)


TABLES = {"associative": lifted, "metric": metric, "hard": mixed, "cliques": lifted}


def movable(seed, kind):
    """A problem whose expansion moves are minimum cuts; nodes may have forbidden labels."""
    options = dict(forbidden=0.2 * (seed % 2), cliques=3 * (kind == "cliques"))
    return random_case(seed, (2, 7), (2, 5), table=TABLES[kind], **options)


def potts(side, n_labels, seed, coupling=0.7):
    rng = np.random.default_rng(seed)
    return ms.Problem(ms.Graph.grid(side, side), rng.normal(size=(side * side, n_labels)), coupling * np.eye(n_labels))


@pytest.mark.parametrize("kind", ["associative", "metric", "hard", "cliques"])
def test_each_move_is_the_best_expansion(kind):
    tried = improved = 0
    for seed in seeds(40):
        problem, raw = movable(seed, kind)
        assert AlphaExpansion().supports(problem)
        labellings, scores = raw.labellings, raw.scores.astype(float)
        if not np.isfinite(scores).any():
            continue
        rng = np.random.default_rng(seed)
        value = {tuple(y): s for y, s in zip(labellings.tolist(), scores, strict=True)}
        allowed = labellings[np.isfinite(scores)]
        messages = ms.core.problem.Messages(*(rng.normal(size=part.shape) for part in problem.zero_messages()))
        network = Expander(prepare(problem).net, messages if seed % 3 == 0 else None)
        labels = allowed[rng.integers(len(allowed))].copy()
        for turn in range(2 * problem.n_labels + 1):
            alpha = turn % problem.n_labels
            before = value[tuple(labels.tolist())]
            masks = itertools.product([False, True], repeat=problem.n_nodes)
            best = max(value[tuple(np.where(mask, alpha, labels).tolist())] for mask in masks)
            changed = network.move(labels, alpha)
            after = value[tuple(labels.tolist())]
            assert after == pytest.approx(best, abs=1e-9)
            assert changed == (after > before)
            tried, improved = tried + 1, improved + changed
            if rng.random() < 0.2:
                labels = allowed[rng.integers(len(allowed))].copy()
    assert tried > share(100) and improved > share(30)


@pytest.mark.parametrize("kind", ["associative", "metric", "hard", "cliques"])
def test_answers_against_enumeration(kind):
    for seed in range(100, 130):
        problem, raw = movable(seed, kind)
        best = raw.best
        for bound in (True, False):
            result = AlphaExpansion(bound=bound).solve(problem)
            if not np.isfinite(best):
                assert result.labels is None and result.guarantee in ("infeasible", "upper_bound", "none")
                continue
            assert result.bound >= best - 1e-9
            if result.labels is not None:
                assert np.isfinite(result.score) and result.score <= best + 1e-9
                assert result.guarantee == "feasible" if not bound else result.guarantee in ("within_gap", "optimal")
                if result.guarantee == "optimal":
                    assert result.score == pytest.approx(best, abs=1e-9)
            if result.certificate is not None:
                result.certificate.verify(problem, result.labels, bound=result.bound)


def test_half_of_the_best_cost_at_most():
    """Potts costs: a labelling that no expansion improves costs at most twice the lowest cost."""
    for seed in seeds(30):
        rng = np.random.default_rng(seed)
        cost = rng.exponential(size=(6, 3))
        problem = ms.Problem(ms.Graph.complete(6), -cost, np.eye(3) - 1.0)
        result = AlphaExpansion(bound=False).solve(problem)
        assert result.termination == "converged"
        assert -result.score <= -2 * max(map(problem.score, every_labelling(problem))) + 1e-9


def test_scores_rise_and_the_end_is_a_fixed_point():
    problem = potts(20, 5, 0)
    net = prepare(problem).net
    labels = problem.unary.argmax(axis=1).astype(np.int32)
    network, scores = Expander(net), [problem.score(labels)]
    for turn in range(40):
        if network.move(labels, turn % 5):
            scores.append(problem.score(labels))
    assert len(scores) > 5 and all(later > earlier for earlier, later in pairwise(scores))
    assert expand(net, labels).tolist() == labels.tolist()


def test_kept_flows_do_not_change_the_score():
    """Every move is optimal, so a network with kept flows and a new one for each move reach the same scores."""
    problem = potts(16, 4, 1)
    net = prepare(problem).net
    kept, old = Expander(net), problem.unary.argmax(axis=1).astype(np.int32)
    for turn in range(12):
        new = old.copy()
        kept.move(old, turn % 4)
        Expander(net).move(new, turn % 4)
        assert problem.score(old) == pytest.approx(problem.score(new), abs=1e-9)


def test_the_search_from_messages_beats_the_search_from_single_nodes_and_has_a_bound():
    problem = potts(40, 6, 2)
    plain, bounded = AlphaExpansion(bound=False).solve(problem), AlphaExpansion().solve(problem)
    assert plain.guarantee == "feasible" and plain.bound == np.inf
    assert bounded.guarantee == "within_gap" and bounded.score > plain.score
    assert bounded.gap < 0.02 * abs(bounded.score)
    rough = problem.unary.argmax(axis=1).astype(np.int32)
    assert problem.score(expand(prepare(problem).net, rough)) > problem.score(rough)


def test_two_labels_end_at_the_optimum():
    """With two labels no move down and no move up improves, so by supermodularity nothing does."""
    for seed in seeds(10):
        problem = potts(8, 2, seed)
        result = AlphaExpansion(bound=False).solve(problem)
        assert result.score == pytest.approx(MaxFlow().solve(problem).score, abs=1e-9)


def test_a_warm_start_is_not_worse():
    problem = potts(20, 4, 3)
    first = AlphaExpansion(max_iter=1).solve(problem)
    second = AlphaExpansion(bound=False).solve(problem, init=first)
    assert second.score >= first.score and second.bound <= first.bound
    assert second.guarantee in ("within_gap", "optimal")
    from_messages = AlphaExpansion(bound=False).solve(problem, init=first.messages)
    assert from_messages.bound == pytest.approx(first.bound)


def test_limits_callbacks_and_interrupts():
    problem = potts(30, 6, 4)
    assert AlphaExpansion(max_iter=1, bound=False).solve(problem).termination == "iteration_limit"
    assert AlphaExpansion(max_iter=0, bound=False).solve(problem).labels is not None
    assert AlphaExpansion(time_limit=0.0).solve(problem).termination == "time_limit"
    result = AlphaExpansion(time_limit=0.0, bound=False).solve(problem)
    assert result.termination == "time_limit" and np.isfinite(result.score)
    assert AlphaExpansion().solve(problem, callback=lambda point: True).termination == "stopped"

    def interrupt(point):
        if point.iteration == 25:
            raise KeyboardInterrupt

    result = AlphaExpansion().solve(problem, callback=interrupt)
    assert result.termination == "interrupted" and result.guarantee == "within_gap"
    assert [p.iteration for p in result.trace] == list(range(1, len(result.trace) + 1))


def test_the_same_answer_twice_and_ties_to_the_lowest_label():
    problem = potts(20, 5, 5)
    one, two = AlphaExpansion().solve(problem), AlphaExpansion().solve(problem)
    assert one.labels.tolist() == two.labels.tolist() and one.bound == two.bound
    zeros = ms.Problem(ms.Graph.grid(4, 4), np.zeros((16, 3)), np.eye(3))
    assert AlphaExpansion().solve(zeros).labels.tolist() == [0] * 16


def test_what_is_not_supported_has_a_witness():
    tables = np.stack([np.eye(3), np.array([[0.0, 2, 0], [2, 0, 0], [0, 0, 1]])])
    problem = ms.Problem(ms.Graph.chain(3), np.zeros((3, 3)), tables)
    support = AlphaExpansion().supports(problem)
    assert not support and support.witness.edge == 1 and support.witness.value < 0
    a, k, m = support.witness.labels
    t = tables[1]
    assert t[a, a] + t[k, m] - t[a, m] - t[k, a] == support.witness.value
    with pytest.raises(UnsupportedProblemError, match=r"edge 1 \(nodes 1-2, table 1\)"):
        AlphaExpansion().solve(problem)
    assert not AlphaExpansion().supports(ms.Problem(ms.Graph.chain(2), np.zeros((2, 3)), np.eye(3), edge_weight=[-1.0]))
    assert not AlphaExpansion().supports(ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), np.diag([-np.inf, 0.0])))
    assert AlphaExpansion().supports(ms.Problem(ms.Graph.chain(2), np.zeros((2, 3)), -np.eye(3), edge_weight=[-1.0]))
    with pytest.raises(InvalidParameterError, match="max_iter"):
        AlphaExpansion(max_iter=-1)


def test_labels_that_a_node_does_not_have_are_not_taken():
    unary = [np.array([0.0, 1.0]), np.array([0.0, 0.0, 5.0]), np.array([0.0, 0.2])]
    table = 3 * np.eye(3)
    problem = ms.Problem(ms.Graph.chain(3), unary, [table[:2], table[:, :2]])
    result = AlphaExpansion().solve(problem)
    assert (result.labels < problem.n_states).all()
    assert result.score == TreeDP().solve(problem).score


def test_a_tight_relaxation_has_a_trivial_labelling():
    found = 0
    for seed in seeds(12):
        problem = potts(4, 3, seed, coupling=0.4)
        lp = LinearProgram().solve(problem)
        labels = trivial_labelling(problem, lp.messages, tol=1e-7)
        if labels is None:
            assert is_trivial(problem, lp.messages, tol=1e-7) is False
            continue
        found += 1
        assert problem.score(labels) == pytest.approx(lp.bound, abs=1e-5)
        assert is_trivial(problem, lp.messages, tol=1e-7) is True
    assert found >= share(8)


def test_ties_need_a_search_and_frustration_has_no_trivial_labelling():
    odd = ms.Problem(ms.Graph.complete(3), np.zeros((3, 2)), -np.eye(2))
    assert trivial_labelling(odd) is None and is_trivial(odd) is False
    even = ms.Problem(ms.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)]), np.zeros((4, 2)), -np.eye(2))
    labels = trivial_labelling(even)
    assert even.score(labels) == 0.0
    none = ms.Problem(ms.Graph.from_edges(np.zeros((0, 2), dtype=int), 0), np.zeros((0, 2)))
    assert trivial_labelling(none).shape == (0,)


def test_fractional_marginals_of_a_linear_program_give_more_starts():
    """Seeds where moves from the derandomised rounding, and those where moves from the nearest labelling, lead further."""
    gained = {"derandomised": 0, "nearest": 0}
    for seed in (38, 62, 80, 152):
        rng = np.random.default_rng(seed)
        n_labels, graph = int(rng.integers(3, 6)), ms.Graph.grid(12, 12)
        unary, weight = rng.normal(size=(graph.n_nodes, n_labels)), rng.uniform(0.2, 1.2, size=graph.n_edges)
        table = np.zeros(graph.n_edges, dtype=np.int32)
        problem = ms.Problem(graph, unary, tables=np.eye(n_labels), edge_table=table, edge_weight=weight)
        relaxed, net = LinearProgram().solve(problem), prepare(problem).net
        near, other = (problem.score(expand(net, labels)) for labels in roundings(problem, relaxed.marginals))
        result = AlphaExpansion().solve(problem, init=relaxed)
        assert result.score >= max(near, other) - 1e-9
        gained["derandomised"] += other > near + 1e-9
        gained["nearest"] += near > other + 1e-9
    assert all(gained.values())


def test_marginals_of_another_problem_are_no_start():
    small, large = (ms.Problem(ms.Graph.grid(3, n), np.zeros((3 * n, 3)), tables=np.eye(3)) for n in (2, 3))
    given = LinearProgram().solve(large)
    foreign = replace(given, labels=None, certificate=None, marginals=np.full((6, 3), 0.5))
    assert AlphaExpansion().solve(small, init=foreign).score == pytest.approx(AlphaExpansion().solve(small).score)
