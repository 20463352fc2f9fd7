"""Folders of images with label images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InvalidParameterError, InvalidSampleError
from ...datasets.images import FORMATS, _files, _pairs, _read_image
from ...datasets.masks import MaskCode
from ...datasets.pixels import pixel_features
from .base import Content, Form, counted

_IMAGES = ("images", "image", "img", "JPEGImages")
_MASKS = ("masks", "labels", "mask", "label", "annotations", "gt", "GroundTruth", "SegmentationClass")
_SUFFIXES = ("_GT", "_gt", "_mask", "_masks", "_label", "_labels", "_seg")
_FEATURES = {"pixels": ["colour", "mean", "position"], "window": 5, "products": True}


class ImageForm(Form):
    """A folder with ``images`` and ``masks``, or both in one with a suffix. Out goes a folder of PNG files like the masks."""

    task, estimator = "image", "GridLabeler"

    def read(self, path: Path, training: bool) -> Content:
        if not path.is_dir():
            raise InvalidSampleError(f"{path} is not a folder, wanted one with images, and with their masks.")
        self._read_pattern()
        images, masks, suffix = self._folders(path)
        if masks is None and training and (path / "nodes.csv").exists():
            raise InvalidSampleError(f"{path} has nodes.csv but no edges.csv, wanted both; or say --edges FILE.")
        if training and not any(path.iterdir()):
            raise InvalidSampleError(
                f"{path} is empty, wanted the folders {_IMAGES[0]} and {_MASKS[0]}, or the tables nodes.csv and edges.csv."
            )
        if masks is None and training:
            raise InvalidSampleError(
                f"{path} has no masks to learn from; wanted them in a folder {', '.join(_MASKS[:2])} or so beside one named "
                f"{_IMAGES[0]}, or in the same folder with names that end in {', '.join(_SUFFIXES[:3])} or so (--mask 'mask-*.png' names others)."
            )
        pairs = self._named_pairs(images, masks, suffix)
        if training:
            own = [mask for _, mask in pairs.values() if mask is not None]
            code = MaskCode.learn(own, self._list("unknown"))
            self.settings |= {"masks_code": code._asdict(), "mask_suffix": suffix}
            self.settings |= {name: self.settings.get(name, value) for name, value in _FEATURES.items()}
            self.settings["pixels"] = self._list("pixels")
        kept = self.settings
        X, y, names, sizes = [], [], [], 0
        for name, (image, mask) in pairs.items():
            pixels = _read_image(image)
            X.append(pixel_features(pixels, kept["pixels"], kept["window"], kept["products"]))
            names.append(name)
            sizes += pixels.shape[0] * pixels.shape[1]
            if mask is not None:
                y.append(self._code.read(mask))
                if y[-1].shape != pixels.shape[:2]:
                    raise InvalidSampleError(
                        f"{image} has {pixels.shape[0]} x {pixels.shape[1]} pixels, but its mask {mask} has "
                        f"{y[-1].shape[0]} x {y[-1].shape[1]}; wanted the same size."
                    )
        words = f"{counted(len(X), 'image')}, {counted(sizes, 'pixel')}"
        if masks is not None:
            words += f", {counted(len({int(k) for own in y for k in np.unique(own) if k >= 0}), 'class', 'es')}"
        return Content(X, y if masks is not None else None, names, suffix, words)

    @property
    def _code(self) -> MaskCode:
        return MaskCode(**self.settings["masks_code"])

    def _folders(self, path: Path) -> tuple[Path, Path | None, str]:
        suffix = str(self.settings.get("mask_suffix") or "")
        images = self._sub(path, "images", _IMAGES)
        prefix, beside = self._prefix, images or path
        if self.settings.get("mask") and _files(beside, lambda stem: stem.startswith(prefix) and stem.endswith(suffix)):
            return beside, beside, suffix
        masks = self._sub(path, "masks", _MASKS)
        if masks is not None:
            return images or path, masks, suffix
        own = beside
        stems = set(_files(own, lambda stem: True)) if not suffix else set()
        candidates = (
            [suffix] if suffix else [s for s in _SUFFIXES if any(stem.removesuffix(s) in stems - {stem} for stem in stems)]
        )
        for candidate in candidates:
            if _files(own, lambda stem, end=candidate: stem.endswith(end)):
                return own, own, candidate
        return own, None, suffix

    def _read_pattern(self) -> None:
        """``mask-*.png``: what stands before and behind the name of an image in that of its mask."""
        pattern = self.settings.get("mask")
        if pattern is None:
            return
        stem = str(pattern).removesuffix(Path(str(pattern)).suffix) if "." in str(pattern) else str(pattern)
        before, star, behind = stem.partition("*")
        if not star or "*" in behind or "/" in stem or not before + behind:
            raise InvalidParameterError(
                f"mask is {pattern!r}, wanted a file name with one * for the name of the image, such as mask-*.png."
            )
        self.settings |= {"mask_prefix": before, "mask_suffix": behind}

    @property
    def _prefix(self) -> str:
        return str(self.settings.get("mask_prefix") or "")

    def _sub(self, path: Path, key: str, names: tuple[str, ...]) -> Path | None:
        given = self.settings.get(key)
        if given is not None and (path / str(given)).is_dir():
            return path / str(given)
        return next((path / name for name in names if (path / name).is_dir()), None)

    def _named_pairs(self, images: Path, masks: Path | None, suffix: str) -> dict[str, tuple[Path, Path | None]]:
        if masks is not None:
            return dict(_pairs(images, masks, suffix, self._prefix))
        found = _files(images, lambda stem: True)
        if not found:
            raise InvalidSampleError(f"{images} has no images; wanted files {', '.join(FORMATS)}.")
        return {stem: (path, None) for stem, path in found.items()}

    def write(self, out: Path, content: Content, labels: Any) -> None:
        out.mkdir(parents=True, exist_ok=True)
        suffix = str(self.settings.get("mask_suffix") or "")
        for name, own in zip(content.names, labels, strict=True):
            self._code.write(out / f"{self._prefix}{name}{suffix}.png", own)

    def inputs(self, data: Path) -> list[Path]:
        images, masks, _ = self._folders(data)
        return [data, images, *([] if masks is None else [masks])]

    def class_name(self, label: Any) -> str:
        return self._code.name(int(label))
