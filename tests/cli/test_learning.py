"""fit, predict, evaluate, info, verify and report on every form of data."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image

import maxsum as ms
from cli.data import PALETTE, draw, rows_of_labels
from maxsum.datasets import read_arff, read_conll, read_graph_tables, read_graphml, read_libsvm_multilabel, read_table
from maxsum.datasets.graph_tables import write_graphml
from maxsum.datasets.multilabel import MultiLabelData
from maxsum.datasets.multilabel_write import write_arff, write_libsvm_multilabel
from maxsum.datasets.tables import write_table


def facts(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# ---- files of columns ------------------------------------------------------------------------------------------


def test_columns(sentences, maxsum):
    model = sentences / "tag.model"
    learned = maxsum("fit", sentences / "train.conll", "--out", model, json_=True)
    assert learned["task"] == "sequence" and learned["finished"] and learned["C"] == 1
    assert learned["verified"]["lower_bound"] <= learned["verified"]["objective"]
    assert learned["relative_gap"] <= 1e-3
    scores = maxsum("evaluate", model, sentences / "test.conll", json_=True)
    truth = read_conll(sentences / "test.conll")
    out = sentences / "out.conll"
    maxsum("predict", model, sentences / "test.conll", "--out", out, "--certificate")
    found = read_conll(out)
    assert [[token[:3] for token in own] for own in found] == truth
    right = [token[2] == token[3] for own in found for token in own]
    assert scores["accuracy"] == pytest.approx(np.mean(right)) and scores["accuracy"] > 0.9
    chunks = ms.metrics.chunk_f1([[t[2] for t in own] for own in found], [[t[3] for t in own] for own in found])
    assert scores["chunks"]["f1"] == pytest.approx(chunks.f1 / 100)
    proven = facts(sentences / "out.conll.certificates.jsonl")
    assert len(proven) == len(truth) and all(own["guarantee"] == "optimal" for own in proven)
    assert all(own["score"] <= own["bound"] + 1e-9 for own in proven)


def test_columns_without_labels_keep_their_tabs(sentences, maxsum):
    model = sentences / "tag.model"
    maxsum("fit", sentences / "train.conll", "--out", model, "--tol", "0.1")
    maxsum("predict", model, sentences / "new.conll", "--out", sentences / "out.txt")
    lines = (sentences / "out.txt").read_text().splitlines()
    assert all(line.count("\t") == 2 for line in lines if line) and "" in lines
    refused = maxsum("evaluate", model, sentences / "new.conll", code=2)
    assert "no labels to compare with" in refused.stderr


def test_templates_decide_the_features(sentences, maxsum):
    config = sentences / "config.toml"
    config.write_text('data = "train.conll"\nout = "m"\ntemplates = ["1[0]"]\naffixes = 0\ntol = 0.01\n')
    learned = maxsum("fit", config, json_=True)
    net = ms.load_model(sentences / "m")
    assert learned["n_weights"] == len(net.weights_)
    names = {name.split("(")[1].split(",")[0] for name in net.weight_names_ if name.startswith("q")}
    assert names == {"bias", "first", "last", "1[0]=D", "1[0]=N", "1[0]=V", "1[0]=A"}


# ---- images ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["palette", "grey", "colour"])
def test_images(tmp_path, maxsum, kind):
    draw(tmp_path / "train", 4, 0, kind)
    draw(tmp_path / "test", 2, 1, kind)
    draw(tmp_path / "new", 2, 1, masks=False)
    model = tmp_path / "m"
    maxsum("fit", tmp_path / "train", "--out", model, "--set", "pixels=colour")
    scores = maxsum("evaluate", model, tmp_path / "test", json_=True)
    maxsum("predict", model, tmp_path / "new", "--out", tmp_path / "out")
    wrong, ious = [], []
    pairs = [[Image.open(tmp_path / folder / f"i{i}.png") for folder in ("test/masks", "out")] for i in range(2)]
    for true, found in pairs:
        assert found.mode == true.mode and found.size == true.size
        if kind == "palette":
            assert found.getpalette()[:9] == PALETTE[:9]
        a, b = (np.asarray(own.convert("RGB") if kind == "colour" else own).reshape(81, -1) for own in (true, found))
        wrong.append((a != b).any(axis=1))
    assert scores["accuracy"] == pytest.approx(1 - np.mean(wrong)) and scores["accuracy"] > 0.9
    labels = [[np.asarray(own.convert("RGB"), dtype=int) @ [65536, 256, 1] for own in pair] for pair in pairs]
    for value in {int(v) for pair in labels for own in pair for v in np.unique(own)}:
        both = sum(((a == value) & (b == value)).sum() for a, b in labels)
        ious.append(both / sum(((a == value) | (b == value)).sum() for a, b in labels))
    assert scores["mean_iou"] == pytest.approx(np.mean(ious))


def test_pixels_of_unknown_label_are_left_out(tmp_path, maxsum):
    draw(tmp_path / "train", 3, 0, "grey")
    maxsum("fit", tmp_path / "train", "--out", tmp_path / "m", "--set", "unknown=2", "--set", "pixels=colour", json_=True)
    assert ms.load_model(tmp_path / "m").classes_.tolist() == [1]


def test_images_and_masks_in_one_folder(tmp_path, maxsum):
    draw(tmp_path / "train", 3, 0)
    for path in (tmp_path / "train" / "masks").iterdir():
        path.rename(tmp_path / "train" / "images" / f"{path.stem}_GT.png")
    (tmp_path / "train" / "masks").rmdir()
    learned = maxsum("fit", tmp_path / "train", "--out", tmp_path / "m", json_=True)
    assert learned["n_samples"] == 3
    maxsum("predict", tmp_path / "m", tmp_path / "train", "--out", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["i0_GT.png", "i1_GT.png", "i2_GT.png"]
    refused = maxsum("predict", tmp_path / "m", tmp_path / "train", "--out", tmp_path / "train" / "images", code=2)
    assert "would replace" in refused.stderr


# ---- tables ----------------------------------------------------------------------------------------------------

LABELS = ["beach", "sunset", "field"]


def test_csv(table, maxsum):
    model = table / "m"
    maxsum("fit", table / "train.csv", "--labels", 3, "--out", model, "--set", "id=name")
    scores = maxsum("evaluate", model, table / "test.csv", json_=True)
    out = table / "out.csv"
    maxsum("predict", model, table / "test.csv", "--out", out, "--certificate")
    true, found = read_table(table / "test.csv"), read_table(out)
    guessed = [f"predicted_{name}" for name in LABELS]
    assert found.names == [*true.names, *guessed] and all(found.columns[name] == true.columns[name] for name in true.names)
    a, b = (np.stack([found.numbers(name) for name in names], axis=1) for names in (LABELS, guessed))
    assert scores["hamming_loss"] == pytest.approx((a != b).mean()) and scores["hamming_loss"] < 0.15
    assert scores["subset_accuracy"] == pytest.approx((a == b).all(axis=1).mean())
    assert [own["sample"] for own in facts(table / "out.csv.certificates.jsonl")] == [f"r{i}" for i in range(20)]
    head, *rows = list(csv.reader((table / "test.csv").open()))
    with (table / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*row[1:4]] for row in [head, *rows]])
    maxsum("predict", model, table / "new.csv", "--out", table / "new_out.csv")
    new = read_table(table / "new_out.csv")
    assert new.names == ["x1", "x2", "x3", *LABELS]
    np.testing.assert_array_equal(np.stack([new.numbers(name) for name in LABELS], axis=1), b)


def test_parquet_gives_what_csv_gives(table, maxsum):
    pytest.importorskip("pyarrow")
    for name in ("train", "test"):
        own = read_table(table / f"{name}.csv")
        numbers = {key: own.numbers(key).tolist() for key in own.names[1:4]} | {
            key: own.numbers(key).astype(int).tolist() for key in LABELS
        }
        write_table(table / f"{name}.parquet", ms.datasets.tables.Table("", {"name": own.columns["name"], **numbers}))
    for kind in ("csv", "parquet"):
        maxsum(
            "fit",
            table / f"train.{kind}",
            "--labels",
            "beach,sunset,field",
            "--out",
            table / f"{kind}.model",
            "--set",
            "ignore=name",
        )
        maxsum("predict", table / f"{kind}.model", table / f"test.{kind}", "--out", table / f"out.{kind}")
    first, second = read_table(table / "out.csv"), read_table(table / "out.parquet")
    for name in LABELS:
        np.testing.assert_array_equal(first.numbers(name), second.numbers(name))
    assert str(second.source.schema.field("beach").type) == "int64"


def test_one_column_of_classes(table, maxsum):
    own = read_table(table / "train.csv")
    kinds = ["far" if float(x) > 0 else "near" for x in own.columns["x1"]]
    write_table(table / "one.csv", own.replaced({"place": kinds}))
    maxsum("fit", table / "one.csv", "--labels", "place", "--out", table / "m", "--set", "ignore=name,beach,sunset,field")
    scores = maxsum("evaluate", table / "m", table / "one.csv", json_=True)
    assert scores["accuracy"] > 0.95 and [row["class"] for row in scores["classes"]] == ["far", "near"]


@pytest.mark.parametrize("kind", ["arff", "libsvm"])
def test_arff_and_libsvm(tmp_path, maxsum, kind):
    from scipy import sparse

    for name, seed in (("train", 0), ("test", 1)):
        X, Y = rows_of_labels(50, seed)
        if kind == "arff":
            write_arff(tmp_path / f"{name}.arff", MultiLabelData(X, Y, ["a", "b c", "d"], ["one", "two's", "three"]))
        else:
            write_libsvm_multilabel(tmp_path / f"{name}.libsvm", MultiLabelData(sparse.csr_matrix(X), Y, [], ["1", "4", "7"]))
    own = ["--labels", "3"] if kind == "arff" else []
    maxsum("fit", tmp_path / f"train.{kind}", *own, "--out", tmp_path / "m")
    scores = maxsum("evaluate", tmp_path / "m", tmp_path / f"test.{kind}", json_=True)
    maxsum("predict", tmp_path / "m", tmp_path / f"test.{kind}", "--out", tmp_path / f"out.{kind}")
    if kind == "arff":
        true, found = (read_arff(tmp_path / f"{name}.arff", 3) for name in ("test", "out"))
        np.testing.assert_array_equal(true.X, found.X)
    else:
        true, found = (read_libsvm_multilabel(tmp_path / f"{name}.libsvm", labels=[1, 4, 7]) for name in ("test", "out"))
        assert (true.X != found.X).nnz == 0
    assert scores["hamming_loss"] == pytest.approx((true.Y != found.Y).mean()) and scores["hamming_loss"] < 0.15


# ---- graphs ----------------------------------------------------------------------------------------------------


def test_graphs(graph, maxsum):
    model = graph / "m"
    learned = maxsum("fit", graph / "train", "--out", model, json_=True)
    assert learned["task"] == "graph"
    scores = maxsum("evaluate", model, graph / "test", json_=True)
    maxsum("predict", model, graph / "test", "--out", graph / "out.csv")
    true, found = read_table(graph / "test" / "nodes.csv"), read_table(graph / "out.csv")
    right = np.mean([a == b for a, b in zip(true.columns["label"], found.columns["predicted_label"], strict=True)])
    assert scores["accuracy"] == pytest.approx(right) and right > 0.75
    assert found.columns["label"] == true.columns["label"]
    nodes, edges = graph / "test" / "nodes.csv", graph / "test" / "edges.csv"
    maxsum("predict", model, nodes, "--edges", edges, "--out", graph / "other.csv")
    assert (graph / "other.csv").read_text() == (graph / "out.csv").read_text()
    own = graph / "train"
    maxsum("fit", own / "nodes.csv", "--edges", own / "edges.csv", "--out", graph / "same")
    np.testing.assert_array_equal(ms.load_model(graph / "same").weights_, ms.load_model(model).weights_)
    assert str(graph) not in json.dumps(maxsum("info", graph / "same", json_=True)["notes"])
    assert "say where its edges are" in maxsum("predict", model, nodes, "--out", graph / "x.csv", code=2).stderr


def test_known_labels_are_kept(graph, maxsum):
    model = graph / "m"
    maxsum("fit", graph / "train", "--out", model)
    table = read_table(graph / "train" / "nodes.csv")
    flipped = ["blue" if i == 3 else label for i, label in enumerate(table.columns["label"])]
    write_table(graph / "train" / "nodes.csv", table.replaced({"label": flipped}))
    maxsum("predict", model, graph / "train", "--out", graph / "out.csv", "--keep-known", "--certificate")
    found = read_table(graph / "out.csv").columns["label"]
    assert all(a == b for a, b in zip(flipped, found, strict=True) if a) and all(found)
    assert facts(graph / "out.csv.certificates.jsonl")[0]["guarantee"] == "optimal"


def test_graphml_gives_what_tables_give(graph, maxsum):
    for name in ("train", "test"):
        own = read_graph_tables(graph / name / "nodes.csv", graph / name / "edges.csv")
        write_graphml(graph / f"{name}.graphml", own)
    settings = ["--set", "edge_columns=weight", "--set", "ignore=node", "--set", "label=label"]
    maxsum("fit", graph / "train.graphml", "--out", graph / "a", *settings)
    maxsum("predict", graph / "a", graph / "test.graphml", "--out", graph / "out.graphml")
    maxsum("fit", graph / "train", "--out", graph / "b", *settings[:2])
    maxsum("predict", graph / "b", graph / "test", "--out", graph / "out.csv")
    found = read_graphml(graph / "out.graphml")
    assert found.nodes.columns["label"] == read_table(graph / "out.csv").columns["label"]
    assert found.edge_table.numbers("weight").tolist() == read_table(graph / "test" / "edges.csv").numbers("weight").tolist()
    first, second = ms.load_model(graph / "a"), ms.load_model(graph / "b")
    np.testing.assert_array_equal(first.weights_, second.weights_)
    assert len(first.weights_) == 2 * (1 + 2) + 2 * 4


# ---- what is said ----------------------------------------------------------------------------------------------


def test_people_read_it(sentences, maxsum):
    model = sentences / "m"
    told = maxsum("fit", sentences / "train.conll", "--out", model, "--proof")
    for word in ("20 sentences", "SequenceLabeler with", "C = 1", "checked: no weights have an objective below", "saved as"):
        assert word in " ".join(told.stdout.split()), told.stdout
    assert told.stderr == ""
    shown = " ".join(maxsum("info", model).stdout.split())
    assert "SequenceLabeler" in shown and "train.conll" in shown and "maxsum verify MODEL DATA" in shown
    assert maxsum("info", model, json_=True)["notes"]["task"] == "sequence"
    scored = " ".join(maxsum("evaluate", model, sentences / "test.conll").stdout.split())
    assert "labels right" in scored and "8 optimal, of 8 samples" in scored and "B-NP" not in scored and "NP" in scored


def test_a_proof_is_checked_on_the_training_data_alone(sentences, maxsum):
    model = sentences / "m"
    maxsum("fit", sentences / "train.conll", "--out", model, "--proof")
    checked = maxsum("verify", model, sentences / "train.conll", json_=True)
    assert checked["holds"] and checked["proven"]["lower_bound"] == pytest.approx(checked["claimed"]["lower_bound"])
    other = maxsum("verify", model, sentences / "test.conll", code=2)
    assert "trained on others" in other.stderr


def test_a_model_that_lies_is_refuted(sentences, maxsum):
    """Objective and bound of 1e-6 with weights of 0: the words say what is false, and the exit code is 1."""
    from maxsum.storage.format import FILE

    model = sentences / "m"
    maxsum("fit", sentences / "train.conll", "--out", model, "--proof")
    header, arrays = FILE.load(model)
    del header["arrays"]
    header["result"].update(objective=1e-6, lower_bound=1e-6, gap=0.0, relative_gap=0.0, guarantee="optimal")
    FILE.save(model, header, {**arrays, "weights": 0 * arrays["weights"]})
    told = " ".join(maxsum("verify", model, sentences / "train.conll", code=1).stdout.split())
    assert "A claim does not hold" in told and "the claimed objective is 1e-06" in told
    found = maxsum("verify", model, sentences / "train.conll", code=1, json_=True)
    assert not found["holds"] and "claimed objective" in found["fault"]


def test_cross_validation_chooses_C(sentences, maxsum):
    told = maxsum("fit", sentences / "train.conll", "--cv", "--Cs", "1e-6,10", "--out", sentences / "m", "--tol", "0.01")
    assert "by cross-validation of 2 values" in " ".join(told.stdout.split())
    assert ms.load_model(sentences / "m").C_ == 10


def test_cross_validation_on_one_graph_holds_out_nodes(graph, maxsum):
    own = ["fit", graph / "train", "--out", graph / "m", "--set", "cv=3", "--Cs", "0.01,1"]
    told = " ".join(maxsum(*own, "--set", "scoring=macro_f1").stdout.split())
    net = ms.load_model(graph / "m")
    assert net.scores_.shape == (2, 3) and f"macro_f1 {net.cv_results_['mean_test_score'].max():.4g} in held-out folds" in told
    assert "folds='nodes' holds out known nodes" in maxsum(*own, "--set", "folds=samples", code=2).stderr


def test_reports(sentences, maxsum):
    pytest.importorskip("matplotlib")
    model, log = sentences / "m", sentences / "run.jsonl"
    maxsum("fit", sentences / "train.conll", "--out", model, "--log", log)
    for arguments, words, missing in (
        ((model,), ("Convergence", "Needs samples with labels"), "Predictions"),
        ((model, sentences / "test.conll"), ("Convergence", "Predictions", "Confusion"), "Needs samples with labels"),
        ((log,), ("The last pass", "Convergence", "nothing is recomputed"), "What is proven"),
    ):
        maxsum("report", *arguments, "--out", sentences / "page.html")
        page = (sentences / "page.html").read_text()
        assert all(word in page for word in words) and missing not in page
    passes = log.read_text().splitlines()
    assert len(passes) == 1 + ms.load_model(model).result_.n_iter
    refused = maxsum("report", sentences / "train.conll", "--out", sentences / "x.html", code=2)
    assert "neither a model nor" in refused.stderr
    assert "is no model" in maxsum("report", log, sentences / "test.conll", code=2).stderr


def test_bench(maxsum, tmp_path, monkeypatch):
    from maxsum.cli import benchmark

    monkeypatch.setattr(benchmark, "repository", lambda: None)
    rows = maxsum("bench", json_=True)["benchmarks"]
    assert len(rows) == 3 and all(row["seconds"] > 0 for row in rows) and rows[0]["ratio"] > 0
    assert "same score as numpy" in rows[0]["proven"] and "checked" in rows[1]["proven"]
    assert "part of the repository" in maxsum("bench", "chains", code=2).stderr
    assert "built-in" in maxsum("bench", "--list").stdout


def test_bench_of_the_repository(maxsum):
    assert {"chains", "trws"} <= set(maxsum("bench", "--list", json_=True)["benchmarks"])


# ---- bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "potentails=potts"], "did you mean 'potentials'?"),
        (["--set", "c=3"], "did you mean 'C'?"),
        (["--set", "window"], "wanted name=value"),
        (["--set", "window=wide"], "wanted a whole number"),
        (["--set", "connectivity=8"], "is a setting for image data"),
        (["--potentials", "best"], "potentials"),
        (["--task", "speech"], "wanted one of sequence, image"),
        (["--C", "3", "--cv"], "leave one of them out"),
        (["--Cs", "1,2", "--C", "3"], "leave one of them out"),
        (["--set", "folds=nodes"], "without cv"),
        (["--C", "-1"], "C is -1"),
        (["--set", 'templates=["0[x]"]'], "wanted column[offset]"),
        (["--set", 'templates=["7[0]"]'], "columns 0 to 1"),
        (["--out", "missing/m"], "make it first"),
        (["--set", "label_graph=tree"], "is a setting for multilabel data"),
    ],
)
def test_wrong_settings(sentences, maxsum, options, words, monkeypatch):
    monkeypatch.chdir(sentences)
    refused = maxsum("fit", "train.conll", "--out", "m", *options, code=2)
    assert words in refused.stderr and len(refused.stderr.splitlines()) == 1
    assert not (sentences / "m").exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("c.toml", "tol = ", "not TOML"),
        ("c.json", "[1]", "wanted settings with names"),
        ("c.toml", "potential = 'potts'", "c.toml: there is no setting 'potential'; did you mean 'potentials'?"),
        ("c.toml", "tol = 'small'", "wanted a number"),
    ],
)
def test_wrong_config(sentences, maxsum, name, text, words):
    (sentences / name).write_text(text)
    refused = maxsum("fit", sentences / name, sentences / "train.conll", "--out", sentences / "m", code=2)
    assert words in refused.stderr


def test_wrong_data(sentences, table, maxsum):
    model = sentences / "m"
    assert "no such file" in maxsum("fit", sentences / "x.conll", "--out", model, code=2).stderr
    assert "which columns" in maxsum("fit", table / "train.csv", "--out", model, code=2).stderr
    assert (
        "would replace the data" in maxsum("fit", sentences / "train.conll", "--out", sentences / "train.conll", code=2).stderr
    )
    assert "line 3: there are 2 columns, but 3" in _with(sentences, maxsum, "a b c\na b c\na b\n")
    assert "wanted at least two" in _with(sentences, maxsum, "a\nb\n")
    maxsum("fit", sentences / "train.conll", "--out", model, "--tol", "0.1")
    wide = sentences / "wide.conll"
    wide.write_text("a b c d\n")
    assert "wanted 2 or 3" in maxsum("predict", model, wide, "--out", sentences / "o", code=2).stderr
    assert "would replace" in maxsum("predict", model, wide, "--out", wide, code=2).stderr
    assert "no model" in maxsum("predict", wide, wide, "--out", sentences / "o", code=2).stderr.replace(
        "not a model", "no model"
    )
    plain = sentences / "plain.model"
    ms.save_model(ms.load_model(model), plain)
    assert "was not written by `maxsum fit`" in maxsum("predict", plain, wide, "--out", sentences / "o", code=2).stderr


def _with(folder, maxsum, text):
    (folder / "bad.conll").write_text(text)
    return maxsum("fit", folder / "bad.conll", "--out", folder / "bad.model", code=2).stderr


def test_csv_faults_have_lines(table, maxsum):
    text = (table / "train.csv").read_text().splitlines()
    for line, new, words in (
        (4, "r2,x,1,1,0,0,0", 'column "x1" holds "x"'),
        (4, "r2,1,1,1,0,0,2", "label 'field' is 2"),
        (4, "r2,1,1,1,0,0", "there are 6 cells, but 7 columns"),
    ):
        (table / "bad.csv").write_text("\n".join([*text[: line - 1], new, *text[line:]]))
        maxsum("fit", table / "train.csv", "--labels", 3, "--out", table / "m", "--set", "ignore=name", "--tol", "0.1")
        refused = maxsum("evaluate", table / "m", table / "bad.csv", code=2)
        assert words in refused.stderr and "line 4" in refused.stderr
