"""Where pictures are drawn: axes that are given or new, light and dark."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError
from ..core.parameters import OneOf, check_value

_THEMES = {"light": ("#ffffff", "#1f2328", "#d0d7de"), "dark": ("#14171c", "#e6e9ee", "#3a414b")}


def matplotlib_module(name: str) -> Any:
    """A module of matplotlib, or an error that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"pictures need matplotlib, which is not installed ({error}). pip install 'maxsum[plot]'.") from error


def theme(name: str) -> AbstractContextManager[Any]:
    """Settings of matplotlib for pictures on light or dark pages.

    Parameters
    ----------
    name : {"light", "dark"}

    Returns
    -------
    context manager
        Pictures made inside have these colours.

    Examples
    --------
    >>> from maxsum.plotting import theme
    >>> import matplotlib
    >>> with theme("dark"):
    ...     matplotlib.rcParams["text.color"]
    '#e6e9ee'
    """
    check_value("theme", name, OneOf(*_THEMES, wanted=f"one of {', '.join(_THEMES)}"))
    back, ink, line = _THEMES[name]
    settings = {
        "figure.facecolor": back,
        "axes.facecolor": back,
        "savefig.facecolor": back,
        "legend.facecolor": back,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "axes.edgecolor": line,
        "legend.edgecolor": line,
        "grid.color": line,
    }
    return matplotlib_module("matplotlib").rc_context(settings)  # type: ignore[no-any-return]


def ink() -> Any:
    """Colour of text in the present settings."""
    return matplotlib_module("matplotlib").rcParams["text.color"]


def is_dark() -> bool:
    """Whether figures have a dark ground in the present settings."""
    ground = matplotlib_module("matplotlib").rcParams["figure.facecolor"]
    red, green, blue, _ = matplotlib_module("matplotlib.colors").to_rgba(ground)
    return bool(0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5)


def canvas(ax: Any, rows: int, columns: int, size: tuple[float, float], **sharing: Any) -> np.ndarray:
    """Axes (rows, columns): those given, or those of a new figure of ``size`` inches, or of a figure that is given; the class
    ``matplotlib.figure.Figure`` asks for a new one that pyplot knows nothing of."""
    figure = ax
    if ax is None:
        figure = matplotlib_module("matplotlib.pyplot").figure(figsize=size, layout="constrained")
    elif isinstance(ax, type) and issubclass(ax, matplotlib_module("matplotlib.figure").Figure):
        figure = ax(figsize=size, layout="constrained")
    if hasattr(figure, "subplots") and not isinstance(figure, type):
        return np.asarray(figure.subplots(rows, columns, squeeze=False, **sharing))
    given = [ax] if is_axes(ax) else list(np.asarray(ax, dtype=object).ravel())
    count = rows * columns
    if len(given) != count or not all(is_axes(own) for own in given):
        raise InvalidParameterError(
            f"ax is {type(ax).__name__ if len(given) == 1 else f'{len(given)} objects'}, wanted {count} Axes of matplotlib, one for each "
            "panel, or a Figure to make them in, or None for a new one."
        )
    axes = np.empty(count, dtype=object)
    axes[:] = given
    return axes.reshape(rows, columns)


def is_axes(ax: Any) -> bool:
    """Whether something is one Axes."""
    return hasattr(ax, "imshow") and not isinstance(ax, type)


def quiet(axis: Any) -> None:
    """No ticks and no frame: for what has no coordinates."""
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)
