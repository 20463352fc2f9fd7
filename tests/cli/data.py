"""Small data in every form that `maxsum fit` reads, and commands as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

SOURCE = Path(__file__).parents[2] / "src"
WORDS = {"the": "D", "a": "D", "dog": "N", "cat": "N", "bird": "N", "barks": "V", "sleeps": "V", "sings": "V", "often": "A"}
CHUNK = {"D": "B-NP", "N": "I-NP", "V": "B-VP", "A": "O"}
PALETTE = [0, 0, 0, 200, 30, 30, 30, 200, 30] + [0] * 759


def start(*arguments, code=None, **options):
    """Start a command (or ``code``, with its arguments) as a process of its own, which listens to Ctrl-C also where these tests run in the background of a shell."""
    options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, *(["-m", "maxsum.cli"] if code is None else ["-c", code]), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def write_sentences(path, n, seed, labelled=True, separator=" "):
    rng = np.random.default_rng(seed)
    words = list(WORDS)
    with path.open("w") as file:
        for _ in range(n):
            for word in rng.choice(words, size=rng.integers(2, 7)):
                tag = CHUNK[WORDS[word]]
                file.write(separator.join([word, WORDS[word], *([tag] if labelled else [])]) + "\n")
            file.write("\n")


def draw(folder, n, seed, kind="palette", masks=True):
    """Images of two colours with noise, and their masks with the labels 1 and 2."""
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    if masks:
        (folder / "masks").mkdir()
    for i in range(n):
        truth = np.kron(rng.integers(1, 3, size=(3, 3)), np.ones((3, 3), dtype=int)).astype(np.uint8)
        colours = np.array([[0, 0, 0], [180, 60, 60], [60, 180, 60]])[truth] + rng.integers(-40, 40, size=(9, 9, 3))
        Image.fromarray(colours.clip(0, 255).astype(np.uint8)).save(folder / "images" / f"i{i}.png")
        if not masks:
            continue
        if kind == "palette":
            mask = Image.frombytes("P", (9, 9), truth.tobytes())
            mask.putpalette(PALETTE)
        elif kind == "grey":
            mask = Image.fromarray(truth)
        else:
            mask = Image.fromarray(np.array([[0, 0, 0], [255, 0, 0], [0, 255, 0]], dtype=np.uint8)[truth])
        mask.save(folder / "masks" / f"i{i}.png")


def rows_of_labels(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(3)
    Y = np.stack([X[:, 0] > 0, X[:, 0] + X[:, 1] > 0, X[:, 2] > 0.2], axis=1).astype(int)
    return X, Y


def write_names(path, n=3394, seed=0):
    """Sentences as of a corpus of named entities: rare words, 13 tags in blocks, and tags that are noisy as people's are."""
    rng = np.random.default_rng(seed)
    kinds = ["person", "place", "group", "work", "product", "company"]
    letters = np.array(list("aeioubcdfglmnprst"))
    vocabulary = ["".join(rng.choice(letters, size=rng.integers(2, 9))) for _ in range(10_000)]
    with path.open("w") as file:
        for _ in range(n):
            length, left, kind = int(rng.integers(6, 30)), 0, ""
            for _ in range(length):
                word = vocabulary[min(int(rng.zipf(1.4)) - 1, len(vocabulary) - 1)]
                if not left and rng.random() < 0.06:
                    left, kind, begins = int(rng.integers(1, 4)), kinds[rng.integers(6)], True
                if left:
                    word, tag = word.capitalize() + (kind[:2] if rng.random() < 0.7 else ""), f"{'B' if begins else 'I'}-{kind}"
                    left, begins = left - 1, False
                else:
                    tag = "O"
                if rng.random() < 0.05:
                    tag = f"{'BI'[rng.integers(2)]}-{kinds[rng.integers(6)]}"
                file.write(f"{word} {tag}\n")
            file.write("\n")
