"""Labelled graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError
from ..core.graph import Graph
from .canvas import canvas, ink, is_dark, matplotlib_module, quiet
from .classes import colour, heading, legend, marker, read_labelling, read_marks
from .layout import layout

_NAMED = 40  # nodes up to which their names can be read


def plot_graph(
    sample: Any,
    labels: Any,
    result: Any = None,
    *,
    classes: Any = None,
    positions: Any = None,
    names: Any = None,
    marked: Any = None,
    certain: float = 0.9,
    ax: Any = None,
) -> Any:
    """Draw a graph with its nodes in the colours of their labels, and rings around those that are not proven.

    Parameters
    ----------
    sample : GraphSample or Graph
    labels : array-like, shape (n_nodes,)
        Classes; -1, None or masked where unknown: an empty node.
    result : Result, optional
        What was proven, as in `plot_labelling`.
    classes : array-like, optional
        Labels in the order of their colours: ``estimator.classes_``.
    positions : array-like, shape (n_nodes, 2), optional
        Where nodes are; by default by `maxsum.plotting.layout.layout`.
    names : list of str, optional
        Written beside the nodes, of graphs of up to 40.
    marked : array-like of bool, optional
        Nodes to mark, in the place of those of the result.
    certain : float
    ax : Axes, Figure, or None

    Returns
    -------
    Axes
    """
    graph = getattr(sample, "graph", sample)
    if not isinstance(graph, Graph):
        raise InvalidSampleError(f"sample is a {type(sample).__name__}, wanted a maxsum.GraphSample or a maxsum.Graph.")
    labelling = read_labelling(labels, graph.n_nodes, classes)
    marks = read_marks(result, marked, labelling, classes, certain)
    places = layout(graph) if positions is None else _positions(positions, graph.n_nodes)
    if names is not None and len(names) != graph.n_nodes:
        raise InvalidSampleError(f"names has {len(names)} entries, wanted one for each of {graph.n_nodes} nodes.")
    axis = canvas(ax, 1, 1, _figure_size(places))[0, 0]
    size = _node_size(axis, graph.n_nodes)
    lines = matplotlib_module("matplotlib.collections").LineCollection(
        places[graph.edges], colors="#8a939e", linewidths=min(1.2, 0.12 * np.sqrt(size)), zorder=1, alpha=0.8
    )
    axis.add_collection(lines)
    edge = "#14171c" if not is_dark() else "#e6e9ee"
    line = matplotlib_module("matplotlib.lines").Line2D
    handles = []
    for k in [-1, *labelling.present]:
        here = np.flatnonzero(labelling.codes == k)
        if len(here):
            nodes = axis.scatter(
                *places[here].T,
                s=size,
                marker=marker(k) if k >= 0 else "o",
                c=colour(k) if k >= 0 else "none",
                edgecolors=edge,
                linewidths=min(0.7, 0.07 * np.sqrt(size)),
                zorder=2,
                label=labelling.names[k] if k >= 0 else "unknown",
            )
            nodes.set_gid(f"class {k}")
            face = colour(k) if k >= 0 else "none"
            handles.append(_handle(line, marker(max(k, 0)), face, edge, 0.7, labelling.names[k] if k >= 0 else "unknown"))
    if marks.nodes.any():
        rings = axis.scatter(
            *places[marks.nodes].T,
            s=3.2 * size,
            marker="o",
            facecolors="none",
            edgecolors="#D55E00",
            linewidths=max(0.8, 0.12 * np.sqrt(size)),
            zorder=3,
            label=marks.words,
        )
        rings.set_gid("marked")
        handles.append(_handle(line, "o", "none", "#D55E00", 1.5, marks.words))
    if names is not None and graph.n_nodes <= _NAMED:
        for place, name in zip(places, names, strict=True):
            axis.annotate(
                str(name).replace("$", r"\$"),
                place,
                xytext=(0, -0.62 * np.sqrt(size) - 1),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=8,
                color=ink(),
            )
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.08)
    quiet(axis)
    axis.set_title(heading(marks), fontsize="medium")
    legend(axis, handles)
    return axis


def _handle(line: Any, shape: str, face: str, edge: str, width: float, name: str) -> Any:
    """An entry of the legend."""
    return line(
        [],
        [],
        linestyle="",
        marker=shape,
        markersize=7,
        markerfacecolor=face,
        markeredgecolor=edge,
        markeredgewidth=width,
        label=name,
    )


def _positions(given: Any, n_nodes: int) -> np.ndarray:
    places = np.asarray(given, dtype=np.float64)
    if places.shape != (n_nodes, 2) or not np.isfinite(places).all():
        raise InvalidSampleError(f"positions has shape {places.shape}, wanted finite numbers ({n_nodes}, 2), one row a node.")
    return places


def _figure_size(places: np.ndarray) -> tuple[float, float]:
    extent = np.ptp(places, axis=0) + 1.0 if len(places) else np.ones(2)
    return 6.5, float(np.clip(5.0 * extent[1] / extent[0], 1.4, 5.5))


def _node_size(axis: Any, n_nodes: int) -> float:
    """Area of a node in square points, so that all together cover a small part of the axes."""
    box = axis.get_window_extent()
    area = box.width * box.height * (72 / axis.figure.dpi) ** 2
    return float(np.clip(0.06 * area / max(n_nodes, 1), 4.0, 150.0))
