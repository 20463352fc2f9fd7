"""Folders of images and of masks that say the label of each pixel."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError, ParseError

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP"}
MOST_PIXELS = 1 << 25


class LabelledImages(NamedTuple):
    """Images, labels of their pixels, and their names.

    Attributes
    ----------
    X : list of ndarray, shape (height, width, 3)
        Red, green and blue in [0, 1].
    y : list of ndarray of int64, shape (height, width)
    names : list of str
        Names of the files without suffix, in this order.
    """

    X: list[np.ndarray]
    y: list[np.ndarray]
    names: list[str]


def read_image_folder(
    images: str | os.PathLike[str],
    masks: str | os.PathLike[str],
    *,
    colours: Mapping[Any, int] | None = None,
    mask_suffix: str = "",
) -> LabelledImages:
    """Read images and the masks that have the same names.

    Parameters
    ----------
    images, masks : path-like
        Folders (perhaps the same one, with a ``mask_suffix``). Images are PNG, JPEG or BMP files; masks PNG or BMP, since JPEG
        changes colours. Other files are passed over.
    colours : dict, optional
        Labels of the values of a mask: of triples (red, green, blue) of 0 to 255, or of grey levels or numbers in a palette. Use -1
        for pixels of unknown label. By default a mask must have a palette or be grey, and its numbers are the labels.
    mask_suffix : str
        What follows the name of an image in that of its mask, as ``_GT`` in ``cow_GT.png`` for ``cow.jpg``.

    Returns
    -------
    LabelledImages
        In the order of the names. Transparency is dropped.

    Raises
    ------
    ParseError
        A file is broken, too large, or has a colour that is not in ``colours``.
    InvalidSampleError
        An image has no mask, or a mask of another size or no image.
    """
    table = _colour_table(colours)
    pairs = _pairs(Path(images), Path(masks), mask_suffix)
    X, y = [], []
    for image, mask in pairs.values():
        X.append(_read_image(image))
        y.append(_read_mask(mask, table))
        if X[-1].shape[:2] != y[-1].shape:
            raise InvalidSampleError(
                f"{image} has {X[-1].shape[0]} x {X[-1].shape[1]} pixels, but its mask {mask} has "
                f"{y[-1].shape[0]} x {y[-1].shape[1]}; wanted the same size."
            )
    return LabelledImages(X, y, list(pairs))


def _pairs(images: Path, masks: Path, suffix: str, prefix: str = "") -> dict[str, tuple[Path, Path]]:
    for folder in (images, masks):
        if not folder.is_dir():
            raise InvalidSampleError(f"{folder} is not a folder, wanted one of images or masks.")

    def is_mask(stem: str) -> bool:
        return stem.startswith(prefix) and stem.endswith(suffix) and len(stem) > len(prefix) + len(suffix)

    targets = _files(masks, is_mask)
    same = images.resolve() == masks.resolve()
    if same and not suffix + prefix:
        raise InvalidParameterError(f"images and masks are both in {images}; give mask_suffix to tell them apart.")
    sources = _files(images, lambda stem: not (same and is_mask(stem)))
    if not sources:
        raise InvalidSampleError(f"{images} has no images; wanted files {', '.join(FORMATS)}.")
    for stem, path in sources.items():
        if prefix + stem + suffix not in targets:
            raise InvalidSampleError(f"{path} has no mask; wanted {prefix + stem + suffix}.png or .bmp in {masks}.")
    for stem, path in targets.items():
        own = stem.removeprefix(prefix).removesuffix(suffix)
        if own not in sources:
            raise InvalidSampleError(f"the mask {path} has no image; wanted one named {own} in {images}.")
    return {stem: (sources[stem], targets[prefix + stem + suffix]) for stem in sorted(sources)}


def _files(folder: Path, wanted: Any) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in FORMATS and path.is_file() and wanted(path.stem):
            if path.stem in found:
                raise InvalidSampleError(f"{found[path.stem]} and {path} have the same name; wanted one file for each name.")
            found[path.stem] = path
    return found


def _colour_table(colours: Mapping[Any, int] | None) -> dict[Any, int] | None:
    if colours is None:
        return None
    table: dict[Any, int] = {}
    for key, label in colours.items():
        plain = tuple(int(part) for part in key) if isinstance(key, (tuple, list, np.ndarray)) else key
        numbers = plain if isinstance(plain, tuple) else (plain,)
        if len(numbers) not in (1, 3) or not all(
            isinstance(part, (int, np.integer)) and 0 <= part < 1 << 16 for part in numbers
        ):
            raise InvalidParameterError(f"colours has the key {key!r}, wanted (red, green, blue) or one number, 0 or more.")
        if not isinstance(label, (int, np.integer)) or label < -1:
            raise InvalidParameterError(
                f"colours has the label {label!r}, wanted a whole number, 0 or more, or -1 for unknown."
            )
        table[plain] = int(label)
    if len({isinstance(key, tuple) for key in table}) != 1:
        raise InvalidParameterError("colours is empty or mixes triples and numbers; wanted one kind.")
    return table


def _opened(path: Path) -> Any:
    """The decoded image; whatever Pillow raises for a broken file becomes a ParseError."""
    from PIL import Image

    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            image = Image.open(file, formats=sorted(set(FORMATS.values())))
            n_pixels = image.width * image.height
            if n_pixels <= MOST_PIXELS:
                image.load()
        except Exception as error:  # Pillow has no common base for what broken files raise
            raise ParseError(f"not an image that can be read ({error}).", str(path)) from error
    if n_pixels > MOST_PIXELS:
        raise ParseError(f"the image has {n_pixels} pixels, the limit is {MOST_PIXELS}; refused.", str(path))
    return image


def _read_image(path: Path) -> np.ndarray:
    image = _opened(path)
    if image.mode.startswith("I"):
        grey = np.asarray(image, dtype=np.float64) / 65535
        return np.repeat(np.clip(grey, 0.0, 1.0)[..., None], 3, axis=2)
    return np.asarray(image.convert("RGB"), dtype=np.float64) / 255


def _read_mask(path: Path, table: dict[Any, int] | None) -> np.ndarray:
    if FORMATS[path.suffix.lower()] == "JPEG":
        raise InvalidSampleError(f"the mask {path} is a JPEG file, which changes colours; wanted PNG or BMP.")
    image = _opened(path)
    if table is not None and isinstance(next(iter(table)), tuple):
        parts = np.asarray(image.convert("RGB"), dtype=np.int64)
        values = (parts[..., 0] << 16) | (parts[..., 1] << 8) | parts[..., 2]
        codes = {(r << 16) | (g << 8) | b: label for (r, g, b), label in table.items()}
        return _mapped(values, codes, path, lambda value: str((value >> 16, value >> 8 & 255, value & 255)))
    if image.mode not in ("1", "L", "P") and not image.mode.startswith("I"):
        raise ParseError(
            f"the mask has mode {image.mode}, wanted a palette or grey levels. Give colours={{(red, green, blue): label, ...}}.",
            str(path),
        )
    values = np.asarray(image).astype(np.int64)
    return values if table is None else _mapped(values, table, path, str)


def _mapped(values: np.ndarray, codes: dict[Any, int], path: Path, name: Any) -> np.ndarray:
    found, at = np.unique(values, return_inverse=True)
    for value in found.tolist():
        if value not in codes:
            row, column = np.argwhere(values == value)[0].tolist()
            raise ParseError(f"pixel ({row}, {column}) has the colour {name(value)}, which is not in colours.", str(path))
    return np.array([codes[value] for value in found.tolist()], dtype=np.int64)[at].reshape(values.shape)
