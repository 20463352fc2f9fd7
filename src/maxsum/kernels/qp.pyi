# Made by tools/build/stubs.py from the extension; do not edit.
import numpy

import maxsum.kernels.records


fields_of_BlockRows: tuple[str, ...]

FORBIDDEN: float = 1e+300

VALUE: int = 0

GAP: int = 1

SIZE: int = 2

ALPHA: int = 3

N_ITER: int = 4

N_PRODUCTS: int = 5

STATUS: int = 6

CURVATURE: int = 7

LAST: int = 8

NORM: int = 9

ALLOWED: int = 10

N_STATE: int = 11

RUNNING: float = 0.0

CONVERGED: float = 1.0

STALLED: float = 2.0

INDEFINITE: float = 3.0

PULLED: int = 1

BACKED: int = 2

STEPPED: int = 4

CORNER: int = 8

ALL: int = 15

REFRESH: int = 50

def multiply(rows: maxsum.kernels.records.BlockRows, x: numpy.ndarray, out: numpy.ndarray, first: int, last: int) -> tuple[float, float]:
    """
    ``out = Theta x`` for the nodes ``first .. last - 1``; returns ``<x, out>`` and ``<out, out>`` over them.
    """

def multiply_live(rows: maxsum.kernels.records.BlockRows, x: numpy.ndarray, out: numpy.ndarray, first: int, last: int, live: numpy.ndarray) -> tuple[float, float]:
    """
    `multiply` for an ``x`` whose rows are zero where ``live`` lacks `STEPPED`.
    """

def products(x: numpy.ndarray, y: numpy.ndarray, n_states: numpy.ndarray, first: int, last: int) -> tuple[float, float]:
    """
    ``<x, y>`` and ``<y, y>``: what `multiply` returns, for a product that was made elsewhere.
    """

def direction(mu: numpy.ndarray, grad: numpy.ndarray, n_states: numpy.ndarray, first: int, last: int, alpha: float, pull: numpy.ndarray, low: numpy.ndarray, live: numpy.ndarray, z: numpy.ndarray, work: numpy.ndarray) -> tuple[float, float]:
    """
    ``pull = P(mu - alpha grad) - mu``; returns ``<grad, pull>`` and ``<pull, pull>``.
    """

def advance(mu: numpy.ndarray, grad: numpy.ndarray, step: numpy.ndarray, turn: numpy.ndarray, theta: numpy.ndarray, n_states: numpy.ndarray, first: int, last: int, length: float, low: numpy.ndarray, live: numpy.ndarray, state: numpy.ndarray) -> None:
    """
    ``mu += length * step``, ``grad += length * turn``; value, Frank-Wolfe gap and their scale go to ``state``.
    """

def is_done(state: numpy.ndarray, tol: float) -> bool:
    """
    Whether the gap is at most ``tol`` of the value, at most what is allowed, or nothing but rounding.
    """

def search(slope: float, square: float, curvature: float, state: numpy.ndarray) -> float:
    """
    Length of the step and the next spectral step, both without a further product.
    """

def conjugate(mu: numpy.ndarray, grad: numpy.ndarray, pull: numpy.ndarray, back: numpy.ndarray, step: numpy.ndarray, n_states: numpy.ndarray, first: int, last: int, slope: float, square: float, state: numpy.ndarray, low: numpy.ndarray, live: numpy.ndarray, z: numpy.ndarray, work: numpy.ndarray) -> tuple[float, float]:
    """
    Turn the step of the projected gradient, ``pull``, by the last ``step``, which it replaces; returns slope and square.
    """

def is_indefinite(square: float, curvature: float, turn_square: float, state: numpy.ndarray) -> bool:
    """
    Whether a step, its product and their inner product show a negative curvature that is not rounding.
    """

def begin(mu: numpy.ndarray, grad: numpy.ndarray, theta: numpy.ndarray, n_states: numpy.ndarray, first: int, last: int, low: numpy.ndarray, live: numpy.ndarray, state: numpy.ndarray) -> None:
    """Fill ``state`` from a gradient that was just computed."""

def descend(rows: maxsum.kernels.records.BlockRows, theta: numpy.ndarray, mu: numpy.ndarray, grad: numpy.ndarray, pull: numpy.ndarray, back: numpy.ndarray, step: numpy.ndarray, turn: numpy.ndarray, low: numpy.ndarray, live: numpy.ndarray, starts: numpy.ndarray, part: int, n_parts: int, tol: float, n_steps: int, max_iter: int, states: numpy.ndarray) -> int:
    """
    Up to ``n_steps`` iterations on each of the parts ``part .. n_parts - 1`` that still runs; returns how many still do.
    """
