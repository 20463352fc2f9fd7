"""Readers of text files: what they read, the line of every fault, limits."""

from __future__ import annotations

import bz2
import gzip
import lzma

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_svmlight_file

import maxsum as ms
from maxsum.core.files.text import Limits
from maxsum.datasets import conll, conll_features, multilabel, read_arff, read_conll, source
from maxsum.datasets import read_libsvm_multilabel as read_libsvm
from maxsum.datasets.source import MissingDataError
from maxsum.datasets.sudoku import read_sudoku

CONLL = "He PRP B-NP\nran VBD B-VP\n\n\nHome NN B-NP\n"
ARFF = """% a comment
@RELATION 'a b'
@attribute x1 numeric
@attribute 'x 2' REAL
@attribute colour {red, 'light blue'}
@attribute "l1" {0,1}
@attribute l2 {0,1}

@data
1.5,-2,red,0,1
% another
1e3, 0 ,'light blue',1,1
"""
SPARSE = "@relation r\n@attribute a numeric\n@attribute b numeric\n@attribute l {0,1}\n@data\n{1 2.5, 2 1}\n{}\n{0 -1}\n"
LIBSVM = "1,3 1:0.5 4:-2\n # nothing\n 2:1\n3 1:1e2 # a comment\n"
DIGITS = "123456789"
SOLUTION = "".join(DIGITS[i:] + DIGITS[:i] for i in (0, 3, 6, 1, 4, 7, 2, 5, 8))


def written(tmp_path, text, name="file.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---- CoNLL ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
def test_conll(tmp_path, suffix, pack):
    wanted = [[("He", "PRP", "B-NP"), ("ran", "VBD", "B-VP")], [("Home", "NN", "B-NP")]]
    for text in (CONLL, CONLL.rstrip(), "\ufeff" + CONLL.replace("\n", "\r\n").replace(" ", "\t  ")):
        assert read_conll(written(tmp_path, pack(text.encode()), "c.txt" + suffix)) == wanted
    assert read_conll(written(tmp_path, pack(b"\n \n"), "c.txt" + suffix)) == []


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"a b c\n\na b\n", 3, "2 columns, but 3"),
        (b"a b\na \xff\n", 2, "0xff is not UTF-8"),
    ],
)
def test_bad_conll(tmp_path, data, line, message):
    with pytest.raises(ms.ParseError, match=message) as caught:
        read_conll(written(tmp_path, data))
    assert caught.value.line == line


def test_conll_limits(tmp_path, monkeypatch):
    path = written(tmp_path, "a b\n" * 100)
    with pytest.raises(ms.ParseError, match=r"line 4: .*more than 10 entries"):
        conll._read(path, Limits(cells=10))
    with pytest.raises(ms.ParseError, match="more than 20 bytes"):
        conll._read(path, Limits(bytes=20))
    monkeypatch.setattr(source, "_LONGEST_LINE", 1000)
    with pytest.raises(ms.ParseError, match=r"line 2: the line is longer than 1000"):
        read_conll(written(tmp_path, b"a b\n" + b"x" * 3000))
    with pytest.raises(FileNotFoundError):
        read_conll(tmp_path / "absent")
    with pytest.raises(ms.ParseError, match="compressed data"):
        read_conll(written(tmp_path, gzip.compress(CONLL.encode())[:-9], "c.gz"))


def test_lines_longer_than_a_chunk(tmp_path):
    words = ["x" * 700_000, "y" * 800_000, "z"]
    text = "\n".join(f"{word} N" for word in words)
    assert read_conll(written(tmp_path, text)) == [[(word, "N") for word in words]]


def test_conll_2000(data_folder):
    folder = data_folder / "conll2000"
    if not folder.is_dir():
        pytest.skip("no conll2000 in the data folder")
    sentences = read_conll(folder / "test.txt.gz")
    assert len(sentences) == 2012 and sum(map(len, sentences)) == 47377
    assert sentences[0][0] == ("Rockwell", "NNP", "B-NP")


def test_features():
    sentence = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]
    features = conll_features(sentence)
    assert len(features) == 4
    assert features[0] == {
        "bias": 1.0,
        "first": 1.0,
        "w[0]": "a",
        "w[1]": "b",
        "w[2]": "c",
        "w[0]|w[1]": "a|b",
        "p[0]": "A",
        "p[1]": "B",
        "p[2]": "C",
        "p[0]|p[1]": "A|B",
        "p[1]|p[2]": "B|C",
        "p[0]|p[1]|p[2]": "A|B|C",
    }
    assert (
        features[2]["w[-1]|w[0]"] == "b|c" and "w[-2]|w[-1]" not in features[2] and features[2]["p[-2]|p[-1]|p[0]"] == "A|B|C"
    )
    assert "last" in features[3] and "last" not in features[2]
    assert set(conll_features([(*token, "B-X") for token in sentence], window=0)[1]) == {"bias", "w[0]", "p[0]"}
    assert conll_features([]) == []
    with pytest.raises(ms.InvalidSampleError, match="token 1"):
        conll_features([("a", "A"), ("b",)])
    with pytest.raises(ms.InvalidParameterError, match="window is -1"):
        conll_features(sentence, window=-1)


def test_features_can_be_learned_from():
    graph = ms.Graph.chain(2)
    samples = [ms.GraphSample(conll_features([(word, "N"), ("end", "E")]), graph) for word in ("x", "y")]
    net = ms.GraphLabeler(C=10.0).fit(samples, [["a", "b"], ["b", "a"]])
    assert [list(own) for own in net.predict(samples)] == [["a", "b"], ["b", "a"]]


# ---- ARFF -------------------------------------------------------------------------------------------------------------------


def test_arff(tmp_path):
    X, Y, features, labels = read_arff(written(tmp_path, ARFF), 2)
    assert features == ["x1", "x 2", "colour"] and labels == ["l1", "l2"]
    assert (X == [[1.5, -2, 0], [1000, 0, 1]]).all() and (Y == [[0, 1], [1, 1]]).all() and Y.dtype == np.int64
    named = read_arff(written(tmp_path, ARFF), ["l2"])
    assert named.label_names == ["l2"] and (named.X == [[1.5, -2, 0, 0], [1000, 0, 1, 1]]).all()
    first = read_arff(written(tmp_path, SPARSE.replace("a numeric", "a {0,1}").replace("-1", "1")), 1, labels="first")
    assert first.label_names == ["a"] and (first.Y.ravel() == [0, 0, 1]).all()


def test_sparse_arff(tmp_path):
    X, Y, features, labels = read_arff(written(tmp_path, SPARSE), 1)
    assert sparse.issparse(X) and X.format == "csr" and (X.toarray() == [[0, 2.5], [0, 0], [-1, 0]]).all()
    assert (Y.ravel() == [1, 0, 0]).all() and features == ["a", "b"] and labels == ["l"]


def test_arff_without_rows(tmp_path):
    X, Y, *_ = read_arff(written(tmp_path, ARFF.partition("@data")[0] + "@data"), 2)
    assert X.shape == (0, 3) and Y.shape == (0, 2)


def test_yeast(data_folder):
    folder = data_folder / "yeast"
    if not folder.is_dir():
        pytest.skip("no yeast in the data folder")
    X, Y, features, labels = read_arff(folder / "yeast-test.arff.gz", 14)
    with np.load(folder / "yeast.npz") as stored:
        assert (stored["X_test"] == X).all() and (stored["y_test"] == Y).all()
    assert features[0] == "Att1" and labels[-1] == "Class14"


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("REAL", "string", 4, 'attribute "x 2" has the type "string"'),
        ("'x 2' REAL", "'x 2", 4, "is no attribute"),
        ("@data\n", "", 9, "the header has"),
        (ARFF, "% nothing\n", 1, "ends before @data"),
        (ARFF, "", None, "ends before @data"),
        (ARFF, "@data\n1", 1, "no attributes"),
        ("red, 'light blue'", "red, red", 5, "declared twice"),
        ("1.5,-2", "1.5", 10, "the row has 4 values, but there are 5"),
        ("1.5", "1,5", 10, "the row has 6 values"),
        ("1.5", "?", 10, "Fill in missing values"),
        ("1.5", "nan", 10, '"x1" is "nan", wanted a number'),
        ("1.5", "1e999", 10, "wanted a number"),
        ("1.5", "1_5", 10, "wanted a number"),
        ("-2,red", "-2,green", 10, '"colour" is "green", wanted one of "red, light blue"'),
        ("red,0,1", "red,0,2", 10, '"l2" is "2", wanted one of "0, 1"'),
        ("'light blue',1", "'light blue,1", 12, "quote is not closed"),
        ("l2 {0,1}", "l2 {0,2}", 9, '"l2" has the values "0, 2", wanted 0 and 1'),
        ("l2 {0,1}", "l2 {a,b}", 9, '"l2" has values that are not numbers'),
        ("l2 {0,1}\n\n@data\n1.5,-2,red,0,1", "l2 numeric\n\n@data\n1.5,-2,red,0,3", 10, '"l2" is 3, wanted 0 or 1'),
        ("1e3", "{0 1}\n1e3", 12, "mixed"),
    ],
)
def test_bad_arff(tmp_path, old, new, line, message):
    assert old in ARFF
    with pytest.raises(ms.ParseError, match=message) as caught:
        read_arff(written(tmp_path, ARFF.replace(old, new, 1)), 2)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("{0 -1}", "{0 -1", 8, "does not end with }"),
        ("{0 -1}", "{3 1}", 8, "index 3, but there are 3 attributes"),
        ("{0 -1}", "{-1 1}", 8, "wanted `index value`"),
        ("{0 -1}", "{99999999999999999999 1}", 8, "wanted `index value`"),
        ("{0 -1}", "{0}", 8, "wanted `index value`"),
        ("{0 -1}", "{0 1, 0 2}", 8, "index 0 twice"),
        ("b numeric", "b {1,2.5}", 7, '"b" is left out and has its first value 1'),
    ],
)
def test_bad_sparse_arff(tmp_path, old, new, line, message):
    with pytest.raises(ms.ParseError, match=message) as caught:
        read_arff(written(tmp_path, SPARSE.replace(old, new, 1)), 1)
    assert caught.value.line == line


def test_arff_limits(tmp_path, monkeypatch):
    header = "@relation r\n" + "".join(f"@attribute l{i} {{0,1}}\n" for i in range(100)) + "@data\n"
    path = written(tmp_path, header + "{}\n" * 1000)
    with pytest.raises(ms.ParseError, match=r"line 20\d: the data have more than 10000 entries"):
        multilabel._Arff(path, Limits(cells=10_000)).read(100, "last")
    monkeypatch.setattr(multilabel, "_MOST_NAMES", 50)
    with pytest.raises(ms.ParseError, match="more than 50 attributes"):
        read_arff(path, 100)


@pytest.mark.parametrize("n_labels", [0, 6, -1])
def test_n_labels_must_fit(tmp_path, n_labels):
    with pytest.raises(ms.ParseError, match="has 5 attributes"):
        read_arff(written(tmp_path, ARFF), n_labels)


def test_bad_arguments_of_arff(tmp_path):
    path = written(tmp_path, ARFF)
    for wrong in ("l1", 2.0, None, True, [3]):
        with pytest.raises(ms.InvalidParameterError, match="n_labels"):
            read_arff(path, wrong)
    with pytest.raises(ms.InvalidParameterError, match="'middle'"):
        read_arff(path, 2, labels="middle")
    with pytest.raises(ms.ParseError, match='no attribute "l9"'):
        read_arff(path, ["l9"])


# ---- LIBSVM -----------------------------------------------------------------------------------------------------------------


def test_libsvm(tmp_path):
    X, Y, features, labels = read_libsvm(written(tmp_path, LIBSVM))
    assert (X.toarray() == [[0.5, 0, 0, -2], [0, 1, 0, 0], [100, 0, 0, 0]]).all() and X.format == "csr"
    assert labels == ["1", "3"] and features == [] and (Y == [[1, 1], [0, 0], [0, 1]]).all()


def test_libsvm_as_scikit_learn(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(40):
        labels = ",".join(map(str, np.flatnonzero(rng.random(5) < 0.4)))
        rows.append(f"{labels} " + " ".join(f"{j + 1}:{rng.normal():.3f}" for j in np.flatnonzero(rng.random(12) < 0.3)))
    path = written(tmp_path, "\n".join(row if row.strip() else "0 1:1" for row in rows))
    X, wanted = load_svmlight_file(str(path), multilabel=True)
    ours = read_libsvm(path, labels=range(5), n_features=X.shape[1])
    assert (ours.X != X).nnz == 0
    assert [tuple(np.flatnonzero(row)) for row in ours.Y] == [tuple(sorted(map(int, own))) for own in wanted]


def test_libsvm_declared(tmp_path):
    path = written(tmp_path, LIBSVM)
    data = read_libsvm(path, labels=[3, 2, 1], n_features=10)
    assert data.X.shape == (3, 10) and (data.Y == [[1, 0, 1], [0, 0, 0], [1, 0, 0]]).all()
    shifted = read_libsvm(path, zero_based=True)
    assert shifted.X.shape == (3, 5) and shifted.X[0, 1] == 0.5
    with pytest.raises(ms.ParseError, match="line 1: the label 3 is not among"):
        read_libsvm(path, labels=[1])
    with pytest.raises(ms.ParseError, match=r"line 1: the index is 4, wanted 1\.\.3"):
        read_libsvm(path, n_features=3)
    with pytest.raises(ms.InvalidParameterError, match="twice"):
        read_libsvm(path, labels=[1, 1])
    with pytest.raises(ms.InvalidParameterError, match="n_features is -1"):
        read_libsvm(path, n_features=-1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x 1:1", 'a label is "x"'),
        ("1, 1:1", 'a label is ""'),
        ("1,1 1:1", "a label stands twice"),
        ("1.5 1:1", 'a label is "1.5"'),
        ("1 0:1", "zero_based=True"),
        ("1 -1:1", 'an index is "-1"'),
        ("1 1:1 1:2", "the index 1 stands twice"),
        ("1 1:nan", "wanted `index:value`"),
        ("1 1:", "wanted `index:value`"),
        ("1 2", "wanted `index:value`"),
        ("1 qid:3 1:1", 'an index is "qid"'),
        ("1 9999999999:1", r"wanted 1\.\.2147483647"),
        ("1 99999999999999999999:1", "wanted a whole number"),
    ],
)
def test_bad_libsvm(tmp_path, row, message):
    with pytest.raises(ms.ParseError, match=message) as caught:
        read_libsvm(written(tmp_path, f"1 1:1\n{row}\n"))
    assert caught.value.line == 2


def test_libsvm_allocates_for_what_is_there(tmp_path):
    data = read_libsvm(written(tmp_path, "4000000000 2147483647:1\n"))
    assert data.X.shape == (1, 2147483647) and data.X.nnz == 1 and data.Y.shape == (1, 1)
    many = "".join(f"{i} 1:1\n" for i in range(200))
    with pytest.raises(ms.ParseError, match="200 samples with 200 labels need more than 1000"):
        multilabel._libsvm(written(tmp_path, many), Limits(cells=1000), None, None, False)
    with pytest.raises(ms.ParseError, match="line 34: the file has more than 100 entries"):
        multilabel._libsvm(written(tmp_path, many), Limits(cells=100), None, None, False)


# ---- Sudoku -----------------------------------------------------------------------------------------------------------------


def test_sudoku(tmp_path):
    puzzle = "." * 40 + "0" + SOLUTION[41:]
    X, y = read_sudoku(written(tmp_path, f"{puzzle},{SOLUTION}\n\n{SOLUTION},{SOLUTION}\r\n"))
    assert len(X) == len(y) == 2 and X[0].shape == y[0].shape == (81,)
    assert "".join(map(str, y[0])) == SOLUTION and not X[0][:41].any() and (X[0][41:] == y[0][41:]).all()
    path = written(tmp_path, f"a,{puzzle},{SOLUTION},1\nb,{SOLUTION},{SOLUTION},1\n")
    assert len(read_sudoku(path)[0]) == 2 and len(read_sudoku(path, "b")[0]) == 1
    with pytest.raises(ms.InvalidParameterError, match="no puzzles of the set 'c'"):
        read_sudoku(path, "c")


def test_absent_sudoku(tmp_path):
    with pytest.raises(MissingDataError, match=r"there is no file .*pytudes"):
        read_sudoku(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (SOLUTION, "wanted `puzzle,solution`"),
        (f"{SOLUTION[:-1]},{SOLUTION}", "81 characters"),
        (f"{SOLUTION},{SOLUTION[:-1]}0", "cell 80 of the solution is '0'"),
        (f"2{SOLUTION[1:]},{SOLUTION}", "cell 0 of the puzzle is '2', wanted 1 as in the solution"),
        (f"x{SOLUTION[1:]},{SOLUTION}", r"cell 0 of the puzzle is 'x', wanted a digit, or 0 or \."),
        (f"²{SOLUTION[1:]},{SOLUTION}", "cell 0 of the puzzle"),
    ],
)
def test_bad_sudoku(tmp_path, row, message):
    with pytest.raises(ms.ParseError, match=message) as caught:
        read_sudoku(written(tmp_path, f"{SOLUTION},{SOLUTION}\n{row}\n"))
    assert caught.value.line == 2
