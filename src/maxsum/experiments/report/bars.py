"""Bar charts of errors, groups of bars side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

_COLOURS = {"SVM": "#9aa5b1", "RMN": "#d9a441", "AMN": "#2f6f9f"}


def draw_bars(
    path: str | os.PathLike[str],
    groups: Sequence[str],
    errors: Mapping[str, np.ndarray],
    title: str,
    spread: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write a chart of test errors in percent: a group of bars for each name in ``groups``, one bar for each method.

    Parameters
    ----------
    path : path-like
    groups : sequence of str
    errors : mapping of str to ndarray, shape (n_groups,)
        SVM, RMN and AMN, or some of them, in the order of their bars.
    title : str
    spread : mapping of str to ndarray, shape (n_groups,), optional
        Half the length of an error bar.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6.4, 3.6))
    width = 0.8 / len(errors)
    for i, (name, values) in enumerate(errors.items()):
        place = np.arange(len(groups)) + (i - (len(errors) - 1) / 2) * width
        bars = None if spread is None else spread[name]
        axis.bar(
            place, values, 0.92 * width, yerr=bars, capsize=3, color=_COLOURS[name], label=name, error_kw={"elinewidth": 0.8}
        )
        for x, y in zip(place, values, strict=True):
            axis.text(x, 0.15, f"{y:.1f}", ha="center", va="bottom", fontsize=8, color="white" if name == "AMN" else "black")
    axis.set_xticks(np.arange(len(groups)), groups)
    axis.set_ylabel("test error, %")
    axis.set_title(title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="x", length=0)
    axis.legend(frameon=False, fontsize=9, ncols=len(errors), loc="upper center", bbox_to_anchor=(0.5, -0.1))
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
