"""Metrics against hand-made cases, slow code and scikit-learn."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from factories.labels import NA
from sklearn import metrics as sk

import maxsum as ms
from maxsum.datasets import read_conll
from maxsum.metrics import chunk_f1, gap_table, hamming_loss, iou_scores, macro_f1, mean_iou, subset_accuracy


def images(rng, shapes=((3, 4), (5, 2), (1, 1)), n_labels=4):
    return [rng.integers(n_labels, size=shape) for shape in shapes]


def test_hamming_of_a_list_of_different_shapes():
    rng = np.random.default_rng(0)
    y, z = images(rng), images(rng)
    wrong = sum((a != b).sum() for a, b in zip(y, z, strict=True))
    assert wrong > 0
    assert hamming_loss(y, z, normalise=False) == wrong
    assert hamming_loss(y, z) == wrong / 23
    assert hamming_loss(y, y) == 0


def test_hamming_and_subset_accuracy_as_scikit_learn():
    rng = np.random.default_rng(1)
    y, z = rng.integers(2, size=(2, 50, 3))
    assert hamming_loss(y, z) == pytest.approx(sk.hamming_loss(y, z))
    assert subset_accuracy(y, z) == pytest.approx(sk.accuracy_score(y, z))
    assert 0 < subset_accuracy(y, z) < 1


def test_forms_of_the_same_labels_agree():
    y, z = np.random.default_rng(5).integers(3, size=(2, 6, 4))
    for form in (list, np.ndarray.tolist, lambda own: np.array(own, dtype=object), lambda own: own.astype(float), np.int8):
        for metric in (hamming_loss, subset_accuracy, mean_iou):
            assert metric(form(y), z) == metric(y, form(z)) == metric(y, z)


def test_iou_as_scikit_learn():
    rng = np.random.default_rng(2)
    y, z = images(rng), images(rng)
    flat = [np.concatenate([one.ravel() for one in own]) for own in (y, z)]
    wanted = sk.jaccard_score(*flat, average=None)
    assert iou_scores(y, z) == pytest.approx(dict(enumerate(wanted)))
    assert mean_iou(y, z) == pytest.approx(wanted.mean())


def test_iou_leaves_out_absent_classes():
    assert iou_scores([0, 0, 5], [0, 5, 5]) == {0: 0.5, 5: 0.5}
    assert iou_scores([0, -1, 1], [0, 7, 1]) == {0: 1.0, 1: 1.0}
    assert iou_scores([["a", "b"]], [["a", "c"]]) == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert mean_iou([0, 0, 5], [0, 0, 0]) == pytest.approx(1 / 3)


def test_macro_f1_as_scikit_learn():
    rng = np.random.default_rng(3)
    y, z = images(rng), images(rng)
    flat = [np.concatenate([one.ravel() for one in own]) for own in (y, z)]
    assert macro_f1(y, z) == pytest.approx(sk.f1_score(*flat, average="macro"))
    assert macro_f1([0, 0, 5, -1], [0, 5, 5, 7]) == pytest.approx(2 / 3) != mean_iou([0, 0, 5], [0, 5, 5])


@pytest.mark.parametrize("unknown", [-1, None, np.nan, NA])
def test_unknown_labels_are_left_out(unknown):
    y, z = [[0, unknown, 2], [unknown], [1, 1]], [[0, 5, 1], [3], [1, 1]]
    assert hamming_loss(y, z) == 1 / 4
    assert subset_accuracy(y, z) == 1 / 2
    words = [[{0: "a", 1: "b", 2: "c"}.get(label, unknown) if isinstance(label, int) else label for label in own] for own in y]
    assert macro_f1(words, [["a", "x", "b"], ["y"], ["b", "b"]]) == pytest.approx(macro_f1(y, z))
    assert 0 < macro_f1(y, z) < 1


def test_empty_cells_are_unknown_among_strings():
    assert hamming_loss(["a", "", "b"], ["a", "b", "b"]) == 0
    assert hamming_loss([["a"], ["", ""]], [["b"], ["b", "b"]], normalise=False) == 1
    assert hamming_loss(["", ""], ["", "b"]) == 0.5 == hamming_loss(["a", ""], ["a", "b"], mask=None)
    assert chunk_f1([["B-X", "", np.nan, NA]], [["B-X", "B-X", "B-X", "O"]]).n_predicted == 1


def test_mask_can_be_named():
    assert hamming_loss([-1, 1], [1, 1], mask=None) == 0.5
    assert hamming_loss([-1, 1], [1, 1], mask=-1) == 0.0
    assert hamming_loss(["a", "?"], ["a", "b"], mask="?") == 0.0
    assert hamming_loss([0, 255], [0, 1], mask=255) == 0.0
    with pytest.raises(ms.InvalidSampleError, match="mask=None if -1 is a class"):
        hamming_loss([-1, 1], [-1, 1])
    with pytest.raises(ms.InvalidSampleError, match="mask=None if -1 is a class"):
        hamming_loss([-1, 1], [1, 1])
    assert hamming_loss([-1, 1], [0, 1]) == 0


@pytest.mark.parametrize(
    ("y", "z", "message"),
    [
        ([[0, 1]], [[0, 1], [0]], "y_true has 1 samples, y_pred has 2"),
        ([[0, 1], [0, 1]], [[0, 1], [0]], r"sample 1 has labels of shape \(2,\), but predictions of shape \(1,\)"),
        ([[0], ["a"]], [[0], [1]], "sample 1 .* can never agree"),
        ([[0], [[0, 1], [2]]], [[0], [1]], "sample 1 of y_true is ragged"),
        ([[0.0], [np.inf]], [[0], [1]], "sample 1 of y_true has a label that is not finite"),
        ([[0.0], [1.0]], [[0], [np.nan]], "sample 1 of y_pred has a label that is not finite"),
        ([[0], [1j]], [[0], [1]], "sample 1 of y_true has dtype complex"),
        ([[0], [None, 1, "a"]], [[0], [1, 1, 1]], "sample 1 of y_true has labels that are not all"),
        ([-1, -1], [0, 0], "no known label"),
        ([], [], "no known label"),
        (3, [3], "y_true is a int"),
        (np.array(3), [3], "y_true is a ndarray"),
    ],
)
def test_bad_labellings(y, z, message):
    for metric in (hamming_loss, subset_accuracy, mean_iou):
        with pytest.raises(ms.InvalidSampleError, match=message):
            metric(y, z)


# ---- chunks -----------------------------------------------------------------------------------------------------------------


def boundaries(before, tag):
    """Whether a chunk ends and whether one starts between two tags, each a letter and a type."""
    (a, s), (b, t) = before, tag
    ends = (a in "BI" and b in "BO") or (a == "E" and b in "EIO")
    starts = (b == "B" and a in "BIO") or (b in "IE" and a in "OE")
    return ends or (a != "O" and s != t), starts or (b != "O" and s != t)


def slow_counts(y, z):
    """Chunks in y, in z, and in both, by one pass over all tokens with a break after each sentence."""
    tokens = [pair for true, pred in zip(y, z, strict=True) for pair in [*zip(true, pred, strict=True), ("O", "O")]]
    last = [("O", ""), ("O", "")]
    n_true = n_pred = n_both = 0
    agree = False
    for pair in tokens:
        now = [(tag[0], tag[2:]) for tag in pair]
        (end_y, start_y), (end_z, start_z) = (boundaries(a, b) for a, b in zip(last, now, strict=True))
        if agree:
            n_both += end_y and end_z
            agree = not (end_y or end_z)
        agree = agree or (start_y and start_z and now[0][1] == now[1][1])
        n_true, n_pred = n_true + start_y, n_pred + start_z
        last = now
    return n_true, n_pred, n_both


def counts(y, z):
    scores = chunk_f1(y, z)
    return scores.n_true, scores.n_predicted, scores.n_correct


@pytest.mark.parametrize(
    ("pair", "n"),
    [
        *[("O O", 0), ("O B-X", 1), ("O I-X", 1), ("O E-X", 1), ("B-X O", 1), ("I-X O", 1), ("E-X O", 1)],
        *[("B-X B-X", 2), ("B-X I-X", 1), ("B-X E-X", 1), ("I-X B-X", 2), ("I-X I-X", 1), ("I-X E-X", 1)],
        *[("E-X B-X", 1), ("E-X I-X", 2), ("E-X E-X", 2)],
        *[(f"{a}-X {b}-Y", 2) for a in "BIE" for b in "BIE"],
    ],
)
def test_every_transition(pair, n):
    assert counts([pair.split()], [["O", "O"]]) == (n, 0, 0)
    assert counts([pair.split()], [pair.split()]) == (n, n, n)


def test_a_sentence_ends_its_chunks():
    assert counts([["B-X"], ["I-X"]], [["B-X"], ["I-X"]]) == (2, 2, 2)
    assert counts([["B-X", "I-X"]], [["B-X", "I-X"]]) == (1, 1, 1)


def test_hand_made_scores():
    y = [["B-NP", "I-NP", "O", "B-VP", "B-NP"], ["B-PP", "B-NP", "I-NP"]]
    z = [["B-NP", "I-NP", "O", "B-VP", "I-NP"], ["B-PP", "B-NP", "B-NP"]]
    scores = chunk_f1(y, z)
    assert (scores.n_true, scores.n_predicted, scores.n_correct) == (5, 6, 4)
    assert scores.precision == pytest.approx(400 / 6) and scores.recall == pytest.approx(80)
    assert scores.f1 == pytest.approx(2 * 4 / 11 * 100)
    assert scores.accuracy == pytest.approx(75)
    assert list(scores.by_type) == ["NP", "PP", "VP"]
    assert (scores.by_type["NP"].n_true, scores.by_type["NP"].n_predicted, scores.by_type["NP"].n_correct) == (3, 4, 2)
    assert scores.by_type["VP"].f1 == 100
    assert "NP   50.00      66.67   57.14   3     4\n" in str(scores)


def test_no_chunks_give_zeros():
    scores = chunk_f1([["O", "O"]], [["O", "O"]])
    assert (scores.precision, scores.recall, scores.f1, scores.accuracy) == (0, 0, 0, 100)


def test_all_pairs_of_short_sentences_as_the_slow_code():
    tags = ["O", "B-X", "I-X", "E-X", "I-Y"]
    sentences = list(itertools.product(tags, repeat=3))
    some = np.random.default_rng(3).integers(len(sentences), size=(4000, 2))
    for i, j in some:
        pair = [sentences[i]], [sentences[j]]
        assert counts(*pair) == slow_counts(*pair), pair


def test_schemes_agree():
    iob2 = ["B-X", "I-X", "B-X", "O", "B-Y"]
    iob1 = ["I-X", "I-X", "B-X", "O", "I-Y"]
    ioe2 = ["I-X", "E-X", "E-X", "O", "E-Y"]
    ioe1 = ["I-X", "E-X", "I-X", "O", "I-Y"]
    for one, other in itertools.product((iob2, iob1, ioe2, ioe1), repeat=2):
        assert counts([one], [other]) == (3, 3, 3)


@pytest.mark.parametrize("unknown", [-1, None, "-1"])
def test_unknown_tags(unknown):
    scores = chunk_f1([["B-X", unknown, "I-X"]], [["B-X", "I-X", "I-X"]])
    assert (scores.n_true, scores.n_predicted, scores.n_correct, scores.accuracy) == (2, 2, 2, 100)


@pytest.mark.parametrize(
    ("y", "z", "message"),
    [
        ([["O"]], [["O"], ["O"]], "1 sentences, y_pred has 2"),
        ([["O"], ["O"]], [["O"], ["O", "O"]], "sentence 1 has 1 true tags, but 2"),
        ([["O", "S-X"]], [["O", "O"]], "true tag of token 1 in sentence 0 is 'S-X'"),
        ([["O"]], [[3]], "predicted tag of token 0 in sentence 0 is 3"),
        ("O", "O", "y_true is a str"),
        ([["O"], "O"], [["O"], ["O"]], "sentence 1 of y_true is 'O'"),
    ],
)
def test_bad_tags(y, z, message):
    with pytest.raises(ms.InvalidSampleError, match=message):
        chunk_f1(y, z)


def test_conll_2000(data_folder):
    file = data_folder / "conll2000" / "test.txt.gz"
    if not file.is_file():
        pytest.skip("no conll2000/test.txt.gz in the data folder")
    gold = [[token[2] for token in sentence] for sentence in read_conll(file)]
    assert len(gold) == 2012
    perfect = chunk_f1(gold, gold)
    assert perfect.f1 == perfect.accuracy == 100 and perfect.n_true == 23852
    tags = sorted({tag for own in gold for tag in own})
    rng = np.random.default_rng(4)
    noisy = [[str(rng.choice(tags)) if rng.random() < 0.1 else tag for tag in own] for own in gold]
    assert counts(gold, noisy) == slow_counts(gold, noisy)
    assert 60 < chunk_f1(gold, noisy).f1 < 95


# ---- gaps -------------------------------------------------------------------------------------------------------------------


def test_gap_table():
    p = ms.Problem(ms.Graph.chain(3), np.eye(3), np.eye(3))
    result = ms.solve(p)
    learned = SimpleNamespace(
        learner="CuttingPlane", objective=2.0, lower_bound=1.5, gap=0.5, relative_gap=0.25, guarantee=ms.Guarantee.within_gap,
        termination=ms.Termination.time_limit, seconds=1.0,
    )  # fmt: skip
    table = gap_table([result, learned], names=["chain", "fit"])
    assert [row["guarantee"] for row in table] == ["optimal", "within_gap"]
    assert table[0]["score"] == result.score and table[0]["bound"] == result.bound and table[0]["gap"] == 0
    assert (table[1]["score"], table[1]["bound"], table[1]["gap"]) == (2.0, 1.5, 0.5)
    lines = str(table).splitlines()
    assert len(lines) == 3 and lines[0].split()[:5] == ["name", "method", "score", "bound", "gap"]
    assert lines[2].split()[:5] == ["fit", "CuttingPlane", "2", "1.5", "0.5"]
    assert [row["name"] for row in gap_table([result, result])] == ["0", "1"]
    assert str(gap_table([])) == "(no results)"


def test_gap_table_refuses_what_is_no_result():
    with pytest.raises(ms.InvalidSampleError, match="result 0 is a int"):
        gap_table([3])
    with pytest.raises(ms.InvalidSampleError, match="1 names"):
        gap_table([], names=["a"])
