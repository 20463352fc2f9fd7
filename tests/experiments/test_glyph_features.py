"""Node features of covered glyphs: against slow references, and that none reads what is covered."""

from __future__ import annotations

import numpy as np
import pytest

from maxsum.experiments import glyph_features as own

RANDOM = np.random.default_rng(3)


def glyph(high: int, wide: int, row: int = 20, column: int = 30) -> own.Glyph:
    ink = (RANDOM.random((64, 64)) < 0.4).astype(np.uint8)
    hidden = np.zeros((64, 64), dtype=bool)
    hidden[row : row + high, column : column + wide] = True
    return own.Glyph(ink, hidden)


def slow_exemplars(one: own.Glyph, bank: np.ndarray, sigma: float, tau: float) -> np.ndarray:
    """The formula, a candidate and a pixel at a time."""
    at = np.argwhere(one.hidden)
    (top, left), (bottom, right) = at.min(axis=0), at.max(axis=0)
    far = own.REACH + own.MARGIN
    ring = [
        (r, c)
        for r in range(top - own.MARGIN, bottom + own.MARGIN + 1)
        for c in range(left - own.MARGIN, right + own.MARGIN + 1)
        if not (top <= r <= bottom and left <= c <= right)
    ]
    seen = np.pad(one.ink, far)
    out = []
    for r, c in at:
        middle = [low + (x - low) // own.BLOCK * own.BLOCK + (own.BLOCK - 1) / 2 for x, low in ((r, top), (c, left))]
        near = np.array([np.exp(-np.hypot(u - middle[0], v - middle[1]) / sigma) for u, v in ring])
        votes = total = 0.0
        for known in bank:
            padded = np.pad(known, far)
            for i in range(-own.REACH, own.REACH + 1):
                for j in range(-own.REACH, own.REACH + 1):
                    wrong = [seen[u + far, v + far] != padded[u + far + i, v + far + j] for u, v in ring]
                    weight = np.exp(-100.0 / tau * (near @ wrong) / near.sum())
                    votes, total = votes + weight * padded[r + far + i, c + far + j], total + weight
        out.append(votes / total)
    return np.array(out)


def test_exemplars_are_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "REACH", 1)
    monkeypatch.setattr(own, "MARGIN", 2)
    for one in (glyph(4, 5), glyph(3, 4, 0, 60)):
        bank = (RANDOM.random((3, 64, 64)) < 0.4).astype(np.uint8)
        found = own.exemplars(one, bank)
        for k, kernel in enumerate(own.KERNELS):
            assert np.allclose(found[:, k], slow_exemplars(one, bank, *kernel), atol=1e-4)


def test_exemplars_find_a_shifted_copy() -> None:
    one = glyph(11, 13)
    found = own.exemplars(one, np.stack([np.roll(one.ink, (4, -3), axis=(0, 1)), glyph(3, 3).ink]))
    assert np.array_equal((found > 0.5).all(axis=1), one.labels == 1) and np.abs(found - one.labels[:, None]).max() < 0.01


def test_no_known_glyph_is_no_guess() -> None:
    assert np.allclose(own.exemplars(glyph(5, 5), np.zeros((0, 64, 64), dtype=np.uint8)), 0.3)


@pytest.mark.parametrize("size", [(11, 14), (39, 39)])
def test_features_do_not_read_what_is_covered(size: tuple[int, int]) -> None:
    one, bank = glyph(*size, row=12, column=12), (RANDOM.random((2, 64, 64)) < 0.4).astype(np.uint8)
    other = own.Glyph(np.where(one.hidden, 1 - one.ink, one.ink), one.hidden)
    score = RANDOM.random(int(one.hidden.sum()))
    for features in (
        lambda it: own.window(it, 5),
        own.rays,
        lambda it: own.exemplars(it, bank),
        lambda it: own.guesses(it, score, 3),
    ):
        assert np.array_equal(features(one), features(other))


def test_rays_measure_strokes() -> None:
    ink, hidden = np.zeros((64, 64), dtype=np.uint8), np.zeros((64, 64), dtype=bool)
    hidden[28:37, 28:37] = True
    ink[32, 37:44] = 1
    ink[38:41, 32] = 1
    row = own.rays(own.Glyph(ink, hidden))[40]
    n = own.N_RAYS
    length, pull, wait = row[:n], row[n : 2 * n], row[2 * n : 3 * n]
    assert length[0] == pytest.approx(7 / 6) and pull[0] == pytest.approx(7 / (4 + 3)) and wait[0] == 0.0
    assert length[n // 4] == 0.0 and pull[n // 4] == pytest.approx(3 / 7) and wait[n // 4] == pytest.approx(1 / 8)
    assert wait[n // 2] == pytest.approx(own.BEYOND / 8) and not row[3 * n : 4 * n].any()


def test_guesses_are_sure_of_what_is_seen() -> None:
    one, sure = glyph(5, 6), own.SURE / own.UNIT
    score = own.log_odds(np.linspace(0.0, 1.0, 30))
    found = own.guesses(one, score, 2).reshape(30, 5, 5)
    assert np.allclose(found[:, 2, 2], score) and abs(score).max() < sure
    assert np.allclose(found[0, :2], np.where(one.ink[18:20, 28:33] > 0, sure, -sure))
