"""Pairwise tables of what an estimator learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError, NotFittedError
from ..core.parameters import WholeNumber, check_value
from .canvas import canvas, is_dark
from .classes import short


class Panel(NamedTuple):
    """A table to draw; NaN where there is nothing."""

    title: str
    table: np.ndarray
    rows: list[str]
    columns: list[str]
    axes: tuple[str, ...] = ("first node", "second node")


def plot_pairwise(estimator: Any, *, classes: Any = None, max_panels: int = 12, ax: Any = None) -> Any:
    r"""Draw the learned scores of pairs of labels, one panel for each edge type and edge feature, in one scale of colours around 0.

    Parameters
    ----------
    estimator : fitted estimator
        A labeler has a table :math:`g(k, l)`, rows for the first node of an edge. Of convex energies the score of a pair of labels
        is drawn, :math:`-b_k - b'_l - \tfrac12 (e_k, e_l)^\top W (e_k, e_l)`. A `MultiLabelClassifier` has one panel, label × label, with
        :math:`g(1, 1) + g(0, 0) - g(0, 1) - g(1, 0)`: how much two labels like to be the same; pairs without an edge stay blank.
    classes : list, optional
        Names in the place of those of the estimator.
    max_panels : int
        The first ones are drawn.
    ax : Axes, one for each panel, Figure, or None

    Returns
    -------
    ndarray of Axes, shape (n_panels,)
    """
    check_value("max_panels", max_panels, WholeNumber(1))
    panels = pairwise_panels(estimator, classes)
    n_all, panels = len(panels), panels[:max_panels]
    if not panels:
        raise InvalidSampleError(
            f"this {type(estimator).__name__} has no pairwise weights to draw; wanted a model with edges. Weights of nodes are in coef_blocks_."
        )
    size = max(max(panel.table.shape) for panel in panels)
    columns = min(len(panels), 4 if size <= 6 else 3 if size <= 12 else 2)
    rows = -(-len(panels) // columns)
    side = float(np.clip(0.9 + (0.48 if size <= 10 else 0.27) * size, 2.3, 8.5))
    if ax is None or hasattr(ax, "subplots"):
        used = canvas(ax, rows, columns, (columns * side + 1.0, rows * (side + 0.25))).ravel()
    else:
        used = canvas(ax, 1, len(panels), (0.0, 0.0))[0]
    for spare in used[len(panels) :]:
        spare.set_visible(False)
    scale = (
        max(float(np.abs(panel.table[np.isfinite(panel.table)]).max(initial=0.0)) for panel in panels) or 1.0
    )  # forbidden pairs: -inf
    for axis, panel in zip(used, panels, strict=False):
        picture = _draw(axis, panel, scale)
    if n_all > len(panels):
        used[0].figure.suptitle(f"first {len(panels)} of {n_all} tables", fontsize="medium")
    shown = list(used[: len(panels)])
    shown[0].figure.colorbar(picture, ax=shown, shrink=0.85 if rows == 1 else 0.5, label=_scale_name(estimator), aspect=25)
    return used[: len(panels)]


def pairwise_panels(estimator: Any, classes: Any = None) -> list[Panel]:
    """The tables of an estimator, as `plot_pairwise` draws them."""
    if not hasattr(type(estimator), "coef_blocks_"):
        raise InvalidSampleError(
            f"estimator is a {type(estimator).__name__}, wanted a fitted labeler or MultiLabelClassifier of maxsum."
        )
    if not hasattr(estimator, "weights_"):
        raise NotFittedError(f"this {type(estimator).__name__} is not fitted, so it has no weights to draw. Call fit first.")
    blocks = estimator.coef_blocks_
    if hasattr(estimator, "graph_"):
        return _label_graph(estimator, blocks, classes)
    given = estimator.classes_ if classes is None else classes
    one = not (isinstance(given, list) and given and isinstance(given[0], np.ndarray))
    names = [short(name) for name in given] if one else None
    panels = []
    for name, block in blocks.items():
        kind, _, where = name.partition("[")
        where = where.rstrip("]")
        if kind == "edges":
            tables = block[None] if block.ndim == 2 else block
        elif kind == "matrices":
            tables = _scores(blocks[f"linear{name.removeprefix('matrices')}"], block)[None]
        else:
            continue
        for e, table in enumerate(tables):
            title = ", ".join(([f"edge {e}"] if block.ndim == 3 else []) + ([where] if where else [])) or "all edges"
            panels.append(Panel(title, table, _names(names, table.shape[0], classes), _names(names, table.shape[1], classes)))
    return panels


def _names(names: list[str] | None, count: int, classes: Any) -> list[str]:
    if names is not None and len(names) != count and classes is not None:
        raise InvalidParameterError(f"classes has {len(names)} names, wanted one for each of {count} labels.")
    return names if names is not None and len(names) == count else [str(k) for k in range(count)]


def _scores(linear: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Scores of pairs of labels under convex energies of an edge; both ends have the same number of labels."""
    size = len(linear) // 2
    own = linear + 0.5 * np.diag(matrix)
    return -(own[:size, None] + own[None, size:] + matrix[:size, size:])


def _label_graph(estimator: Any, blocks: dict[str, np.ndarray], classes: Any) -> list[Panel]:
    graph = estimator.graph_
    if graph is None or not graph.n_edges:
        return []
    if "edges" in blocks:
        tables = blocks["edges"]
    else:
        tables = np.array([_scores(*pair) for pair in zip(blocks["linear"], blocks["matrices"], strict=True)])
    table = np.full((graph.n_nodes, graph.n_nodes), np.nan)
    first, second = graph.edges.T
    table[first, second] = table[second, first] = tables[:, 0, 0] + tables[:, 1, 1] - tables[:, 0, 1] - tables[:, 1, 0]
    names = _names([short(name) for name in (estimator.classes_ if classes is None else classes)], graph.n_nodes, classes)
    return [Panel("pairs of labels", table, names, names, ())]


def _scale_name(estimator: Any) -> str:
    return "attraction of two labels" if hasattr(estimator, "graph_") else "score of a pair of labels"


def _draw(axis: Any, panel: Panel, scale: float) -> Any:
    picture = axis.imshow(panel.table, cmap="PuOr_r", vmin=-scale, vmax=scale, interpolation="nearest")
    axis.patch.set(facecolor="none", hatch="////", edgecolor="#4a525d" if is_dark() else "#c4cad1", linewidth=0)
    rows, columns = panel.table.shape
    small = max(rows, columns)
    font = 9 if small <= 10 else 7.5 if small <= 30 else 5.5
    turned = max(len(name) for name in panel.columns) > (3 if small <= 12 else 2)
    axis.set_xticks(range(columns), panel.columns, fontsize=font, rotation=90 if turned else 0)
    axis.set_yticks(range(rows), panel.rows, fontsize=font)
    axis.tick_params(length=0)
    if panel.axes:
        axis.set_ylabel(panel.axes[0], fontsize="small")
        axis.set_xlabel(panel.axes[1], fontsize="small")
    axis.set_title(panel.title, fontsize="medium")
    if small <= 10:
        digits = int(np.clip(1 - np.floor(np.log10(scale)), 0, 6))
        for k in range(rows):
            for m in range(columns):
                value = panel.table[k, m]
                if np.isfinite(value):
                    strong = abs(value) > 0.6 * scale
                    axis.text(
                        m,
                        k,
                        _rounded(value, digits),
                        ha="center",
                        va="center",
                        fontsize=8,
                        color="white" if strong else "#1f2328",
                    )
    return picture


def _rounded(value: float, digits: int) -> str:
    return f"{round(float(value), digits) + 0.0:.{digits}f}".replace("-", "−")
