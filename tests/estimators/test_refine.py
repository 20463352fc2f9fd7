"""refine: probabilities and an image to labels, by given and by learned weights; its problem written down by hand."""

from __future__ import annotations

import numpy as np
import pytest
from reference.enumeration import every_labelling

import maxsum as ms


def scene(seed, n_labels=3, size=24, noise=1.5):
    """Regions of one colour each, and probabilities of a classifier that looks at single pixels."""
    from scipy import ndimage

    random = np.random.default_rng(seed)
    fields = [ndimage.gaussian_filter(random.normal(size=(size, size)), 3) for _ in range(n_labels)]
    truth = np.argmax(fields, axis=0)
    image = random.random((n_labels, 3))[truth] + 0.1 * random.normal(size=(size, size, 3))
    p = np.exp(1.5 * np.eye(n_labels)[truth] + noise * random.normal(size=(size, size, n_labels)))
    return p / p.sum(axis=-1, keepdims=True), image, truth


def by_hand(p, image, weight, gamma, labels):
    """The score, pixel by pixel and pair by pair of all eight neighbours."""
    height, width = labels.shape
    score = np.log(np.take_along_axis(p, labels[..., None], axis=2)).sum()
    for i, j in np.ndindex(height, width):
        for step in ((0, 1), (1, 0), (1, 1), (1, -1)):
            a, b = i + step[0], j + step[1]
            if a < height and 0 <= b < width and labels[i, j] == labels[a, b]:
                square = 0.0 if image is None else ((image[i, j] - image[a, b]) ** 2).sum()
                score += weight * np.exp(-gamma * square) / np.hypot(*step)
    return score


@pytest.mark.parametrize("with_image", [True, False])
def test_the_score_is_that_of_its_formula_and_the_best_of_all(with_image):
    p, image, _ = scene(0, n_labels=2, size=3)
    image = image if with_image else None
    found = ms.refine(p, image, weight=0.7, gamma=1.3)
    assert found.result.score == pytest.approx(by_hand(p, image, 0.7, 1.3, found.labels), rel=1e-12)
    assert found.result.score == pytest.approx(max(map(found.problem.score, every_labelling(found.problem))), rel=1e-12)
    assert found.verify().optimal and found.model is None


def test_gamma_is_half_of_one_by_the_mean_contrast_by_default():
    p, image, _ = scene(1, size=8)
    u, v = ms.Graph.grid(8, 8, 8).edges.T
    gamma = 0.5 / ((image.reshape(-1, 3)[u] - image.reshape(-1, 3)[v]) ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(ms.refine(p, image).problem.edge_weight, ms.refine(p, image, gamma=gamma).problem.edge_weight)


def test_it_cleans_and_the_image_helps():
    wrong = np.zeros(3)
    for seed in range(4):
        p, image, truth = scene(seed)
        found = ms.refine(p, image)
        assert found.verify().bound >= found.result.score
        assert found.result.relative_gap <= 1e-3 or str(found.result.termination) != "converged"
        wrong += [(p.argmax(axis=2) != truth).mean(), (ms.refine(p).labels != truth).mean(), (found.labels != truth).mean()]
    assert wrong[2] < wrong[1] < 0.5 * wrong[0]


def test_weights_are_learned_from_examples_and_used_again():
    scenes = [scene(seed, size=16) for seed in range(5)]
    scenes = [(np.where(p > 0.5, 0.5 + 0.1 * (p - 0.5), p), image, truth) for p, image, truth in scenes]
    p, images, masks = (list(own) for own in zip(*scenes, strict=True))
    masks[0] = np.where(np.arange(16) < 3, -1, masks[0])
    found = ms.refine(p[4], images[4], examples=(p[:4], images[:4], masks[:4]))
    again = ms.refine(p[4], images[4], weight=found.model)
    np.testing.assert_array_equal(found.labels, again.labels)
    np.testing.assert_array_equal(found.labels, found.model.predict([np.dstack([np.log(p[4]), images[4]])])[0])
    assert found.verify().bound >= found.result.score - 1e-9 and found.model.result_.relative_gap <= 1e-2
    assert (found.labels != masks[4]).mean() < 0.5 * (p[4].argmax(axis=2) != masks[4]).mean()
    with pytest.raises(ms.InvalidSampleError, match="learned from probabilities with images"):
        ms.refine(p[4], weight=found.model)


def test_forms_of_probabilities_and_images():
    p, image, _ = scene(3, n_labels=2, size=6)
    np.testing.assert_array_equal(
        ms.refine(p[..., 1], image).labels, ms.refine(np.stack([1 - p[..., 1], p[..., 1]], axis=2), image).labels
    )
    grey = (255 * image[..., 0].clip(0, 1)).astype(np.uint8)
    np.testing.assert_allclose(ms.refine(p, grey).problem.edge_weight, ms.refine(p, grey[..., None] / 255).problem.edge_weight)
    volume = np.stack([p, p, p])
    solid = ms.refine(volume, np.stack([image] * 3))
    assert solid.labels.shape == (3, 6, 6) and solid.problem.graph.n_edges == ms.Graph.grid((3, 6, 6), connectivity=26).n_edges
    sure = np.where(p > 0.5, 1.0, 0.0)
    assert np.isfinite(ms.refine(sure, image).result.score)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(probabilities=np.full((2, 2, 2), 1.5)), r"hold 1.5 at \(0, 0, 0\).*softmax"),
        (dict(probabilities=np.full((2, 2), np.nan)), "hold nan"),
        (dict(probabilities=np.zeros(4)), r"wanted numbers \(height, width, K\)"),
        (dict(probabilities=np.zeros((2, 2, 1))), "two labels or more"),
        (dict(probabilities=np.zeros((2, 2)), image=np.zeros((3, 2))), r"wanted \(2, 2, d\)"),
        (dict(probabilities=np.zeros((2, 2)), weight=-1.0), "weight is -1.0"),
        (dict(probabilities=np.zeros((2, 2)), gamma=np.nan), "gamma is nan"),
        (dict(probabilities=np.zeros((2, 2)), examples=([], [], [])), "have 0 probabilities"),
        (dict(probabilities=np.zeros((2, 2)), examples=3), "no triple of lists"),
        (dict(probabilities=np.zeros((2, 2)), examples=([np.zeros((2, 2))], [np.zeros((2, 2))], [np.eye(2)])), "same for all"),
    ],
)
def test_bad_arguments_say_what_is_wanted(arguments, message):
    with pytest.raises(ms.MaxsumError, match=message):
        ms.refine(**arguments)
