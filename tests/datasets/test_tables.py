"""Tables, graphs in files, masks and features: what is read, what is refused, and that what was written is read back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from maxsum import InvalidParameterError, InvalidSampleError, ParseError
from maxsum.datasets import (
    conll_features,
    pixel_features,
    read_arff,
    read_graph_tables,
    read_graphml,
    read_libsvm_multilabel,
    read_table,
)
from maxsum.datasets.columns import ColumnCoder
from maxsum.datasets.graph_tables import write_graphml
from maxsum.datasets.masks import MaskCode
from maxsum.datasets.multilabel import MultiLabelData
from maxsum.datasets.multilabel_write import write_arff, write_libsvm_multilabel
from maxsum.datasets.tables import Table, write_table
from maxsum.datasets.templates import column_features, default_templates

CELLS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), max_size=8)


@given(
    st.lists(CELLS.filter(bool), min_size=2, max_size=4, unique=True).flatmap(
        lambda names: st.lists(st.lists(CELLS, min_size=len(names), max_size=len(names)), max_size=5).map(
            lambda rows: (names, rows)
        )
    )
)
@settings(max_examples=100, deadline=None)
def test_tables_come_back(tmp_path_factory, content):
    names, rows = content
    rows = [row for row in rows if any(row)]
    path = tmp_path_factory.mktemp("t") / "t.csv"
    names = [name.removeprefix("\ufeff") or "x" for name in names]
    if len(set(names)) < len(names) or any(name != name.strip() for name in names):
        return
    write_table(path, Table("", {name: [row[i] for row in rows] for i, name in enumerate(names)}))
    found = read_table(path)
    assert found.names == names and [list(row) for row in zip(*found.columns.values(), strict=True)] == rows


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n3\n", "line 3: there are 1 cells, but 2 columns"),
        ("a,a\n1,2\n", "line 1: two columns are named"),
        ("a,\n1,2\n", "line 1: column 2 has no name"),
        ('a,b\n1,"2\n3,4\n', "a quote that is not closed"),
        ("a,b\n1,\xff\n", "line 2: byte 0xff is not UTF-8"),
    ],
)
def test_broken_tables(tmp_path, text, words):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ParseError, match=words) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_lines_of_rows_count_quoted_and_empty_lines(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text('a\tb\n"one\ntwo"\t1\n\nx\ty\n')
    table = read_table(path)
    assert table.columns["a"] == ["one\ntwo", "x"]
    with pytest.raises(ParseError, match=r"line 5: column .b. holds .y., wanted a finite number"):
        table.numbers("b")


def test_not_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(ParseError, match="not a Parquet file"):
        read_table(tmp_path / "t.parquet")


def test_columns_are_coded_as_in_training():
    train = Table("a.csv", {"x": ["1", "3"], "c": ["red", "blue"]})
    coder = ColumnCoder.learn(train, ["x", "c"])
    np.testing.assert_allclose(coder.matrix(train), [[-1, 0, 1], [1, 1, 0]])
    assert coder.names == ["x", "c=blue", "c=red"]
    np.testing.assert_allclose(coder.matrix(Table("b.csv", {"c": ["green"], "x": ["2"]})), [[0, 0, 0]])
    with pytest.raises(InvalidSampleError, match=r"b\.csv has no column 'c'"):
        coder.matrix(Table("b.csv", {"x": ["2"]}))
    with pytest.raises(ParseError, match="too many for indicators"):
        ColumnCoder.learn(Table("a.csv", {"n": [f"n{i}" for i in range(30)]}), ["n"])


# ---- graphs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ("n,x\na,1\na,2\n", "s,t\n", 'line 3: the node "a" stands twice'),
        ("n,x\na,1\n,2\n", "s,t\n", "line 3: the node has no name"),
        ("n,x\na,1\nb,2\n", "s,t\na,b\na,c\n", 'line 3: the edge names the node "c"'),
        ("n,x\na,1\nb,2\n", "s,t\na,a\n", 'line 2: the edge joins "a" to itself'),
        ("n,x\na,1\n", "s\na\n", "wanted two with the ends"),
    ],
)
def test_broken_graph_tables(tmp_path, nodes, edges, words):
    (tmp_path / "n.csv").write_text(nodes)
    (tmp_path / "e.csv").write_text(edges)
    with pytest.raises(ParseError, match=words):
        read_graph_tables(tmp_path / "n.csv", tmp_path / "e.csv")


def test_pairs_are_one_edge_and_loops_can_be_dropped(tmp_path):
    (tmp_path / "n.csv").write_text("n,x\na,1\nb,2\nc,3\n")
    (tmp_path / "e.csv").write_text("s,t,w\nb,a,1\na,b,2\nc,c,3\nb,c,4\n")
    found = read_graph_tables(tmp_path / "n.csv", tmp_path / "e.csv", self_loops="drop")
    assert found.edges.tolist() == [[1, 0], [1, 2]] and found.edge_table.columns["w"] == ["1", "4"]


def test_graphml_of_networkx(tmp_path):
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_node("a", label="x & y", value=1.5)
    graph.add_node("b", value=2.0)
    graph.add_edge("a", "b", weight=0.25)
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    found = read_graphml(tmp_path / "g.graphml")
    assert found.nodes.columns["label"] == ["x & y", ""] and found.nodes.numbers("value").tolist() == [1.5, 2.0]
    assert found.edge_table.numbers("weight").tolist() == [0.25]
    write_graphml(tmp_path / "h.graphml", found)
    again = networkx.read_graphml(tmp_path / "h.graphml")
    assert dict(again.nodes(data=True)) == {"a": {"label": "x & y", "value": 1.5}, "b": {"value": 2.0}}
    assert list(again.edges(data=True)) == [("a", "b", {"weight": 0.25})]


_HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('<!DOCTYPE g [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><graphml>&c;</graphml>', "document type"),
        ("<html/>", "wanted <graphml>"),
        (_HEAD + "\n<node/></graph></graphml>", "line 2: <node> has no id"),
        (_HEAD + '<node id="a"><data key="k">1</data></node></graph></graphml>', "is not declared"),
        (_HEAD + '<node id="a"><graph/></node></graph></graphml>', "nested graphs"),
        (_HEAD + '<node id="a"/>\n<edge source="a" target="b"/></graph></graphml>', "line 2: the edge names the node"),
        (_HEAD + "<hyperedge/></graph></graphml>", "edges have two ends"),
        (_HEAD + "\n<node id='a'>", "line 2: broken XML"),
        ("", "broken XML"),
    ],
)
def test_hostile_graphml(tmp_path, text, words):
    (tmp_path / "g.graphml").write_text(text)
    with pytest.raises(ParseError, match=words):
        read_graphml(tmp_path / "g.graphml")


@given(st.binary(max_size=60), st.integers(0, 400))
@settings(max_examples=150, deadline=None)
def test_mutated_files_are_read_or_refused(tmp_path_factory, junk, at):
    folder = tmp_path_factory.mktemp("fuzz")
    text = (
        b'<graphml><key id="k" for="node" attr.name="label"/><graph><node id="a"><data key="k">x</data></node><node id="b"/>'
        b'<edge source="a" target="b"/></graph></graphml>'
    )
    for name, raw, read in (("g.graphml", text, read_graphml), ("t.csv", b"a,b\n1,2\n3,4\n" * 3, read_table)):
        (folder / name).write_bytes(raw[: at % len(raw)] + junk + raw[at % len(raw) + len(junk) // 2 :])
        try:
            read(folder / name)
        except ParseError as error:
            assert name in str(error)  # noqa: PT017


# ---- masks, pixels, tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["palette", "grey", "wide", "colour"])
def test_masks_come_back(tmp_path, kind):
    labels = np.random.default_rng(0).integers(0, 3, size=(4, 5))
    if kind == "colour":
        own = Image.fromarray(np.array([[0, 0, 255], [0, 255, 0], [9, 9, 9]], dtype=np.uint8)[labels])
    elif kind == "palette":
        own = Image.frombytes("P", (5, 4), labels.astype(np.uint8).tobytes())
        own.putpalette([1, 2, 3, 4, 5, 6, 7, 8, 9])
    else:
        own = Image.fromarray((labels * (1 if kind == "grey" else 300)).astype(np.uint8 if kind == "grey" else np.uint16))
    own.save(tmp_path / "m.png")
    code = MaskCode.learn([tmp_path / "m.png"])
    found = code.read(tmp_path / "m.png")
    np.testing.assert_array_equal(found, labels * (300 if kind == "wide" else 1))
    code.write(tmp_path / "n.png", found)
    again = Image.open(tmp_path / "n.png")
    np.testing.assert_array_equal(np.asarray(again), np.asarray(own))
    assert again.mode == own.mode and again.getpalette() == own.getpalette()


def test_masks_that_do_not_fit(tmp_path):
    Image.new("RGB", (2, 2), (1, 2, 3)).save(tmp_path / "a.png")
    Image.new("L", (2, 2), 1).save(tmp_path / "b.png")
    Image.new("RGB", (2, 2), (3, 2, 1)).save(tmp_path / "c.png")
    with pytest.raises(InvalidSampleError, match="wanted one kind for all"):
        MaskCode.learn([tmp_path / "a.png", tmp_path / "b.png"])
    code = MaskCode.learn([tmp_path / "a.png"])
    with pytest.raises(ParseError, match="colour #030201, which no mask"):
        code.read(tmp_path / "c.png")
    with pytest.raises(InvalidParameterError, match="wanted a colour as #rrggbb"):
        MaskCode.learn([tmp_path / "a.png"], [255])
    known = MaskCode.learn([tmp_path / "a.png", tmp_path / "c.png"], ["#030201"])
    assert known.colours == ["#010203"] and (known.read(tmp_path / "c.png") == -1).all()


def test_pixel_features_against_loops():
    image = np.random.default_rng(0).random((5, 6, 3))
    found = pixel_features(image, ("mean", "spread", "position"), 3, products=False)
    padded = 2 * np.pad(image, ((1, 1), (1, 1), (0, 0)), mode="edge") - 1
    for i in range(5):
        for j in range(6):
            window = padded[i : i + 3, j : j + 3].reshape(9, 3)
            wanted = [*window.mean(axis=0), *window.std(axis=0), i / 2 - 1, 2 * j / 5 - 1, 1.0]
            np.testing.assert_allclose(found[i, j], wanted, atol=1e-7)
    pairs = pixel_features(image, ("colour",), products=True)
    assert pairs.shape == (5, 6, 3 + 6 + 1)
    np.testing.assert_allclose(pairs[..., 4], pairs[..., 0] * pairs[..., 1])
    for wrong in ({"kinds": ["hue"]}, {"kinds": []}, {"window": 4}):
        with pytest.raises(InvalidParameterError):
            pixel_features(image, **wrong)


def test_default_templates_are_the_usual_features_of_chunking():
    sentence = [("the", "D"), ("old", "A"), ("dog", "N"), ("barks", "V")]
    names = str.maketrans({"w": "0", "p": "1"})
    wanted = [
        {name.translate(names) if "[" in name else name: value for name, value in own.items()}
        for own in conll_features(sentence)
    ]
    assert column_features(sentence, default_templates([0, 1], 2)) == wanted


def test_affixes_and_shapes():
    own = column_features([("Mid-19th",)], ["0[0]"], affixes=2)[0]
    assert own == {"bias": 1.0, "0[0]": "Mid-19th", "lower": "mid-19th", "shape": "Xx-0x", "prefix1": "M", "suffix1": "h",
                   "prefix2": "Mi", "suffix2": "th", "first": 1.0, "last": 1.0}  # fmt: skip


# ---- multi-label -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sparse", [False, True])
def test_multilabel_files_come_back(tmp_path, is_sparse):
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.5)
    X[2], Y = 0, rng.integers(0, 2, size=(6, 3))
    Y[2] = 0
    own = sparse.csr_matrix(X) if is_sparse else X
    write_arff(tmp_path / "a.arff.gz", MultiLabelData(own, Y, ["a", "it's", "c,d", "{e}"], ["l 1", "l%2", "l3"]))
    found = read_arff(tmp_path / "a.arff.gz", ["l 1", "l%2", "l3"])
    np.testing.assert_array_equal(found.X.toarray() if is_sparse else found.X, X)
    np.testing.assert_array_equal(found.Y, Y)
    assert found.feature_names == ["a", "it's", "c,d", "{e}"]
    for zero_based in (False, True):
        write_libsvm_multilabel(tmp_path / "a.svm", MultiLabelData(own, Y, [], ["2", "5", "9"]), zero_based=zero_based)
        back = read_libsvm_multilabel(tmp_path / "a.svm", labels=[2, 5, 9], n_features=4, zero_based=zero_based)
        np.testing.assert_array_equal(back.X.toarray(), X)
        np.testing.assert_array_equal(back.Y, Y)
