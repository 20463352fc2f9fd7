"""The page of a report: its numbers are those of the result, and it is self-contained and well formed."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from plotting.page_checks import parse
from plotting.plot_samples import classifier, segmenter, tagger

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, NotFittedError
from maxsum.metrics import chunk_f1, hamming_loss, iou_scores, mean_iou
from maxsum.report.evidence import _training
from maxsum.report.sample import _word

pytest.importorskip("matplotlib")

CASES = {"sequence": tagger, "grid": segmenter, "table": classifier}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    found = {}
    for name, make in CASES.items():
        estimator, X, y = make()
        path = ms.report.write_report(folder / f"{name}.html", estimator, X, y)
        assert path == folder / f"{name}.html"
        found[name] = (path, path.read_text(encoding="utf-8"), estimator, X, y)
    assert sorted(own.name for own in folder.iterdir()) == sorted(f"{name}.html" for name in CASES)
    return found


@pytest.mark.parametrize("name", list(CASES))
def test_page_is_well_formed_and_self_contained(written, name):
    _, html, _, _, _ = written[name]
    page = parse(html)
    assert "script" not in page.tags and "link" not in page.tags and "iframe" not in page.tags
    for tag, key, value in page.attributes:
        if key in ("src", "href", "srcset"):
            assert value.startswith("data:image/svg+xml;base64,"), (tag, key, value[:60])
            svg = base64.b64decode(value.partition(",")[2]).decode("utf-8")
            assert not re.search(r'href="(?!#|data:image/png)', svg)
    bare = re.sub(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", "", html)
    assert "http://" not in bare and "https://" not in bare and "url(" not in bare
    assert page.tags.count("source") == page.tags.count("img") >= 2
    headings = page.texts("h2")
    own = {"sequence": ["Classes"], "grid": ["Classes"], "table": []}[name]
    worst, last = ["Samples with the most wrong labels"], ["Weights", "Convergence", "How it was made"]
    tables = {"sequence": ["Confusion", "Doubts"], "grid": ["Confusion"], "table": ["Labels"]}[name]
    assert headings == ["What is proven", *own, *worst, *tables, *last]


@pytest.mark.parametrize("name", list(CASES))
def test_numbers_are_those_of_the_result(written, name):
    _, html, estimator, X, y = written[name]
    page = parse(html)
    result = estimator.result_
    values = dict(zip(page.texts("th"), page.texts("td"), strict=False))
    assert f"{result.lower_bound:.10g}" in page.texts("td")
    assert f"{result.objective:.10g}" in {cell.removesuffix(" or less") for cell in page.texts("td")}
    wrong = hamming_loss(y, estimator.predict(X))
    known = sum(np.size(own) for own in y)
    tiles = dict(zip(page.texts("span"), page.texts("b"), strict=False))
    assert tiles[f"right, of {known} known labels"] == f"{100 * (1 - wrong):.2f} %"
    assert any(text.startswith("✓ verified: objective") for text in page.texts("p"))
    assert f"✓ verified: {len(X)} of {len(X)} predictions" in page.texts("p")
    assert ms.__version__ in page.texts("td") and values


def test_confusion_counts_every_node(written):
    _, html, estimator, X, y = written["sequence"]
    found = ms.report.evidence.gather(estimator, X, y, verify=False)
    counts = found.confusion()
    true = [label for line in y for label in line]
    pred = [label for line in estimator.predict(X) for label in line]
    for k, a in enumerate(estimator.classes_):
        for m, b in enumerate(estimator.classes_):
            assert counts[k, m] == sum(t == a and p == b for t, p in zip(true, pred, strict=True))
    assert found.wrong.sum() == counts.sum() - np.trace(counts) > 0
    rows = re.findall(r"<tr><th>([^<]*)</th>(<td[^>]*style.*?)</tr>", html)
    assert [name for name, _ in rows] == [str(name).replace("&", "&amp;") for name in estimator.classes_]
    for k, (_, cells) in enumerate(rows):
        shown = [int(cell or 0) for cell in re.findall(r'style="background[^>]*>(\d*)</td>', cells)]
        assert shown == counts[k].tolist()


def test_worst_samples_come_first(written):
    _, html, estimator, X, y = written["sequence"]
    losses = [sum(a != b for a, b in zip(t, p, strict=True)) for t, p in zip(y, estimator.predict(X), strict=True)]
    shown = [(int(j), int(n)) for j, n in re.findall(r"<h3>Sample (\d+): (\d+) of 5 labels wrong</h3>", html)]
    wanted = sorted(((-n, j) for j, n in enumerate(losses) if n))[:6]
    assert shown == [(j, -n) for n, j in wanted]
    assert html.count('<td class="wrong">') == 3 * sum(n for _, n in shown)


def test_scores_are_those_of_the_metrics(written):
    """The headline beside a constant answer, and the table of classes."""
    _, html, estimator, X, y = written["grid"]
    predicted, page = estimator.predict(X), parse(html)
    labels = np.concatenate([own.ravel() for own in y])
    commonest = max(estimator.classes_.tolist(), key=lambda k: (labels == k).sum())
    constant = [np.full_like(own, commonest) for own in y]
    tiles = dict(zip(page.texts("span"), page.texts("b"), strict=False))
    alone = mean_iou(y, constant)
    assert tiles[f"mean IoU; always {commonest}: {alone:.3f}"] == f"{mean_iou(y, predicted):.3f}"
    assert tiles[f"right by always saying {commonest}"] == f"{100 * (labels == commonest).mean():.2f} %"
    for label, iou in iou_scores(y, predicted).items():
        (row,) = re.findall(rf"<tr><td>{label}</td>(.*?)</tr>", html)
        assert row.endswith(f">{iou:.3f}</td>")


def test_chunks_and_doubts_of_tags(tmp_path):
    rng = np.random.default_rng(0)
    tags = ["O", "B-PER", "I-PER", "O", "B-LOC"]
    X = [np.eye(5)[order] + 0.9 * rng.normal(size=(5, 5)) for order in [np.arange(5)] * 20]
    y = [tags] * 20
    tag = ms.SequenceLabeler(C=0.1).fit(X[:3], y[:3])
    noisy = [x + rng.normal(size=x.shape) for x in X]
    names = [f"file {j}.txt" for j in range(20)]
    html = ms.report.write_report(tmp_path / "r.html", tag, noisy, y, names=names).read_text(encoding="utf-8")
    found, page = tag.predict(noisy), parse(html)
    scores = chunk_f1(y, found)
    tiles = dict(zip(page.texts("span"), page.texts("b"), strict=False))
    assert tiles[f"F1 of {scores.n_true} chunks; always O: 0.00"] == f"{scores.f1:.2f}"
    assert f'<td>LOC</td><td class="n">20</td><td class="n">{scores.by_type["LOC"].n_predicted}</td>' in html
    margins = [own.margin for own in tag.predict_max_marginals(noisy)]
    j = int(np.argmin([own.min() for own in margins]))
    i = int(margins[j].argmin())
    rows = re.findall(r"<tr><td>(file \d+\.txt)</td><td>(\d+)</td><td>([^<]*)</td><td>([^<]*)</td><td>([^<]*)</td></tr>", html)
    assert len(rows) == 20 and rows[0] == (names[j], str(i), found[j][i], tags[i], f"{margins[j][i]:.3g}")
    surest = rows[10:]
    assert all(told != truth for _, _, told, truth, _ in surest)
    worst = max(m for own, told in zip(margins, found, strict=True) for m, a, b in zip(own, told, tags, strict=True) if a != b)
    assert surest[0][4] == f"{worst:.3g}"
    with pytest.raises(InvalidParameterError, match="names has 1 names, wanted 20"):
        ms.report.write_report(tmp_path / "r.html", tag, noisy, y, names=["one"])


def test_labels_of_the_table(written):
    _, html, estimator, X, Y = written["table"]
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr><td>.*?</tr>", html)]
    predicted = estimator.predict(X)
    assert len(cells) == 4
    for m, row in enumerate(cells):
        right = int(((Y[:, m] == 1) & (predicted[:, m] == 1)).sum())
        assert [int(cell) for cell in row[1:4]] == [int(Y[:, m].sum()), int(predicted[:, m].sum()), right]


def test_largest_weights_by_name(written):
    _, html, estimator, _, _ = written["sequence"]
    own = {name: value for name, value in zip(estimator.weight_names_, estimator.weights_, strict=True) if name[0] == "q"}
    first = max(own, key=lambda name: abs(own[name]))
    shown = parse(html)
    assert first.removeprefix("q(").removesuffix(")") in shown.texts("th")
    assert f"{own[first]:.4g}" in shown.texts("td")


def test_user_text_is_escaped_and_nothing_private_is_told(tmp_path):
    tag, X, y = tagger()
    hostile = "<img src=x onerror=alert(1)>"
    tag.checkpoint = str(tmp_path / "secret.npz")
    tag.learner = ms.learning.BlockFrankWolfe(tol=1e-4, checkpoint=tmp_path / "secret.npz")
    tag.result_ = replace(tag.result_, message=hostile)
    path = ms.report.write_report(
        tmp_path / "report.html",
        tag,
        X,
        y,
        title=hostile,
        classes=[f"{hostile}{k}" for k in range(len(tag.classes_))],
        verify=False,
    )
    html = path.read_text(encoding="utf-8")
    page = parse(html)
    assert "onerror" not in {key for _, key, _ in page.attributes}
    assert page.texts("h1") == [hostile] and hostile in page.texts("td")
    assert f"{hostile}0" in page.texts("th")
    assert "BlockFrankWolfe(tol=0.0001)" in page.texts("td")
    assert "secret" not in html and str(tmp_path) not in html
    assert "– not recomputed" in page.texts("p")


def test_a_broken_certificate_is_told(tmp_path):
    tag, X, y = tagger()
    whole = tag.result_
    broken = replace(whole.certificate, alpha=-np.abs(whole.certificate.alpha) - 1)
    tag.result_ = replace(whole, certificate=broken)
    page = parse(ms.report.write_report(tmp_path / "a.html", tag, X, y, n_examples=0).read_text(encoding="utf-8"))
    assert any(text.startswith("✗ does not hold: the multipliers") for text in page.texts("p"))
    tag.result_ = replace(whole, lower_bound=whole.objective)
    verdict = ms.report.evidence.gather(tag, X, y).training
    assert verdict.holds is False and "the claimed lower bound is" in verdict.words
    tag.result_ = replace(whole, certificate=None)
    assert ms.report.evidence.gather(tag, X, y).training.holds is None
    tag.result_ = whole
    assert ms.report.evidence.gather(tag, X, y).training.holds is True
    del tag.objective_
    assert "training data are not at hand" in _training(tag).words


def test_a_failure_leaves_the_old_page(tmp_path, monkeypatch):
    tag, X, y = tagger()
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space left"):
        ms.report.write_report(path, tag, X, y, verify=False, n_examples=0)
    assert path.read_text() == "old" and [own.name for own in tmp_path.iterdir()] == ["report.html"]


def test_unknown_and_unseen_labels():
    tag, X, y = tagger()
    y = [list(line) for line in y]
    y[0][0], y[1][1] = None, "FOREIGN"
    found = ms.report.evidence.gather(tag, X, y, verify=False)
    assert found.names[-1] == "(not a class)" and found.truth[0][0] == -1
    assert found.known.sum() == 59 and found.confusion()[-1].sum() == 1
    several, X, Y = classifier()
    Y = np.ma.masked_array(Y, mask=np.zeros(Y.shape, dtype=bool))
    Y[0, 0] = np.ma.masked
    assert ms.report.evidence.gather(several, X, Y, verify=False).known.sum() == Y.size - 1


def test_bad_input(tmp_path):
    tag, X, y = tagger()
    target = tmp_path / "report.html"
    for call, error, words in [
        (lambda: ms.report.write_report(target, "net", X, y), InvalidSampleError, "estimator is a str"),
        (lambda: ms.report.write_report(target, ms.SequenceLabeler(), X, y), NotFittedError, "not fitted"),
        (lambda: ms.report.write_report(3, tag, X, y), InvalidParameterError, "path is 3"),
        (lambda: ms.report.write_report(target, tag, X, y, n_examples=-1), InvalidParameterError, "n_examples is -1"),
        (lambda: ms.report.write_report(target, tag, X, y, classes=["a"]), InvalidParameterError, "classes has 1 names"),
        (lambda: ms.report.write_report(target, tag, X, y[:2]), InvalidSampleError, "12 samples, but 2 labellings"),
        (lambda: ms.report.write_report(target, tag, X, None), InvalidSampleError, "y is None"),
        (lambda: ms.report.write_report(target, tag, X, [[None] * 5] * 12), InvalidSampleError, "no label is known"),
        (lambda: ms.report.write_report(tmp_path / "none" / "a.html", tag, X, y), FileNotFoundError, "make it first"),
    ]:
        with pytest.raises(error, match=words):
            call()
    assert not target.exists()


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the page with: apt-get install chromium")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_the_page(written, tmp_path, dark):
    from PIL import Image

    path = written["grid"][0]
    shot = tmp_path / "shot.png"
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    command += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,1600"]
    command += ["--blink-settings=preferredColorScheme=0"] if dark else []
    subprocess.run([*command, f"--screenshot={shot}", path.as_uri()], check=True, capture_output=True, timeout=120)
    pixels = np.asarray(Image.open(shot).convert("L"), dtype=float)
    assert pixels.shape == (1600, 1000)
    ground = np.median(pixels)
    assert ground < 60 if dark else ground > 230
    drawn = np.abs(pixels - ground) > 40
    assert 0.01 < drawn.mean() < 0.5
    assert not drawn[:, -8:].any()
    assert drawn[900:].mean() > 0.01


@pytest.mark.parametrize(
    ("features", "shown"),
    [
        ({"bias": 1.0, "0[0]": "dog"}, "dog"),
        ({"bias": True, "0[0]=a=b": 1.0, "1[0]=NN": 1.0}, "a=b"),
        ({"word": "dog", "w": "cat"}, "dog"),
        ({"tall": 2.0}, "tall"),
        ({"shape": "Xx"}, "Xx"),
        ({}, ""),
    ],
)
def test_items_of_sequences_are_shown_by_their_word(features, shown):
    assert _word(features) == shown


def test_a_table_of_labels_stands_beside_a_constant_answer(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = (X @ rng.normal(size=(3, 3)) + [1.0, 0.0, -0.5] > 0).astype(int)
    net = ms.MultiLabelClassifier(C=0.01).fit(X, Y)
    ms.report.write_report(tmp_path / "r.html", net, X, Y)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    constant = np.maximum(Y.mean(axis=0), 1 - Y.mean(axis=0)).mean()
    assert f"{100 * constant:.2f} %" in page
    told = net.predict(X)
    both, either = (Y & told).sum(axis=0), Y.sum(axis=0) + told.sum(axis=0)
    assert f"{np.mean(2 * both / either):.3f}" in page
