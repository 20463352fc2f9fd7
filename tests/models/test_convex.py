"""Convex energies: families of matrices, their projections and adjoints, the matting Laplacian, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_matrix

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.models import GraphModel, GraphSample
from maxsum.models.convex import Convex
from maxsum.models.matrices import Definite, Dictionary, check_definite
from maxsum.models.matting import MattingLaplacian, RestrictedOperator

SHAPES = np.array([[2, 2], [3, 1], [2, 2], [1, 1]])


def families(floor=0.1):
    return {"definite": Definite(SHAPES, 3, floor), "dictionary": Dictionary(SHAPES, 3, floor)}


@pytest.mark.parametrize("name", families())
def test_adjoint_and_bank_are_transposes(name):
    family, rng = families()[name], np.random.default_rng(0)
    w, gradient = rng.normal(size=family.n_weights), rng.normal(size=family.size)
    bank = family.bank(w)
    assert np.array_equal(bank, bank.transpose(0, 2, 1)) or name == "dictionary"
    assert np.allclose(bank, bank.transpose(0, 2, 1))
    assert (bank * gradient).sum() == pytest.approx(w @ family.adjoint(gradient))
    assert len(family.names()) == family.n_weights
    for p, (a, b) in enumerate(SHAPES.tolist()):
        unused = np.setdiff1d(np.arange(6), np.concatenate([np.arange(a), 3 + np.arange(b)]))
        assert not bank[p][unused].any() and not bank[p][:, unused].any()


def test_norm_of_the_weights_is_that_of_the_matrices():
    family = families()["definite"]
    w = np.random.default_rng(1).normal(size=family.n_weights)
    assert np.linalg.norm(w) == pytest.approx(np.linalg.norm(family.bank(w)))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_projection_is_that_of_a_conic_solver(size):
    clarabel = pytest.importorskip("clarabel")
    floor, rng = 0.3, np.random.default_rng(size)
    family = Definite(np.array([[size - 1, 1]]), size - 1, floor)
    for _ in range(3):
        u = rng.normal(size=family.n_weights)
        cells = list(zip(*np.triu_indices(size), strict=True))
        columns = sorted(range(len(cells)), key=lambda i: (cells[i][1], cells[i][0]))
        order = np.zeros((len(u), len(u)))
        order[np.arange(len(u)), columns] = 1.0
        level = np.array([floor if cells[i][0] == cells[i][1] else 0.0 for i in columns])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
        cone = [clarabel.PSDTriangleConeT(size)]
        eye = csc_matrix(np.eye(len(u)))
        answer = clarabel.DefaultSolver(eye, -u, csc_matrix(-order), -level, cone, settings).solve()
        assert np.allclose(family.project(u), answer.x, atol=1e-6)


def test_projection_meets_its_optimality_conditions():
    family, rng = families()["definite"], np.random.default_rng(3)
    for _ in range(5):
        u = 2 * rng.normal(size=family.n_weights)
        w = family.project(u)
        assert np.allclose(family.project(w), w, atol=1e-13)
        for place, matrix, moved in zip(family.places, family.bank(w), family.bank(w - u), strict=True):
            own, multiplier = matrix[np.ix_(place, place)], moved[np.ix_(place, place)]
            assert np.linalg.eigvalsh(own)[0] >= family.floor - 1e-14 * np.abs(own).max()
            assert np.linalg.eigvalsh(multiplier)[0] >= -1e-12
            assert abs(np.vdot(multiplier, own - family.floor * np.eye(len(own)))) <= 1e-10
    inside = family.pack([np.eye(4), 2 * np.eye(4), np.eye(4), np.eye(2)])
    assert np.array_equal(family.project(inside), inside)


def test_large_matrices_are_projected_too():
    family = Definite(np.array([[30, 25]]), 30, 1e-3)
    w = family.project(np.random.default_rng(4).normal(size=family.n_weights))
    assert np.linalg.eigvalsh(family.bank(w)[0][np.ix_(family.places[0], family.places[0])])[0] >= 1e-3 - 1e-12


def test_default_dictionary_is_definite_and_clipped():
    family = families(0.2)["dictionary"]
    w = family.project(np.random.default_rng(5).normal(size=family.n_weights))
    assert w.min() == 0.2
    for place, matrix in zip(family.places, family.bank(w), strict=True):
        assert np.linalg.eigvalsh(matrix[np.ix_(place, place)])[0] >= 0.2 - 1e-12
    own = Dictionary(np.array([[1, 1]]), 1, 0.1, [[1.0, -1.0]])
    assert np.array_equal(own.bank(np.array([2.0]))[0], [[2.0, -2.0], [-2.0, 2.0]])


def test_pack_is_the_inverse_of_bank():
    family, rng = families(0.1)["definite"], np.random.default_rng(6)
    matrices = []
    for place in family.places:
        root = rng.normal(size=(len(place), len(place)))
        matrices.append(root @ root.T + 0.2 * np.eye(len(place)))
    w = family.pack(matrices)
    for place, given, matrix in zip(family.places, matrices, family.bank(w), strict=True):
        assert np.allclose(matrix[np.ix_(place, place)], given)
    with pytest.raises(InvalidSampleError, match="not symmetric"):
        family.pack([np.triu(np.ones((4, 4)))] * 4)
    with pytest.raises(InvalidSampleError, match="not positive definite"):
        family.pack([0.05 * np.eye(4)] * 4)
    with pytest.raises(InvalidSampleError, match="wanted 4"):
        family.pack([np.eye(4)] * 3)
    with pytest.raises(InvalidSampleError, match="has shape"):
        family.pack([np.eye(3)] * 4)
    with pytest.raises(InvalidSampleError, match="finite"):
        check_definite(np.diag([1.0, np.nan]), "the matrix")


def base(features=None):
    graph = ms.Graph.chain(3)
    return GraphModel().bind([GraphSample(np.ones((3, 2)), graph, edge_features=features)], [[0, 1, 0]])


def test_edge_features_below_zero_are_refused_and_zero_is_a_limit():
    with pytest.raises(InvalidSampleError, match="edge feature -1 at edge 1"):
        Convex().bind(base([[1.0], [-1.0]]))
    model = Convex().bind(base([[1.0], [0.0]]))
    with pytest.raises(InvalidSampleError, match="features >= 0"):
        model.problems(
            np.zeros(model.n_weights), [GraphSample(np.ones((3, 2)), ms.Graph.chain(3), edge_features=[[-2.0], [1.0]])]
        )
    assert model.problems(model.project(np.zeros(model.n_weights)))[0].n_edges == 2


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (dict(form="cubic"), "wanted one of"),
        (dict(floor=0.0), "floor is 0"),
        (dict(ridge=-1.0), "ridge is -1"),
        (dict(rows=np.eye(4)), "form='dictionary'"),
        (dict(n_operators=-1), "n_operators"),
        (dict(form="dictionary", rows=np.eye(3)), "dictionary 0 has shape"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(InvalidParameterError, match=match):
        Convex(**options).bind(base())


def test_names_slices_and_start():
    model = Convex(n_operators=2).bind(base())
    assert len(model.names) == model.n_weights == model.slices[-1].stop and model.names[-1] == "operator 1"
    w = model.project(np.zeros(model.n_weights))
    assert np.allclose(model.matrices(w)[0], model.spec.floor * np.eye(4)) and not w[model.slices[0]].any()


# ---- the matting Laplacian -------------------------------------------------------------------------------------


def images():
    rng = np.random.default_rng(7)
    two = np.where(rng.random((8, 9, 1)) < 0.5, [[[0.1, 0.2, 0.3]]], [[[0.8, 0.1, 0.5]]])
    return {
        "random": rng.random((8, 9, 3)),
        "constant": np.full((8, 9, 3), 0.3),
        "two colours": two,
        "grey": rng.random((8, 9)),
    }


@pytest.mark.parametrize("radius", [1, 2, 3])
@pytest.mark.parametrize("name", images())
def test_matting_product_is_that_of_the_matrix(name, radius):
    operator = MattingLaplacian(images()[name], radius, 1e-5)
    matrix = operator.matrix().toarray()
    x = np.random.default_rng(radius).normal(size=(72, 4))
    assert np.allclose(operator.apply(x), matrix @ x, atol=1e-11)
    assert np.allclose(matrix, matrix.T) and np.linalg.eigvalsh(matrix)[0] >= -1e-13
    assert np.allclose(matrix.sum(axis=1), 0.0, atol=1e-13)
    assert not operator.apply(np.ones((72, 1))).any()


def test_matting_of_one_colour_averages_over_windows():
    operator = MattingLaplacian(np.full((3, 3, 3), 7, dtype=np.uint8), 1)
    x = np.arange(9.0)[:, None]
    assert np.allclose(operator.apply(x), (x - 4.0) / 9)


def test_matting_is_zero_on_affine_functions_of_colours():
    image = images()["random"]
    x = (image @ [1.0, -2.0, 0.5] + 3.0).reshape(-1, 1)
    assert np.abs(MattingLaplacian(image, 2, 1e-9).apply(x)).max() < 1e-8


def test_restricted_operator_is_a_part_of_the_matrix():
    operator = MattingLaplacian(images()["random"], 1)
    kept = np.random.default_rng(0).random(72) < 0.7
    some = RestrictedOperator(operator, kept)
    x = np.random.default_rng(1).normal(size=(int(kept.sum()), 2))
    assert some.shape == (len(x), len(x))
    assert np.allclose(some.apply(x), operator.matrix().toarray()[np.ix_(kept, kept)] @ x)
    with pytest.raises(InvalidSampleError, match="kept has shape"):
        RestrictedOperator(operator, kept[:3])


@pytest.mark.parametrize(
    ("image", "options", "match", "error"),
    [
        (np.zeros((4, 9, 3)), dict(radius=2), "at most 1", InvalidSampleError),
        (np.zeros((2, 9, 3)), dict(radius=1), "more than the image", InvalidSampleError),
        (np.zeros((9, 9, 4)), {}, "has shape", InvalidSampleError),
        (np.full((9, 9), np.nan), {}, "not finite", InvalidSampleError),
        (np.zeros((9, 9)), dict(radius=0), "radius is 0", InvalidParameterError),
        (np.zeros((9, 9)), dict(epsilon=0.0), "epsilon is 0", InvalidParameterError),
    ],
)
def test_bad_images(image, options, match, error):
    with pytest.raises(error, match=match):
        MattingLaplacian(image, **options)
