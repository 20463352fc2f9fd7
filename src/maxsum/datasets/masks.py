"""Label images: how their values mean labels, read off a training set, and written back the same way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError, ParseError
from ..core.files.store import atomic
from .images import FORMATS, _opened

_MOST_COLOURS = 256  # colours of all masks together; more are a picture, not labels


class MaskCode(NamedTuple):
    """How label images say labels.

    Attributes
    ----------
    kind : {"palette", "grey", "colour"}
        The number in a palette is the label, or the grey level, or the place in ``colours``.
    palette : list of int
        Red, green and blue of each number in turn.
    colours : list of str
        ``#rrggbb`` of each label.
    unknown : list
        Numbers, or colours, of pixels whose label is unknown.
    """

    kind: str
    palette: list[int]
    colours: list[str]
    unknown: list[Any]

    @classmethod
    def learn(cls, paths: Sequence[str | os.PathLike[str]], unknown: Sequence[Any] = ()) -> MaskCode:
        """Read the kind, the palette and the colours off the masks of a training set.

        Parameters
        ----------
        paths : sequence of path-like
        unknown : sequence of int or str
            Numbers or grey levels, or colours as ``#rrggbb``, of pixels whose label is unknown.
        """
        kind, first = "", ""
        palette: list[int] = []
        found: set[int] = set()
        for path in paths:
            image = _mask(Path(path))
            own = _kind(image)
            if kind and own != kind:
                raise InvalidSampleError(
                    f"the mask {path} is of kind {own}, but {first} of kind {kind}; wanted one kind for all."
                )
            kind, first = own, first or str(path)
            if own == "palette":
                palette = max(palette, list(image.getpalette() or []), key=len)
            if own == "colour":
                found |= set(np.unique(_packed(image)).tolist())
                if len(found) > _MOST_COLOURS:
                    raise ParseError(
                        f"masks have more than {_MOST_COLOURS} colours, so they are rather pictures; wanted a colour a class.",
                        str(path),
                    )
        ignored = [_as_unknown(own, kind) for own in unknown]
        return cls(kind, palette, [c for c in map(_hex, sorted(found)) if c not in ignored], ignored)

    def read(self, path: str | os.PathLike[str]) -> np.ndarray:
        """Labels of the pixels of a mask, -1 where unknown.

        Parameters
        ----------
        path : path-like
        """
        image = _mask(Path(path))
        if _kind(image) != self.kind:
            raise ParseError(
                f"the mask is of kind {_kind(image)}, but those of the training set of kind {self.kind}.", str(path)
            )
        if self.kind != "colour":
            values = np.asarray(image).astype(np.int64)
            return np.where(np.isin(values, np.array(self.unknown, dtype=np.int64)), -1, values)
        values = _packed(image)
        found, at = np.unique(values, return_inverse=True)
        place = {**{colour: k for k, colour in enumerate(self.colours)}, **dict.fromkeys(self.unknown, -1)}
        for value in found.tolist():
            if _hex(value) not in place:
                row, column = np.argwhere(values == value)[0].tolist()
                raise ParseError(
                    f"pixel ({row}, {column}) has the colour {_hex(value)}, which no mask of the training set has.", str(path)
                )
        return np.array([place[_hex(value)] for value in found.tolist()], dtype=np.int64)[at].reshape(values.shape)

    def write(self, path: str | os.PathLike[str], labels: np.ndarray) -> None:
        """Write labels as a PNG file of the same kind, with the same palette or colours.

        Parameters
        ----------
        path : path-like
        labels : ndarray of int, shape (height, width)
        """
        from PIL import Image

        if self.kind == "colour":
            table = np.array([_triple(colour) for colour in self.colours], dtype=np.uint8)
            image = Image.fromarray(table[labels])
        else:
            wide = self.kind == "grey" and labels.size and int(labels.max()) > 255
            image = Image.fromarray(labels.astype(np.uint16 if wide else np.uint8))
            if self.kind == "palette":
                image = Image.frombytes("P", image.size, image.tobytes())
                image.putpalette(self.palette)

        def fill(file: BinaryIO) -> None:
            image.save(file, format="PNG", optimize=True)

        atomic(Path(path), None, fill)

    def name(self, label: int) -> str:
        """A label for people."""
        return self.colours[label] if self.kind == "colour" else str(label)


def _mask(path: Path) -> Any:
    if FORMATS.get(path.suffix.lower()) == "JPEG":
        raise InvalidSampleError(f"the mask {path} is a JPEG file, which changes colours; wanted PNG or BMP.")
    return _opened(path)


def _kind(image: Any) -> str:
    if image.mode == "P":
        return "palette"
    return "grey" if image.mode in ("1", "L") or image.mode.startswith("I") else "colour"


def _packed(image: Any) -> np.ndarray:
    parts = np.asarray(image.convert("RGB"), dtype=np.int64)
    return (parts[..., 0] << 16) | (parts[..., 1] << 8) | parts[..., 2]


def _hex(value: int) -> str:
    return f"#{value:06x}"


def _triple(colour: str) -> tuple[int, int, int]:
    value = int(colour[1:], 16)
    return value >> 16, value >> 8 & 255, value & 255


def _as_unknown(given: Any, kind: str) -> Any:
    text = str(given).strip().lower()
    try:
        if kind == "colour":
            if len(text) != 7 or text[0] != "#":
                raise ValueError
            return _hex(int(text[1:], 16))
        return int(text)
    except ValueError:
        wanted = "a colour as #rrggbb" if kind == "colour" else "a whole number"
        raise InvalidParameterError(f"unknown is {given!r}, wanted {wanted}, as the masks are of kind {kind}.") from None
