"""Measures of labellings and of proofs: Hamming loss, macro F1, intersection over union, chunk F1, subset accuracy, tables of gaps.

Labellings are given as one array, or as a list of arrays whose shapes may differ. Nodes whose true label is unknown (``None``, NaN,
pandas' NA, an empty string among others, or ``mask``, -1 by default) are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .core.errors import InvalidSampleError
from .core.validation import blank, is_missing, label_array, missing

__all__ = ["chunk_f1", "gap_table", "hamming_loss", "macro_f1", "mean_iou", "subset_accuracy"]

_AUTO = "auto"


def hamming_loss(y_true: Any, y_pred: Any, normalise: bool = True, *, mask: Any = _AUTO) -> float:
    r"""Share of the labels that are wrong, :math:`\sum_v [y_v \ne \hat y_v] / \sum_v 1`, over all samples together.

    Parameters
    ----------
    y_true, y_pred : array-like, or list of arrays
        Labels, or indicators of many labels (n_samples, n_labels).
    normalise : bool
        False gives the number of wrong labels.
    mask : label or None
        What stands for an unknown label in ``y_true``; None if every label counts. By default -1, and the empty string among others;
        -1 is refused where all other labels and predictions are 1 or -1, since it might then be a class.

    Returns
    -------
    float
    """
    pairs = _pairs(y_true, y_pred, mask)
    wrong = sum(int((true != pred).sum()) for true, pred in pairs)
    return wrong / _some(sum(len(true) for true, _ in pairs)) if normalise else float(wrong)


def subset_accuracy(y_true: Any, y_pred: Any, *, mask: Any = _AUTO) -> float:
    """Share of the samples without any wrong label; samples with no known label are left out.

    Parameters
    ----------
    y_true, y_pred : array-like, or list of arrays
        The rows of an array of two or more dimensions are the samples; one of one dimension is a single sample.
    mask : label or None
        See `hamming_loss`.

    Returns
    -------
    float
    """
    right = [bool((true == pred).all()) for true, pred in _pairs(y_true, y_pred, mask, rows=True) if len(true)]
    return sum(right) / _some(len(right))


def iou_scores(y_true: Any, y_pred: Any, *, mask: Any = _AUTO) -> dict[Any, float]:
    r"""Intersection over union of each class, :math:`|T_k \cap P_k| / |T_k \cup P_k|`, over all samples together.

    Parameters
    ----------
    y_true, y_pred : array-like, or list of arrays
    mask : label or None
        See `hamming_loss`.

    Returns
    -------
    dict
        Class to score. Classes that are neither among the known true labels nor among the predictions there are left out.
    """
    classes, both, true, predicted = _counts(y_true, y_pred, mask)
    return dict(zip(classes.tolist(), (both / (true + predicted - both)).tolist(), strict=True))


def macro_f1(y_true: Any, y_pred: Any, *, mask: Any = _AUTO) -> float:
    r"""Mean over the classes of :math:`F_1 = 2|T_k \cap P_k| / (|T_k| + |P_k|)`, counted over all samples together.

    Parameters
    ----------
    y_true, y_pred : array-like, or list of arrays
    mask : label or None
        See `hamming_loss`.

    Returns
    -------
    float
        As in `iou_scores`, classes that are neither among the known true labels nor among the predictions there are left out.
    """
    _, both, true, predicted = _counts(y_true, y_pred, mask)
    return float(np.mean(2 * both / (true + predicted)))


def _counts(y_true: Any, y_pred: Any, mask: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Classes, and how often each is right, true and predicted."""
    pairs = [pair for pair in _pairs(y_true, y_pred, mask) if len(pair[0])]
    _some(len(pairs))
    n_true = sum(len(true) for true, _ in pairs)
    joined = np.concatenate([true for true, _ in pairs] + [predicted for _, predicted in pairs])
    classes, codes = np.unique(joined, return_inverse=True)
    true, predicted = codes[:n_true], codes[n_true:]
    both, first, second = (np.bincount(own, minlength=len(classes)) for own in (true[true == predicted], true, predicted))
    return classes, both, first, second


def mean_iou(y_true: Any, y_pred: Any, *, mask: Any = _AUTO) -> float:
    """Mean of `iou_scores` over the classes.

    Parameters
    ----------
    y_true, y_pred, mask : array-like
        As of `iou_scores`.

    Returns
    -------
    float
    """
    return float(np.mean(list(iou_scores(y_true, y_pred, mask=mask).values())))


@dataclass(frozen=True)
class ChunkScores:
    """Chunks found, in per cent as ``conlleval`` prints them.

    Attributes
    ----------
    n_true, n_predicted, n_correct : int
        Chunks; correct ones have the same first and last token and the same type.
    accuracy : float or None
        Per cent of the tags that are right, over all types only.
    by_type : dict of str to ChunkScores
    """

    n_true: int
    n_predicted: int
    n_correct: int
    accuracy: float | None = None
    by_type: dict[str, ChunkScores] = field(default_factory=dict)

    @property
    def precision(self) -> float:
        """Share of the predicted chunks that are right, in per cent."""
        return 100 * self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the true chunks that were found, in per cent."""
        return 100 * self.n_correct / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, in per cent."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def __str__(self) -> str:
        rows = [("", "precision", "recall", "F1", "true", "found")]
        for name, own in [*self.by_type.items(), ("all", self)]:
            rows.append(
                (name, f"{own.precision:.2f}", f"{own.recall:.2f}", f"{own.f1:.2f}", str(own.n_true), str(own.n_predicted))
            )
        return as_text(rows)


def chunk_f1(y_true: Any, y_pred: Any) -> ChunkScores:
    """Precision, recall and F1 of chunks, by the rules of the CoNLL-2000 script ``conlleval``.

    Tags are ``O`` or a letter B, I or E with a type, ``B-NP``. A chunk starts at B after B, I or O, at I after O or E, at E
    after O or E, and wherever the type changes; it ends before B or O that follow B or I, before I, E or O that follow E, before
    a change of type, and with the sentence. So IOB1, IOB2, IOE1 and IOE2 are all understood. (As in the script, B after E with
    the same type goes on with the chunk: no scheme has both.)

    Parameters
    ----------
    y_true, y_pred : list of sequences of str
        Tags of each sentence; a single sequence of tags is one sentence. A true tag that is -1, None, NaN or empty is unknown: it and the
        tag predicted there count as O, which ends chunks, and not in the accuracy.

    Returns
    -------
    ChunkScores
    """
    first, second = _sentences(y_true, "y_true"), _sentences(y_pred, "y_pred")
    if len(first) != len(second):
        raise InvalidSampleError(f"y_true has {len(first)} sentences, y_pred has {len(second)}; wanted as many.")
    n_true: Counter[str] = Counter()
    n_pred: Counter[str] = Counter()
    n_both: Counter[str] = Counter()
    right = known = 0
    for j, (true, pred) in enumerate(zip(first, second, strict=True)):
        if len(true) != len(pred):
            raise InvalidSampleError(f"sentence {j} has {len(true)} true tags, but {len(pred)} predicted ones; wanted as many.")
        unknown = [tag in ("", "-1") if isinstance(tag, str) else is_missing(tag) or tag == -1 for tag in true]
        tags = [
            [_OUTSIDE if gap else _split(tag, j, i, name) for i, (tag, gap) in enumerate(zip(own, unknown, strict=True))]
            for own, name in ((true, "true"), (pred, "predicted"))
        ]
        known += len(true) - sum(unknown)
        right += sum(a == b for a, b, gap in zip(*tags, unknown, strict=True) if not gap)
        found, guessed = _chunks(tags[0]), _chunks(tags[1])
        n_true.update(chunk.type for chunk in found)
        n_pred.update(chunk.type for chunk in guessed)
        n_both.update(chunk.type for chunk in found & guessed)
    by_type = {name: ChunkScores(n_true[name], n_pred[name], n_both[name]) for name in sorted({*n_true, *n_pred})}
    accuracy = 100 * right / known if known else 0.0
    return ChunkScores(n_true.total(), n_pred.total(), n_both.total(), accuracy, by_type)


class _Chunk(NamedTuple):
    first: int
    past: int
    type: str


_OUTSIDE = ("O", "")
_STARTS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
_ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}


def _chunks(tags: list[tuple[str, str]]) -> set[_Chunk]:
    found, start = set(), None
    letter, kind = _OUTSIDE
    for i, (own, own_kind) in enumerate([*tags, _OUTSIDE]):
        change = kind != own_kind
        if start is not None and (letter + own in _ENDS or (letter != "O" and change)):
            found.add(_Chunk(start, i, kind))
            start = None
        if letter + own in _STARTS or (own != "O" and change):
            start = i
        letter, kind = own, own_kind
    return found


def _split(tag: Any, sentence: int, token: int, name: str) -> tuple[str, str]:
    letter, _, kind = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if letter not in ("B", "I", "E", "O"):
        raise InvalidSampleError(
            f"the {name} tag of token {token} in sentence {sentence} is {tag!r}, wanted O or B-, I- or E- with a type. "
            "Write S- (a chunk of one token) as B-."
        )
    return _OUTSIDE if letter == "O" else (letter, kind)


def _sentences(given: Any, name: str) -> list[list[Any]]:
    if isinstance(given, str) or not isinstance(given, (Sequence, np.ndarray)):
        raise InvalidSampleError(f"{name} is a {type(given).__name__}, wanted a list of sequences of tags.")
    if len(given) and all(isinstance(tag, str) or not isinstance(tag, (Sequence, np.ndarray)) for tag in given):
        return [list(given)]
    for j, own in enumerate(given):
        if isinstance(own, str) or not isinstance(own, (Sequence, np.ndarray)):
            raise InvalidSampleError(f"sentence {j} of {name} is {own!r}, wanted a sequence of tags.")
    return [list(own) for own in given]


class GapTable(list[dict[str, Any]]):
    """Rows of `gap_table`; ``str`` makes a plain table of them."""

    def __str__(self) -> str:
        if not self:
            return "(no results)"
        rows = [tuple(self[0])]
        rows += [tuple(f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values()) for row in self]
        return as_text(rows)


def gap_table(results: Iterable[Any], names: Iterable[str] | None = None) -> GapTable:
    """What is proven of each answer.

    Parameters
    ----------
    results : iterable of Result or LearningResult
    names : iterable of str, optional
        A name for each; its number by default.

    Returns
    -------
    GapTable
        A list of dicts: ``name, method, score, bound, gap, relative_gap, guarantee, termination, seconds``. A LearningResult has its
        objective as score and its lower bound as bound: it is minimised, a `Result` maximised, and both gaps are 0 or more.
    """
    answers = list(results)
    titles = [str(i) for i in range(len(answers))] if names is None else [str(name) for name in names]
    if len(titles) != len(answers):
        raise InvalidSampleError(f"there are {len(answers)} results, but {len(titles)} names; wanted one for each.")
    table = GapTable()
    for i, (title, answer) in enumerate(zip(titles, answers, strict=True)):
        learned = hasattr(answer, "lower_bound")
        if not learned and not (hasattr(answer, "bound") and hasattr(answer, "guarantee")):
            raise InvalidSampleError(f"result {i} is a {type(answer).__name__}, wanted a Result or a LearningResult.")
        table.append(
            {
                "name": title,
                "method": answer.learner if learned else answer.solver,
                "score": float(answer.objective if learned else answer.score),
                "bound": float(answer.lower_bound if learned else answer.bound),
                "gap": float(answer.gap),
                "relative_gap": float(answer.relative_gap),
                "guarantee": str(answer.guarantee),
                "termination": str(answer.termination),
                "seconds": float(answer.seconds),
            }
        )
    return table


def as_text(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of cells as lines with aligned columns."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


# ---- labellings -------------------------------------------------------------------------------------------------------------


def _pairs(y_true: Any, y_pred: Any, mask: Any, rows: bool = False) -> list[tuple[np.ndarray, np.ndarray]]:
    """Known true labels and the predictions there, flat, of each sample; arrays are one sample unless their ``rows`` are."""
    plain = all(isinstance(y, np.ndarray) and y.dtype.kind != "O" for y in (y_true, y_pred))
    if plain and not rows and y_true.shape == y_pred.shape != ():
        first, second = [y_true], [y_pred]
    else:
        first, second = _samples(y_true, "y_true"), _samples(y_pred, "y_pred")
    if len(first) != len(second):
        raise InvalidSampleError(f"y_true has {len(first)} samples, y_pred has {len(second)}; wanted as many.")
    pairs, masked = [], False
    found: set[Any] = set()
    guessed: set[Any] = set()
    for j, (given, guess) in enumerate(zip(first, second, strict=True)):
        true, known = _labels(given, j, "y_true", -1 if mask is _AUTO else mask)
        pred, _ = _labels(guess, j, "y_pred", None)
        if true.shape != pred.shape:
            raise InvalidSampleError(f"sample {j} has labels of shape {true.shape}, but predictions of shape {pred.shape}.")
        masked = masked or not known.all()
        if mask is _AUTO and guessed <= {-1, 1}:
            guessed.update(np.unique(pred).tolist())
        true, pred = true[known], pred[known]
        if len(true) and (true.dtype.kind in "US") != (pred.dtype.kind in "US"):
            raise InvalidSampleError(
                f"sample {j} has labels of dtype {true.dtype}, but predictions of dtype {pred.dtype}: they can never agree."
            )
        if mask is _AUTO and found <= {1}:
            found.update(np.unique(true).tolist())
        pairs.append((true, pred))
    if mask is _AUTO and masked and found == {1} and guessed <= {-1, 1}:
        raise InvalidSampleError(
            "all labels are -1 or 1, and -1 means unknown. Give mask=None if -1 is a class, mask=-1 if it means unknown."
        )
    if mask is _AUTO and any(true.dtype.kind in "US" and not blank(true).all() for true, _ in pairs):
        given = [np.ones(len(true), dtype=bool) if true.dtype.kind not in "US" else ~blank(true) for true, _ in pairs]
        return [(true[some], pred[some]) for (true, pred), some in zip(pairs, given, strict=True)]
    return pairs


def _samples(given: Any, name: str) -> list[Any]:
    if hasattr(given, "toarray"):
        given = given.toarray()
    if not isinstance(given, (list, tuple, np.ndarray)) or (isinstance(given, np.ndarray) and given.ndim == 0):
        raise InvalidSampleError(f"{name} is a {type(given).__name__}, wanted an array or a list of arrays.")
    if isinstance(given, np.ndarray) and given.dtype.kind != "O":
        return list(given) if given.ndim > 1 else [given]
    if all(not isinstance(one, (list, tuple)) and np.ndim(one) == 0 for one in given):
        return [given]
    return list(given)


def _labels(given: Any, j: int, name: str, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    """One labelling as numbers or strings, and which labels are known."""
    try:
        array = label_array(given)
    except ValueError:
        raise InvalidSampleError(f"sample {j} of {name} is ragged, wanted one array of labels.") from None
    known = np.ones(array.shape, dtype=bool)
    if array.dtype.kind == "O":
        flat = array.ravel()
        known = ~missing(flat)
        known[known] = [not (_scalar(label) and label == mask) for label in flat[known]]
        kept = flat[known].tolist()
        plain = np.array(kept) if kept else np.zeros(0, dtype=np.int64)
        if plain.dtype.kind not in "biufUS" or plain.ndim != 1 or len({isinstance(label, str) for label in kept}) > 1:
            raise InvalidSampleError(f"sample {j} of {name} has labels that are not all numbers or all strings.")
        filled = np.zeros(len(flat), dtype=plain.dtype)
        filled[known] = plain
        array, known = filled.reshape(array.shape), known.reshape(array.shape)
    elif mask is not None and array.dtype.kind in ("U" if isinstance(mask, str) else "iuf"):
        known = array != mask
    if array.dtype.kind not in "biufUS":
        raise InvalidSampleError(f"sample {j} of {name} has dtype {array.dtype}, wanted numbers or strings.")
    if array.dtype.kind == "f" and name == "y_true":
        known = known & ~np.isnan(array)
    if array.dtype.kind == "f" and not np.isfinite(array[known]).all():
        raise InvalidSampleError(f"sample {j} of {name} has a label that is not finite; wanted labels, or {mask} for unknown.")
    return array, known


def _scalar(label: Any) -> bool:
    return bool(np.ndim(label) == 0)


def _some(count: int) -> int:
    if count == 0:
        raise InvalidSampleError("there is no known label, so there is nothing to measure.")
    return count
