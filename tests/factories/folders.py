"""Folders of datasets with made content, in the form of the real ones, for the experiments that read more than one."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np


def write_conll2000(folder: Path, files: tuple[str, ...], n: int = 40) -> None:
    """Noun phrases of a determiner and a noun, verbs between them, now and then a word with the wrong part of speech."""
    random = np.random.default_rng(0)
    parts = {"D": ("the", "a"), "N": ("dog", "cat", "bird"), "V": ("sees", "hears")}
    tags = {"D": "B-NP", "N": "I-NP", "V": "B-VP"}
    (folder / "conll2000").mkdir()
    for name in files:
        lines = []
        for _ in range(n):
            for kind in "DNVDN"[: random.integers(2, 6)]:
                shown = kind if random.random() < 0.9 else random.choice(list("DNV"))
                lines.append(f"{random.choice(parts[kind])} {shown} {tags[kind]}")
            lines.append("")
        with gzip.open(folder / "conll2000" / name, "wt") as file:
            file.write("\n".join(lines))


def write_label_table(folder: Path, name: str, n: int, n_labels: int, width: int, seldom: float = 0.5) -> None:
    """Scene or Yeast: features that tell the labels apart; a label is there where its feature is above ``seldom``."""
    random = np.random.default_rng(0)
    X = random.standard_normal((2 * n, width))
    y = (X[:, :n_labels] + 0.3 * random.standard_normal((2 * n, n_labels)) > seldom).astype(np.uint8)
    (folder / name).mkdir()
    np.savez(folder / name / f"{name}.npz", X_train=X[:n], y_train=y[:n], X_test=X[n:], y_test=y[n:])
