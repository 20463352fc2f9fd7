"""Coverage as it is stated: the threshold by its definition, the guarantee over all orders of small sets of samples."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from reference.seeds import seeds

import maxsum as ms
from maxsum.calibration import LabelSets, threshold
from maxsum.core.errors import InvalidParameterError, NotFittedError


def drawn(n: int, seed: int) -> list[np.ndarray]:
    """Losses of samples of different lengths, with ties."""
    rng = np.random.default_rng(seed)
    return [np.round(rng.exponential(size=rng.integers(1, 6)), 1) for _ in range(n)]


def covered(losses: np.ndarray, q: float, unit: str) -> Fraction:
    good = losses <= q
    return Fraction(int(good.sum()), len(losses)) if unit == "node" else Fraction(int(good.all()))


@pytest.mark.parametrize("unit", ["node", "labelling"])
@pytest.mark.parametrize("coverage", [Fraction(1, 2), Fraction(4, 5), Fraction(9, 10)])
def test_the_guarantee_holds_over_all_choices_of_the_new_sample(unit, coverage):
    for seed in seeds(20):
        samples = drawn(11 + seed % 3, seed)
        rest = [[own for i, own in enumerate(samples) if i != j] for j in range(len(samples))]
        shares = [covered(new, threshold(own, float(coverage), unit), unit) for new, own in zip(samples, rest, strict=True)]
        assert sum(shares) / len(shares) >= coverage


@pytest.mark.parametrize("unit", ["node", "labelling"])
def test_the_threshold_is_the_least_with_enough_covered(unit):
    for seed in seeds(20):
        samples, coverage = drawn(30, seed), Fraction(17, 20)
        found = threshold(samples, float(coverage), unit)
        enough = [
            q
            for q in np.unique(np.concatenate(samples)).tolist()
            if sum(covered(own, q, unit) for own in samples) >= (len(samples) + 1) * coverage
        ]
        assert found == enough[0]


def test_too_few_samples_take_all_labels():
    assert threshold([[0.0]] * 8, 0.9) == np.inf
    assert threshold([[0.0]] * 9, 0.9) == 0.0
    assert threshold([], 0.5) == threshold([[]], 0.5, "labelling") == np.inf


@pytest.mark.parametrize(("coverage", "unit"), [(1.0, "node"), (-0.1, "node"), (0.9, "word"), (np.nan, "node")])
def test_what_makes_no_sense_is_refused(coverage, unit):
    with pytest.raises(InvalidParameterError):
        threshold([[1.0]], coverage, unit)
    with pytest.raises(InvalidParameterError):
        LabelSets(None, coverage, unit)


def sequences(n: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    y = [np.sort(rng.integers(0, 4, rng.integers(2, 7))) for _ in range(n)]
    return [np.eye(4)[own] + rng.normal(0, 0.9, (len(own), 4)) for own in y], y


@pytest.mark.parametrize("unit", ["node", "labelling"])
@pytest.mark.parametrize("by", ["losses", "probabilities"])
def test_sets_of_a_chain_cover_what_they_state_and_are_smaller_than_without_edges(unit, by):
    X, y = sequences(700, 3)
    sizes = []
    for edges in (True, False):
        samples = [ms.GraphSample(x, ms.Graph.chain(len(x)) if edges else ms.Graph.from_edges([], n_nodes=len(x))) for x in X]
        net = ms.GraphLabeler(surrogate="likelihood", C=1.0).fit(samples[:60], y[:60])
        sets = LabelSets(net, 0.9, unit, by).fit(samples[60:380], y[60:380])
        # 320 samples to be covered: a deviation of 4 % is 2.4 standard errors of the coverage of labellings
        assert 0.86 < sets.coverage_of(samples[380:], y[380:]) < 0.95
        found = sets.predict(samples[380:])
        hit = [own[np.arange(len(labels)), labels] for own, labels in zip(found, y[380:], strict=True)]
        measured = np.mean([own.mean() if unit == "node" else own.all() for own in hit])
        assert sets.coverage_of(samples[380:], y[380:]) == pytest.approx(measured)
        assert sets.size_of(samples[380:]) == pytest.approx(np.concatenate([own.sum(axis=1) for own in found]).mean())
        sizes.append(sets.size_of(samples[380:]))
    assert sizes[0] < 0.9 * sizes[1]


@pytest.mark.parametrize("by", ["losses", "probabilities"])
def test_rows_of_a_table_have_sets_too(by):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 4))
    table = (rows @ rng.standard_normal((4, 3)) + rng.standard_normal((300, 3)) > 0).astype(int)
    for y in (table, np.array(["a", "b", "c"])[table.sum(axis=1) % 3], table[:, 0]):
        net: Any = ms.MultiLabelClassifier(surrogate="likelihood").fit(rows[:60], y[:60])
        sets = LabelSets(net, 0.8, by=by).fit(rows[60:200], y[60:200])
        assert 0.7 < sets.coverage_of(rows[200:], y[200:]) < 0.92
        shape = (3, 2) if np.ndim(y) == 2 else (1, len(net.classes_))
        assert sets.predict(rows[:1])[0].shape == shape


def test_unknown_labels_are_left_out():
    X, y = sequences(60, 5)
    net = ms.SequenceLabeler().fit(X[:20], y[:20])
    whole = LabelSets(net).fit(X[20:], y[20:])
    half = LabelSets(net).fit(X[20:] + X[:2], y[20:] + [np.full(len(own), -1) for own in y[:2]])
    assert whole.threshold_ == half.threshold_
    assert LabelSets(net, 0.999).fit(X[20:], y[20:]).threshold_ == np.inf
    assert whole.coverage_of(X[:1], [np.full(len(y[0]), 7)]) == 0.0
    assert LabelSets(net, 0.999).fit(X[20:], y[20:]).coverage_of(X[:1], [np.full(len(y[0]), 7)]) == 0.0
    with pytest.raises(NotFittedError, match="no threshold yet"):
        LabelSets(net).predict(X)
