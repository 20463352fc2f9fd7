"""How a run came to its answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidSampleError
from .canvas import canvas, ink, is_axes, is_dark
from .classes import colour

_MANY = 40  # steps up to which each one gets a mark
_CLOSED = 1e-12  # relative gap below which a logarithmic axis shows nothing: it counts as 0


class Trace(NamedTuple):
    """A run as arrays, one entry a point; NaN where a value was not known yet."""

    seconds: np.ndarray
    calls: np.ndarray
    value: np.ndarray
    bound: np.ndarray
    relative_gap: np.ndarray
    names: tuple[str, str, str]


def read_trace(result: Any) -> Trace:
    """The trace of a result; its answer is the last point, if the trace does not end there."""
    learned = hasattr(result, "lower_bound")
    if not hasattr(result, "trace") or not (learned or hasattr(result, "bound")):
        raise InvalidSampleError(
            f"result is a {type(result).__name__}, wanted a Result or a LearningResult: solve(...), predict_result(...)[j] or "
            "estimator.result_."
        )
    value, bound, count = ("objective", "lower_bound", "n_oracle_calls") if learned else ("score", "bound", "iteration")
    rows = [(p.seconds, getattr(p, count), getattr(p, value), getattr(p, bound)) for p in result.trace]
    last = (result.seconds, result.n_oracle_calls if learned else result.n_iter, getattr(result, value), getattr(result, bound))
    if not rows or rows[-1][2:] != last[2:]:
        rows.append(last)
    table = np.array(rows, dtype=np.float64)
    seconds, calls, values, bounds = np.where(np.isfinite(table), table, np.nan).T
    scale = np.abs(values) if learned else np.fmax(np.abs(values), np.abs(bounds))
    gap = np.maximum(values - bounds if learned else bounds - values, 0.0)
    relative = np.divide(gap, scale, out=np.where(gap == 0, 0.0, np.nan), where=scale > 0)
    relative[-1] = result.relative_gap if np.isfinite(result.relative_gap) else np.nan
    names = ("objective", "lower bound", "oracle calls") if learned else ("score", "upper bound", "iterations")
    return Trace(seconds, calls, values, bounds, relative, names)


def plot_convergence(result: Any, ax: Any = None) -> Any:
    """Draw value, bound and relative gap of a run against time and oracle calls (iterations, for a solver).

    Parameters
    ----------
    result : LearningResult or Result
    ax : Axes, four of them, Figure, or None
        One Axes gets value and bound against time; four get all panels.

    Returns
    -------
    Axes, or ndarray of Axes, shape (2, 2)

    Notes
    -----
    Values that are not finite, and relative gaps below 1e-12, are not drawn. Values far from the end, where the relative gap was above
    a half, may lie outside the axes. If the trace ends before the answer does, the answer is the last point.
    """
    trace = read_trace(result)
    if is_axes(ax):
        _values(ax, trace, trace.seconds)
        ax.set_xlabel("seconds")
        ax.locator_params(axis="x", nbins=5)
        return ax
    axes = canvas(ax, 2, 2, (8.5, 5.2), sharex="col", sharey="row")
    for (top, bottom), where, name in zip(axes.T, (trace.seconds, trace.calls), ("seconds", trace.names[2]), strict=True):
        _values(top, trace, where)
        _gaps(bottom, trace, where)
        bottom.set_xlabel(name)
        bottom.locator_params(axis="x", nbins=5)
    for axis in axes[:, 1]:
        axis.set_ylabel("")
    axes[0, 1].get_legend().remove()
    if ax is None:
        axes[0, 0].figure.suptitle(_summary(result), fontsize="medium")
    return axes


def _summary(result: Any) -> str:
    who, how = getattr(result, "learner", None) or result.solver, str(result.termination).replace("_", " ")
    gap = "no bound" if not np.isfinite(result.relative_gap) else f"relative gap {result.relative_gap:.2g}"
    gap = "no gap" if result.relative_gap <= _CLOSED else gap
    return f"{who}: {how} after {result.seconds:.3g} s, {gap}"


def _style(trace: Trace) -> dict[str, Any]:
    few = len(trace.seconds) <= _MANY
    return {"marker": "o" if few else None, "markersize": 3.5, "linewidth": 1.6}


def _values(axis: Any, trace: Trace, where: np.ndarray) -> None:
    value, bound, _ = trace.names
    first = colour(4 if is_dark() else 0)
    axis.plot(where, trace.value, color=first, label=value, **_style(trace))
    if np.isfinite(trace.bound).any():
        axis.plot(where, trace.bound, color=colour(1), label=bound, **_style(trace))
        axis.fill_between(where, trace.value, trace.bound, color=first, alpha=0.12, linewidth=0)
    late = trace.relative_gap <= 0.5
    if late.sum() >= 3 and not late.all():
        low, high = np.nanmin([trace.value[late], trace.bound[late]]), np.nanmax([trace.value[late], trace.bound[late]])
        axis.set_ylim(low - 0.35 * (high - low), high + 0.35 * (high - low))
    axis.set_ylabel(f"{value} and bound" if np.isfinite(trace.bound).any() else value)
    axis.grid(alpha=0.5, linewidth=0.6)
    axis.legend(fontsize="small", frameon=False, loc="best")


def _gaps(axis: Any, trace: Trace, where: np.ndarray) -> None:
    axis.set_ylabel("relative gap")
    gaps = np.where(trace.relative_gap > _CLOSED, trace.relative_gap, np.nan)
    closed = trace.relative_gap[-1] <= _CLOSED
    if np.isfinite(gaps).any():
        axis.plot(where, gaps, color=colour(2), label="relative gap", **_style(trace))
        axis.set_yscale("log")
        axis.grid(alpha=0.5, linewidth=0.6)
    else:
        axis.set_yticks([])
    words = "no bound is proven" if not np.isfinite(trace.relative_gap).any() else "the gap is closed" if closed else ""
    if words:
        axis.text(0.97, 0.9, words, transform=axis.transAxes, ha="right", va="top", color=ink(), fontsize="small")
