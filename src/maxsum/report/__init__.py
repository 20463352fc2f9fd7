"""One page about one estimator: how it was trained, what it learned, where it errs, what is proven."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

from ..core.files.store import atomic
from ..core.parameters import Instance, WholeNumber, check_value
from .evidence import gather
from .page import page
from .sections import certificate, confusion, convergence, environment, examples, tiles, weights

__all__ = ["write_report"]


def write_report(
    path: str | os.PathLike[str],
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    classes: Any = None,
    n_examples: int = 6,
    verify: bool = True,
) -> Path:
    """Write a page of HTML about a fitted estimator and its predictions, self-contained, for light and dark screens.

    It shows what is proven about training and predictions, how the training went, pairwise tables and the largest weights of nodes,
    which classes are mistaken for which, the samples with the most wrong labels, and versions of what was used; no script, nothing
    from the net, no name of a machine or a folder.

    Parameters
    ----------
    path : path-like
        Written at once: a reader sees the old page or the new one.
    estimator : fitted labeler or MultiLabelClassifier
    X, y : list, or array-like, optional
        Samples and their labels, as for ``estimator.score``; all else on the page is about the training, and without them the sections
        on predictions say what they miss.
    title : str, optional
    classes : list of str, optional
        Names in the place of those of ``estimator.classes_``, in their order.
    n_examples : int
        Samples with wrong labels to show.
    verify : bool
        Whether to recompute what the certificates prove: as long as an evaluation of the objective, and a little for each sample.

    Returns
    -------
    Path
        Where the page is.

    Examples
    --------
    >>> import tempfile, maxsum as ms
    >>> X = [[0, 1, 1], [1, 0]]
    >>> tag = ms.SequenceLabeler(C=10.0).fit(X, [["a", "b", "b"], ["b", "a"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ms.report.write_report(f"{folder}/report.html", tag, X, [["a", "b", "b"], ["b", "a"]]).name
    'report.html'
    """
    wanted = "the name of a file to write, such as 'report.html'"
    check_value("path", path, Instance(str, os.PathLike, wanted=wanted))
    check_value("n_examples", n_examples, WholeNumber(0))
    target = Path(path)
    if not target.resolve().parent.is_dir():
        raise FileNotFoundError(f"the folder of the report {os.fspath(path)!r} does not exist; make it first.")
    found = gather(estimator, X, y, classes, verify)
    name = type(estimator).__name__ if title is None else str(title)
    body = [
        tiles(found),
        certificate(found),
        convergence(found),
        weights(found),
        confusion(found),
        examples(found, n_examples),
        environment(found),
    ]
    data = page(name, body).encode("utf-8")

    def fill(file: BinaryIO) -> None:
        file.write(data)

    atomic(target, None, fill)
    return target
