"""One page about one estimator: how it was trained, what it learned, where it errs, what is proven."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..core.files.store import atomic
from ..core.parameters import Instance, WholeNumber, check_value
from .evidence import gather
from .page import page
from .scores import by_class, doubts
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
    names: Sequence[str] | None = None,
    n_examples: int = 6,
    verify: bool = True,
) -> Path:
    """Write a page of HTML about a fitted estimator and its predictions, self-contained, for light and dark screens.

    It says in words what is proven, then the scores of the kind of data (F1 of chunks where classes are tags B-X and I-X, IoU of images)
    beside those of always giving the commonest class; what the certificates prove; scores by class; the samples with the most wrong
    labels; which classes are mistaken for which; on forests the labels that the model is least sure of, and the wrong ones that it is
    surest of; pairwise tables and the largest weights of nodes; how the training went; versions. No script, nothing from the net, no name of
    a machine or a folder.

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
    names : list of str, optional
        Names of the samples, such as those of their files; by default their numbers.
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
    found = gather(estimator, X, y, classes, verify, names)
    name = type(estimator).__name__ if title is None else str(title)
    body = [
        tiles(found),
        certificate(found),
        by_class(found),
        examples(found, n_examples),
        confusion(found),
        doubts(found, X),
        weights(found),
        convergence(found),
        environment(found),
    ]
    data = page(name, body).encode("utf-8")

    def fill(file: BinaryIO) -> None:
        file.write(data)

    atomic(target, None, fill)
    return target
