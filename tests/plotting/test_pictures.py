"""Pictures hold the numbers of what they show."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from plotting.plot_samples import classifier, learning_result, result, segmenter, tagger

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, NotFittedError
from maxsum.core.result import Guarantee, TracePoint

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.colors import to_rgba  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from maxsum.plotting import plot_convergence, plot_graph, plot_labelling, plot_pairwise, theme  # noqa: E402
from maxsum.plotting.classes import COLOURS, colour  # noqa: E402
from maxsum.plotting.labelling import outline  # noqa: E402
from maxsum.plotting.layout import layout  # noqa: E402


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def fitted():
    return {"sequence": tagger()[0], "grid": segmenter()[0], "table": classifier()[0]}


def lines(axis):
    return {line.get_label(): line.get_xydata() for line in axis.get_lines()}


def marked(axis):
    return [own for own in axis.collections if own.get_gid() == "marked"]


def legend(axis):
    return [words.get_text() for words in axis.get_legend().get_texts()]


# ---- convergence ----------------------------------------------------------------------------------------------------------


def test_convergence_of_a_training_is_its_trace():
    given = learning_result()
    axes = plot_convergence(given)
    assert axes.shape == (2, 2)
    for column, name in ((0, "seconds"), (1, "n_oracle_calls")):
        x = [getattr(point, name) for point in given.trace]
        drawn = lines(axes[0, column])
        assert np.array_equal(drawn["objective"], np.transpose([x, [12.0, 10.0, 8.0, 8.0]]))
        assert np.array_equal(drawn["lower bound"], np.transpose([x, [np.nan, 2.0, 7.0, 7.5]]), equal_nan=True)
        gaps = lines(axes[1, column])["relative gap"]
        assert np.allclose(gaps[:, 1], [np.nan, 0.8, 1 / 8, 0.5 / 8], equal_nan=True)
        assert axes[1, column].get_yscale() == "log"
    assert [axis.get_xlabel() for axis in axes[1]] == ["seconds", "oracle calls"]
    assert "BlockFrankWolfe: converged after 2.1 s, relative gap 0.062" in axes[0, 0].figure.get_suptitle()


def test_convergence_of_a_solver_ends_at_its_answer():
    axes = plot_convergence(result())
    drawn = lines(axes[0, 1])
    assert np.array_equal(drawn["score"], [[1, np.nan], [2, 9.0], [7, 10.0]], equal_nan=True)
    assert np.array_equal(drawn["upper bound"], [[1, 20.0], [2, 11.0], [7, 10.5]])
    assert np.allclose(lines(axes[1, 1])["relative gap"][:, 1], [np.nan, 2 / 11, 0.5 / 10.5], equal_nan=True)
    assert axes[1, 1].get_xlabel() == "iterations"


def test_convergence_without_a_bound_says_so():
    axes = plot_convergence(learning_result(lower_bound=-np.inf, trace=()))
    assert set(lines(axes[0, 0])) == {"objective"}
    assert [words.get_text() for words in axes[1, 0].texts] == ["no bound is proven"]


def test_convergence_to_a_closed_gap_says_so():
    closed = result(score=10.0, bound=10.0, gap=0.0, guarantee=Guarantee.optimal, trace=(TracePoint(1, 0.1, 9.0, 11.0),))
    axes = plot_convergence(closed)
    assert [words.get_text() for words in axes[1, 0].texts] == ["the gap is closed"]
    assert np.isnan(lines(axes[1, 0])["relative gap"][-1, 1])


def test_convergence_into_one_axes():
    axis = Figure().subplots()
    assert plot_convergence(learning_result(), ax=axis) is axis
    assert set(lines(axis)) == {"objective", "lower bound"}
    assert axis.get_xlabel() == "seconds"


# ---- pairwise tables ------------------------------------------------------------------------------------------------------


def test_pairwise_tables_of_a_sequence(fitted):
    tag = fitted["sequence"]
    (axis,) = plot_pairwise(tag)
    assert np.array_equal(axis.images[0].get_array(), tag.coef_blocks_["edges"])
    names = [str(name) for name in tag.classes_]
    assert [label.get_text() for label in axis.get_xticklabels()] == names
    assert [label.get_text() for label in axis.get_yticklabels()] == names
    assert (axis.get_ylabel(), axis.get_xlabel(), axis.get_title()) == ("first node", "second node", "all edges")
    assert len(axis.texts) == len(names) ** 2
    low, high = axis.images[0].get_clim()
    assert low == -high == -np.abs(tag.coef_blocks_["edges"]).max()


def test_pairwise_tables_one_panel_a_type(fitted):
    axes = plot_pairwise(fitted["grid"])
    assert [axis.get_title() for axis in axes] == ["horizontal", "vertical"]
    for axis, name in zip(axes, ("horizontal", "vertical"), strict=True):
        assert np.array_equal(axis.images[0].get_array(), fitted["grid"].coef_blocks_[f"edges[{name}]"])
    (only,) = plot_pairwise(fitted["grid"], max_panels=1)
    assert only.figure.get_suptitle() == "first 1 of 2 tables"


def test_pairwise_of_several_labels_is_their_attraction(fitted):
    (axis,) = plot_pairwise(fitted["table"], classes=["a", "b", "c", "d"])
    drawn = np.ma.filled(axis.images[0].get_array().astype(float), np.nan)
    assert np.isnan(np.diag(drawn)).all()
    for (u, v), g in zip(fitted["table"].graph_.edges, fitted["table"].coef_blocks_["edges"], strict=True):
        assert drawn[u, v] == drawn[v, u] == pytest.approx(g[0, 0] + g[1, 1] - g[0, 1] - g[1, 0])
    assert [label.get_text() for label in axis.get_xticklabels()] == ["a", "b", "c", "d"]


def test_pairwise_scores_of_convex_energies_are_those_of_the_problem():
    X = [np.arange(6.0).reshape(3, 2) - 2, np.ones((2, 2))]
    field = ms.SequenceLabeler(surrogate="qp", max_iter=5, tol=0.5, C=3.0).fit(X, [[0, 1, 2], [1, 0]])
    (axis,) = plot_pairwise(field)
    (problem,) = field.problems([np.zeros((2, 2))])
    scores = [[problem.score([k, m]) for m in range(3)] for k in range(3)]
    drawn = axis.images[0].get_array()
    assert np.allclose(drawn - drawn[0, 0], np.array(scores) - scores[0][0])


# ---- labellings -----------------------------------------------------------------------------------------------------------


def test_labelling_marks_what_is_not_fixed():
    fixed = np.array([True, False, True, True, False, True])
    image = np.linspace(0, 1, 18).reshape(2, 3, 3)
    axes = plot_labelling(image, [[0, 1, 0], [1, 0, 1]], result(fixed=fixed), classes=[0, 1])
    assert axes[1].get_title() == "labels: 2 of 6 not proven"
    (ring,) = marked(axes[1])
    sides = {tuple(map(tuple, own.tolist())) for own in ring.get_segments()}
    tall = {((x, y), (x, y + 1)) for x in (0.5, 1.5) for y in (-0.5, 0.5)}
    assert sides == tall | {((0.5, y), (1.5, y)) for y in (-0.5, 1.5)}
    assert legend(axes[1]) == ["0", "1", "not proven"]
    shown = axes[1].images[0].get_array()
    assert np.allclose(shown[0, 1], to_rgba(colour(1))) and np.allclose(shown[1, 1], to_rgba(colour(0)))


@pytest.mark.parametrize(
    ("changes", "title", "count"),
    [
        ({"guarantee": Guarantee.optimal, "fixed": np.zeros(6, dtype=bool)}, "labels: proven optimal", 0),
        ({"marginals": np.array([[0.95, 0.05]] * 4 + [[0.5, 0.5]] * 2)}, "labels: 2 of 6 marginal below 0.9", 2),
        ({}, "labels: within 0.5 of the best score", 0),
        ({"guarantee": Guarantee.feasible}, "labels: nothing proven", 0),
        ({"fixed": np.ones(6, dtype=bool)}, "labels: 0 of 6 not proven", 0),
    ],
)
def test_titles_say_what_is_proven(changes, title, count):
    axes = plot_labelling(np.zeros((2, 3)), [0, 1] * 3, result(**changes), classes=[0, 1])
    assert axes[1].get_title() == title
    assert sum(len(own.get_segments()) for own in marked(axes[1])) == 3 * count  # two pixels beside each other have six sides
    graph = plot_graph(ms.Graph.chain(6), [0, 1] * 3, result(**changes), classes=[0, 1])
    assert graph.get_title() == title
    assert sum(len(own.get_offsets()) for own in marked(graph)) == count


def test_unknown_labels_stay_blank_and_classes_keep_their_colours():
    labels = np.ma.masked_array([["cow", "sky", "cow"], ["cow", "cow", "cow"]], mask=[[1, 0, 0], [0, 0, 0]])
    axes = plot_labelling(np.zeros((2, 3)), labels, classes=["sky", "grass", "cow"])
    shown = axes[1].images[0].get_array()
    assert shown[0, 0, 3] == 0
    assert np.allclose(shown[0, 2], to_rgba(colour(2)))
    assert legend(axes[1]) == ["sky", "cow"]


@pytest.mark.parametrize("channels", [None, 1, 2, 3, 5])
def test_images_of_any_number_of_features(channels):
    image = np.random.default_rng(0).standard_normal((3, 4) if channels is None else (3, 4, channels))
    axes = plot_labelling(image, np.zeros((3, 4), dtype=int))
    shown = np.asarray(axes[0].images[0].get_array())
    assert shown.shape == ((3, 4) if channels in (None, 1) else (3, 4, 3))
    assert channels in (None, 1) or (shown.min() >= 0 and shown.max() <= 1)


def test_an_outline_parts_what_is_inside_from_what_is_not():
    inside = np.random.default_rng(0).random((4, 5)) < 0.5
    padded = np.pad(inside, 1)
    found = {tuple(np.concatenate(own).tolist()) for own in outline(inside)}
    wanted = set()
    for r, c in np.ndindex(4, 5):
        if inside[r, c]:
            around = {
                (c - 0.5, r - 0.5, c - 0.5, r + 0.5): padded[r + 1, c],
                (c + 0.5, r - 0.5, c + 0.5, r + 0.5): padded[r + 1, c + 2],
                (c - 0.5, r - 0.5, c + 0.5, r - 0.5): padded[r, c + 1],
                (c - 0.5, r + 0.5, c + 0.5, r + 0.5): padded[r + 2, c + 1],
            }
            wanted |= {side for side, other in around.items() if not other}
    assert found == wanted and len(outline(inside)) == len(wanted)


def test_one_axes_gets_the_labelling_alone():
    axis = Figure().subplots()
    wrong = np.array([[True, False], [False, False]])
    assert plot_labelling(np.zeros((2, 2)), [[0, 1], [1, 0]], marked=wrong, ax=axis) is axis
    assert axis.get_title() == "labels: 1 of 4 marked"
    assert len(axis.images) == 1


# ---- graphs ---------------------------------------------------------------------------------------------------------------


def test_graph_nodes_by_class_and_edges_by_place():
    graph = ms.Graph.from_edges([[0, 1], [1, 2], [2, 0], [2, 3]], 5)
    places = np.array([[0, 0], [1, 0], [0, 1], [2, 2], [3, 3.0]])
    sample = ms.GraphSample(np.zeros((5, 1)), graph)
    axis = plot_graph(sample, ["b", "a", "b", None, "a"], classes=["a", "b"], positions=places, names=["v$1$"] * 5)
    own = {part.get_gid(): part.get_offsets() for part in axis.collections if part.get_gid()}
    assert own["class 0"].tolist() == places[[1, 4]].tolist()
    assert own["class 1"].tolist() == places[[0, 2]].tolist()
    assert own["class -1"].tolist() == places[[3]].tolist()
    segments = axis.collections[0].get_segments()
    assert np.array_equal(segments, places[graph.edges])
    assert legend(axis) == ["unknown", "a", "b"]
    assert [words.get_text() for words in axis.texts] == [r"v\$1\$"] * 5


def test_layouts_are_places_of_their_own():
    random = np.random.default_rng(0)
    tree = ms.Graph.from_edges([[i, int(random.integers(i))] for i in range(1, 30)], 33)
    for graph in (
        tree,
        ms.Graph.complete(7),
        ms.Graph.chain(40),
        ms.Graph.grid(3, 4),
        ms.Graph.from_edges(np.zeros((0, 2), int), 4),
    ):
        places = layout(graph)
        assert np.array_equal(places, layout(graph))
        distance = np.linalg.norm(places[:, None] - places[None], axis=2) + 10 * np.eye(len(places))
        assert distance.min() > 0.2
    assert layout(ms.Graph.from_edges(np.zeros((0, 2), int), 0)).shape == (0, 2)


def test_large_graphs_have_the_spectral_layout():
    grid = ms.Graph.grid(26, 26)
    places = layout(ms.Graph.from_edges(grid.edges, grid.n_nodes))
    length = np.linalg.norm(np.diff(places[grid.edges], axis=1), axis=2)
    assert np.isfinite(places).all() and length.mean() < 0.1 * np.ptp(places, axis=0).min()


def test_layout_keeps_neighbours_near():
    ring = ms.Graph.from_edges([[i, (i + 1) % 12] for i in range(12)], 12)
    places = layout(ring)
    length = np.linalg.norm(np.diff(places[ring.edges], axis=1), axis=2)
    assert length.max() < 1.05 * length.min()
    chain = ms.Graph.from_edges([[2, 0], [0, 3], [3, 1]], 4)
    assert layout(chain)[:, 0].tolist() in ([1, 3, 0, 2], [2, 0, 3, 1])


# ---- colours and themes ---------------------------------------------------------------------------------------------------

# Machado, Oliveira and Fernandes 2009, at full severity, on linear RGB.
_EYES = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])


def lab(linear):
    x = np.clip(linear, 0, 1) @ _XYZ.T / [0.95047, 1, 1.08883]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


@pytest.mark.parametrize("eyes", list(_EYES))
@pytest.mark.parametrize(("n_classes", "least"), [(7, 16), (12, 16), (30, 12)])
def test_colours_can_be_told_apart(eyes, n_classes, least):
    assert len(COLOURS) == 30
    rgb = np.array([to_rgba(colour(k))[:3] for k in range(n_classes)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = lab(linear @ np.array(_EYES[eyes]).T)
    distance = np.linalg.norm(seen[:, None] - seen[None], axis=2) + 1e3 * np.eye(n_classes)
    assert distance.min() > least


def test_themes_are_light_and_dark():
    before = matplotlib.rcParams["text.color"]
    grounds = {}
    for name in ("light", "dark"):
        with theme(name):
            axis = plot_graph(ms.Graph.chain(3), [0, 1, 0], ax=Figure)
            grounds[name] = sum(axis.figure.get_facecolor()[:3]), sum(to_rgba(axis.title.get_color())[:3])
    assert grounds["light"][0] > 2.9 > 0.6 > grounds["light"][1]
    assert grounds["dark"][0] < 0.4 < 2.5 < grounds["dark"][1]
    assert matplotlib.rcParams["text.color"] == before


@pytest.mark.parametrize("n_classes", [2, 9, 30])
def test_nothing_overlaps(n_classes):
    names = [f"class {k}" for k in range(n_classes)]
    labels = np.arange(36).reshape(6, 6) % n_classes
    axes = plot_labelling(labels, [[names[k] for k in row] for row in labels], classes=names)
    figure = axes[0].figure
    figure.canvas.draw()
    boxes = [axes[0].get_window_extent(), axes[1].get_window_extent(), axes[1].get_legend().get_window_extent()]
    assert boxes[0].x1 <= boxes[1].x0 and boxes[1].x1 <= boxes[2].x0 and boxes[2].x1 <= figure.bbox.x1 + 1
    assert min(boxes[2].y0, boxes[1].y0) >= -1


# ---- bad input ------------------------------------------------------------------------------------------------------------

CHAIN = ms.Graph.chain(6)
PICTURE = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("call", "words", "error"),
    [
        (lambda: plot_convergence("fit"), "result is a str, wanted a Result or a LearningResult", InvalidSampleError),
        (lambda: plot_convergence(learning_result(), ax=3), "ax is int, wanted 4 Axes", InvalidParameterError),
        (
            lambda: plot_convergence(learning_result(), ax=Figure().subplots(1, 2)),
            "ax is 2 objects, wanted 4 Axes",
            InvalidParameterError,
        ),
        (lambda: plot_pairwise("net"), "estimator is a str, wanted a fitted labeler", InvalidSampleError),
        (
            lambda: plot_pairwise(ms.GraphLabeler(), max_panels=0),
            "max_panels is 0, wanted a whole number >= 1",
            InvalidParameterError,
        ),
        (lambda: plot_labelling(PICTURE, [0] * 5), r"labels has shape \(5,\), wanted \(2, 3\)", InvalidSampleError),
        (lambda: plot_labelling(np.zeros(3), [0] * 3), r"image has shape \(3,\)", InvalidSampleError),
        (lambda: plot_labelling(np.full((2, 3), np.nan), [0] * 6), "not finite", InvalidSampleError),
        (
            lambda: plot_labelling(PICTURE, ["a"] * 6, classes=["b"]),
            "label of node 0 is 'a', wanted one of the classes",
            InvalidSampleError,
        ),
        (lambda: plot_labelling(PICTURE, ["a"] * 6, classes="ab"), "classes is 'ab', wanted a list", InvalidParameterError),
        (lambda: plot_labelling(PICTURE, [0] * 6, classes=[0, 0]), "wanted different labels", InvalidParameterError),
        (
            lambda: plot_labelling(PICTURE, [0] * 6, learning_result()),
            "result is a LearningResult, wanted a maxsum.Result",
            InvalidSampleError,
        ),
        (lambda: plot_labelling(PICTURE, [0] * 6, result(5)), "labels of the result has 5 nodes, wanted 6", InvalidSampleError),
        (lambda: plot_labelling(PICTURE, [0] * 6, result(labels=None)), "the result has no labelling", InvalidSampleError),
        (
            lambda: plot_labelling(PICTURE, [0] * 6, result(), certain=2),
            "certain is 2, wanted a marginal",
            InvalidParameterError,
        ),
        (lambda: plot_labelling(PICTURE, [0] * 6, marked=[0] * 6), "marked has dtype int64", InvalidSampleError),
        (lambda: plot_graph([[0, 1]], [0, 1]), "sample is a list, wanted a maxsum.GraphSample", InvalidSampleError),
        (lambda: plot_graph(CHAIN, [0] * 5), "labels has 5 entries, wanted one for each of 6 nodes", InvalidSampleError),
        (lambda: plot_graph(CHAIN, [0] * 6, positions=[[0, 1]]), r"positions has shape \(1, 2\)", InvalidSampleError),
        (lambda: plot_graph(CHAIN, [0] * 6, names=["a"]), "names has 1 entries", InvalidSampleError),
        (lambda: plot_graph(CHAIN, [0] * 6, ax=[1]), "ax is list, wanted 1 Axes", InvalidParameterError),
        (lambda: theme("blue"), "theme is 'blue', wanted one of light, dark", InvalidParameterError),
    ],
)
def test_bad_input(call, words, error):
    with pytest.raises(error, match=words):
        call()


def test_a_result_of_other_labels_is_refused():
    optimal = result(guarantee=Guarantee.optimal)
    for labels in ([0, 1, 0, 1, 0, 0], [1, 0] * 3):
        with pytest.raises(InvalidSampleError, match="labels are not those of the result"):
            plot_graph(CHAIN, labels, optimal, classes=[0, 1])
    with pytest.raises(InvalidSampleError, match="labels are not those of the result"):
        plot_graph(CHAIN, list("ababaa"), optimal)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'maxsum\[plot\]'"):
        theme("dark")


def test_matplotlib_is_loaded_on_first_use():
    code = "import sys, maxsum.plotting; print({'matplotlib', 'scipy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_unfitted_and_edgeless_models_have_no_tables():
    with pytest.raises(NotFittedError, match="not fitted"):
        plot_pairwise(ms.GraphLabeler())
    X, y = [[0.0], [1.0], [2.0]], [0, 1, 1]
    with pytest.raises(InvalidSampleError, match="no pairwise weights"):
        plot_pairwise(ms.MultiLabelClassifier().fit(X, y))


def test_forbidden_pairs_leave_the_scale_to_the_others():
    X, y = [[{"w": "a"}, {"w": "b"}, {"w": "c"}]] * 2, [["B-X", "I-X", "O"]] * 2
    net = ms.SequenceLabeler(C=10.0, forbidden="bio").fit(X, y)
    weights = net.transitions()
    assert np.isneginf(weights).any()
    picture = np.atleast_1d(plot_pairwise(net)).ravel()[0].get_images()[0]
    assert picture.get_clim()[1] == pytest.approx(np.abs(weights[np.isfinite(weights)]).max())
