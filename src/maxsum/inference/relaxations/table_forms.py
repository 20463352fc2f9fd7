"""Which message kernel fits a table: found by looking at the tables, never told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...kernels.distance import ASSOCIATIVE, BAND, GENERAL, LINEAR, QUADRATIC
from ...kernels.records import Forms
from ...kernels.trws_uniform import UNROLLED


@dataclass(frozen=True)
class Tuning:
    """From which sizes on a special message kernel is taken. On grids of 1600 to 3600 nodes, 40 passes: the choices differ by a tenth or less."""

    few_labels: int = 7  # labels from which tables are looked at for distances; with 4 to 14 labels it made no difference
    # Labels up to which the unrolled general kernel keeps up with all but the narrowest bands; 16 to 32 took the same time.
    unrolled_labels: int = 24
    # Widths from which the linear distance transform is taken: its time does not grow with them; at 8 both took the same.
    band_width: int = 8
    # Labels from which the envelope of parabolas is taken: at 40 it took a quarter longer than the general kernel, at 160 the
    # same.
    envelope_labels: int = 128


_TUNING = Tuning()


_ROUNDING = 8 * np.finfo(float).eps  # of values that were computed from a slope: a few operations, relative to the largest


def table_forms(tables: np.ndarray, every: bool = False) -> Forms:
    """The form of each finite table of a bank; ``every`` takes special forms also where the general kernel is as fast."""
    n_tables, n_labels = tables.shape[:2]
    kind = np.full(n_tables, GENERAL, dtype=np.int8)
    width, slope = np.ones(n_tables, dtype=np.int64), np.zeros(n_tables)
    kind[associative_tables(tables)] = ASSOCIATIVE
    if every or n_labels >= _TUNING.few_labels:
        at = np.flatnonzero(_distance_tables(tables) & (kind == GENERAL))
        kind[at], width[at], slope[at] = _distance_forms(tables[at, 0], every)
    return Forms(kind, width, slope)


def associative_tables(tables: np.ndarray) -> np.ndarray:
    """Which tables are a constant plus a diagonal that is nowhere smaller."""
    base = tables[:, 0, 1]
    found = (tables[:, 0, 1:] == base[:, None]).all(axis=1) & (tables[:, 1, 0] == base)
    off = ~np.eye(tables.shape[1], dtype=bool)
    for part in _pieces(found, tables.shape[1]):
        some = tables[part]
        constant = (some[:, off] == base[part, None]).all(axis=1)
        found[part] = constant & (np.diagonal(some, axis1=1, axis2=2) >= base[part, None]).all(axis=1)
    return found


def _distance_tables(tables: np.ndarray) -> np.ndarray:
    """Which tables hold the same value wherever the distance of the labels is the same."""
    n_labels = tables.shape[1]
    first = tables[:, 0]
    found = (tables[:, -1] == first[:, ::-1]).all(axis=1) & (tables[:, 1, 1:] == first[:, :-1]).all(axis=1)
    label = np.arange(n_labels)
    distance = np.abs(label[:, None] - label)
    for part in _pieces(found, n_labels):
        found[part] = (tables[part] == first[part][:, distance]).all(axis=(1, 2))
    return found


def _pieces(found: np.ndarray, n_labels: int) -> list[np.ndarray]:
    """Indices of the tables found so far, in pieces of limited memory."""
    at = np.flatnonzero(found)
    size = max(1, (1 << 20) // n_labels**2)
    return [at[i : i + size] for i in range(0, len(at), size)]


def _distance_forms(values: np.ndarray, every: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kinds, widths and slopes of tables of the distance of labels, given their values at the distances 0, 1, ...

    A distance transform goes on falling beyond the width, so it has to be below the constant there.
    """
    n_tables, n_labels = values.shape
    low = values[:, -1]
    above = values > low[:, None]
    width = np.where(above.any(axis=1), n_labels - above[:, ::-1].argmax(axis=1), 1).astype(np.int64)
    unrolled = n_labels in UNROLLED and n_labels <= _TUNING.unrolled_labels
    kind = np.where(every | (width <= (2 if unrolled else n_labels // 4)), BAND, GENERAL).astype(np.int8)
    slope = np.zeros(n_tables)
    row, distance = np.arange(n_tables), np.arange(n_labels, dtype=float)
    tolerance = _ROUNDING * np.abs(values).max(axis=1)
    for form, power in ((QUADRATIC, 2), (LINEAR, 1)):
        fall = (values[:, 0] - values[row, width - 1]) / np.maximum(width - 1, 1.0) ** power
        line = values[:, 0, None] - fall[:, None] * distance**power
        near = np.abs(line - values) <= tolerance[:, None]
        fits = (near | (distance >= width[:, None])).all(axis=1) & (line[row, width] <= low + tolerance)
        if form == LINEAR:
            fits &= width > 2 if every else (width > _TUNING.band_width) & (not unrolled)
        else:
            fits &= width > 2 if every else (4 * width > n_labels) & (n_labels >= _TUNING.envelope_labels)
        kind[fits], slope[fits] = form, fall[fits]
    kind[(values < low[:, None]).any(axis=1)] = GENERAL
    return kind, width, slope
