"""Pages with words, classes and links: the ``.content`` and ``.cites`` files of LINQS (WebKB, Cora, Citeseer)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.errors import ParseError
from ..core.files.text import Limits, shown
from ..core.graph import Graph
from .source import lines

if TYPE_CHECKING:
    from ..models.sample import GraphSample

_LIMITS = Limits(bytes=1 << 28, cells=50_000_000)


class LinkedPages(NamedTuple):
    """Pages and their links.

    Attributes
    ----------
    names : list of str
        Addresses or numbers of pages.
    X : ndarray, shape (n_pages, n_words)
        1 where a page has a word.
    y : ndarray of str, shape (n_pages,)
        Classes.
    links : ndarray of int64, shape (n_links, 2)
        Both pages of each line in the order of the file, which in WebKB names the page that is linked to first; with repetitions and
        links of pages to themselves.
    """

    names: list[str]
    X: np.ndarray
    y: np.ndarray
    links: np.ndarray

    def sample(self) -> GraphSample:
        """The pages as a graph: an edge where one links to the other.

        Returns
        -------
        GraphSample
        """
        from ..models.sample import GraphSample

        pairs = np.sort(self.links, axis=1)
        pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
        return GraphSample(self.X, Graph.from_edges(pairs, n_nodes=len(self.names)))


def read_linked_pages(content: str | os.PathLike[str], cites: str | os.PathLike[str]) -> LinkedPages:
    """Read pages and links.

    Parameters
    ----------
    content : path-like
        A UTF-8 file, perhaps compressed, a line a page: its name, numbers, and its class, separated by blanks or tabs.
    cites : path-like
        A line a link: two names of pages.

    Returns
    -------
    LinkedPages

    Raises
    ------
    ParseError
        A line has another number of columns, a value that is no number, or the name of no page.
    """
    number_of: dict[str, int] = {}
    rows: list[np.ndarray] = []
    classes, cells = [], 0
    path = Path(content)
    for number, line in lines(path, _LIMITS):
        columns = line.split()
        if not columns:
            continue
        width = len(rows[0]) + 2 if rows else len(columns)
        if len(columns) != width or width < 3:
            raise ParseError(
                f"there are {len(columns)} columns, wanted {max(width, 3)}: name, numbers, class.", str(path), number
            )
        cells += width
        if cells > _LIMITS.cells:
            raise ParseError(f"there are more than {_LIMITS.cells} entries; refused.", str(path), number)
        if columns[0] in number_of:
            raise ParseError(f"the page {shown(columns[0])} stands there twice.", str(path), number)
        try:
            rows.append(np.array(columns[1:-1], dtype=np.float64))
        except ValueError as error:
            raise ParseError(f"wanted numbers between name and class ({error}).", str(path), number) from None
        if not np.isfinite(rows[-1]).all():
            raise ParseError("a number is not finite.", str(path), number)
        number_of[columns[0]] = len(number_of)
        classes.append(columns[-1])
    if not rows:
        raise ParseError("there are no pages.", str(path))
    links = _read_links(Path(cites), number_of)
    return LinkedPages(list(number_of), np.array(rows), np.array(classes), links)


def _read_links(path: Path, number_of: dict[str, int]) -> np.ndarray:
    links = []
    for number, line in lines(path, _LIMITS):
        ends = line.split()
        if not ends:
            continue
        if len(ends) != 2:
            raise ParseError(f"there are {len(ends)} names, wanted two.", str(path), number)
        for end in ends:
            if end not in number_of:
                raise ParseError(f"there is no page {shown(end)}.", str(path), number)
        links.append([number_of[end] for end in ends])
    return np.array(links, dtype=np.int64).reshape(-1, 2)
