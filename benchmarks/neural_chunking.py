"""Chunks of sentences (CoNLL-2000) by a small BiLSTM: words alone, without parts of speech; a softmax for each word, or a loss of whole sentences."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from maxsum.datasets.conll import read_conll
from maxsum.metrics import chunk_f1
from maxsum.torch import CRFLoss, StructuredHinge, decode

SIZES = (48, 16, 24, 4)  # of embeddings of words, suffixes of two and three letters, shapes; random before training
HIDDEN = 48  # units of the LSTM, each way
BATCH = 32  # sentences
RATE = 5e-3  # first rate of Adam, falling to a twentieth
KINDS = ("softmax", "CRFLoss", "StructuredHinge")


class Data(NamedTuple):
    """Features (length, 4) and tags of each sentence, sizes of the features, names of the tags."""

    train: list[tuple[torch.Tensor, torch.Tensor]]
    test: list[tuple[torch.Tensor, torch.Tensor]]
    n_values: tuple[int, ...]
    tags: list[str]


class Found(NamedTuple):
    """F1 in percent, illegal transitions of the answers, CPU seconds of training and of its losses alone (without their gradients)."""

    f1: float
    illegal: int
    seconds: float
    loss_seconds: float


def features(word: str) -> tuple[str, ...]:
    """Word, two suffixes, and the kind of its first letter."""
    kind = "upper" if word[:1].isupper() else "lower" if word[:1].isalpha() else "number" if word[:1].isdigit() else word[:1]
    return word.lower(), word[-2:].lower(), word[-3:].lower(), kind


def load(folder: Path, limit: int | None = None) -> Data:
    """The sentences of the shared task; values that are seen once are unknown ones."""
    parts = [read_conll(folder / "conll2000" / name)[:limit] for name in ("train.txt.gz", "test.txt.gz")]
    counts: list[Counter[str]] = [Counter() for _ in SIZES]
    for sentence in parts[0]:
        for word in sentence:
            for count, value in zip(counts, features(word[0]), strict=True):
                count[value] += 1
    numbers = [{value: i + 1 for i, value in enumerate(v for v, n in count.items() if n > 1)} for count in counts]
    tags = sorted({word[-1] for part in parts for sentence in part for word in sentence})
    place = {tag: i for i, tag in enumerate(tags)}

    def read(sentence: Any) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [[own.get(value, 0) for own, value in zip(numbers, features(word[0]), strict=True)] for word in sentence]
        return torch.tensor(rows), torch.tensor([place[word[-1]] for word in sentence])

    train, test = ([read(sentence) for sentence in part] for part in parts)
    return Data(train, test, tuple(len(own) + 1 for own in numbers), tags)


class Network(nn.Module):
    """Scores (B, T, K) of all tags."""

    def __init__(self, n_values: tuple[int, ...], n_tags: int):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(n, size) for n, size in zip(n_values, SIZES, strict=True)])
        self.drop = nn.Dropout(0.3)
        self.lstm = nn.LSTM(sum(SIZES), HIDDEN, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * HIDDEN, n_tags)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Scores of a padded batch."""
        inner = self.drop(torch.cat([own(x[..., i]) for i, own in enumerate(self.embeddings)], dim=-1))
        packed = nn.utils.rnn.pack_padded_sequence(inner, lengths, batch_first=True, enforce_sorted=False)
        inner, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(self.drop(inner))


def batches(data: list[Any], size: int, rng: np.random.Generator | None) -> Iterator[tuple[Any, ...]]:
    """Sentences of about the same length, padded: their numbers, features, tags (-100 after the end), lengths."""
    length = np.array([len(tags) for _, tags in data], dtype=np.float64)
    order = np.argsort(length if rng is None else length + 4 * rng.random(len(length)), kind="stable")
    parts = [order[i : i + size] for i in range(0, len(order), size)]
    if rng is not None:
        rng.shuffle(parts)
    for part in parts:
        x = nn.utils.rnn.pad_sequence([data[i][0] for i in part], batch_first=True)
        y = nn.utils.rnn.pad_sequence([data[i][1] for i in part], batch_first=True, padding_value=-100)
        yield part, x, y, torch.tensor([len(data[i][1]) for i in part])


def run(data: Data, kind: str, n_epochs: int, seed: int = 0) -> Found:
    """Train on all sentences, test."""
    torch.manual_seed(seed)
    rng, size = np.random.default_rng(seed), len(data.tags)
    network = Network(data.n_values, size)
    settings = dict(reduction="node_mean", forbidden="bio", classes=data.tags)
    layer = {"CRFLoss": CRFLoss, "StructuredHinge": StructuredHinge}[kind](size, **settings) if kind != "softmax" else None
    parameters = [*network.parameters(), *(layer.parameters() if layer is not None else [])]
    optimizer = torch.optim.Adam(parameters, lr=RATE)
    steps = n_epochs * -(-len(data.train) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    began, inside = time.process_time(), 0.0
    network.train()
    for _ in range(n_epochs):
        for _, x, y, lengths in batches(data.train, BATCH, rng):
            scores, clock = network(x, lengths), time.process_time()
            if layer is None:
                loss = nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten())
            else:
                loss = layer(scores, y, lengths=lengths)
            inside += time.process_time() - clock
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
    seconds = time.process_time() - began
    predicted: list[list[str]] = [[] for _ in data.test]
    network.eval()
    with torch.no_grad():
        for part, x, _, lengths in batches(data.test, 128, None):
            scores = network(x, lengths)
            labels = scores.argmax(dim=-1) if layer is None else decode(scores, layer, lengths=lengths).labels
            for j, i in enumerate(part):
                predicted[i] = [data.tags[k] for k in labels[j, : lengths[j]].tolist()]
    truth = [[data.tags[k] for k in tags.tolist()] for _, tags in data.test]
    illegal = sum(
        after.startswith("I-") and before[1:] != after[1:]
        for own in predicted
        for before, after in zip(["O", *own], own, strict=False)
    )
    return Found(float(chunk_f1(truth, predicted).f1), illegal, seconds, inside)
