"""Scales of features: what is scaled, what is left alone, what is warned of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.models.scaling import Scaling, collapsed, very_different_scales
from maxsum.storage.values import Reader, Writer

TABLES = arrays(np.float64, st.tuples(st.integers(2, 9), st.integers(1, 4)), elements=st.integers(-50, 50).map(float))
WEIGHTS = st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any)


def standard(*samples, weight=None):
    return Scaling.fit(list(samples), weight, "standard")


def stays(column):
    """Whether a column of a table is left as it is."""
    return len(np.unique(column)) == 1 or set(np.unique(column)) <= {0.0, 1.0}


@given(TABLES, st.sampled_from([1e-200, 1e-3, 1.0, 1e200]))
def test_columns_get_mean_0_and_deviation_1_at_any_scale(table, size):
    scaled = standard(size * table).apply(size * table)
    for own, before in zip(scaled.T, (size * table).T, strict=True):
        if stays(before):
            assert own.tolist() == before.tolist()
        else:
            assert abs(own.mean()) < 1e-9 and abs(own.std() - 1) < 1e-9


@given(TABLES, st.integers(0, 5))
def test_a_weight_of_2_is_the_sample_twice_and_0_is_without_it(table, seed):
    other = np.random.default_rng(seed).normal(size=table.shape)
    for kind in (np.asarray, sparse.csr_array):
        one, two = kind(table), kind(other)
        weighted, repeated = standard(one, two, weight=[2, 1]), standard(one, two, one)
        np.testing.assert_allclose(weighted.shift, repeated.shift, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(weighted.unit, repeated.unit, rtol=1e-12)
        without, alone = standard(one, two, weight=[0, 1]), standard(two)
        np.testing.assert_allclose(without.shift, alone.shift, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(without.unit, alone.unit, rtol=1e-12)
    rows = np.random.default_rng(seed).integers(0, 3, size=len(table))
    by_row, twice = standard(table, weight=[rows]), standard(np.repeat(table, rows, axis=0))
    np.testing.assert_allclose(by_row.shift, twice.shift, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(by_row.unit, twice.unit, rtol=1e-9)


@given(TABLES)
def test_sparse_features_keep_their_zeros_and_their_ones(table):
    bits = (table > 0).astype(float)
    both = sparse.csr_array(np.hstack([table, bits]))
    scaling = standard(both)
    scaled = scaling.apply(both)
    assert not scaling.shift.any() and scaled.indices.tolist() == both.indices.tolist()
    values, d = scaled.toarray(), table.shape[1]
    assert values[:, d:].tolist() == bits.tolist()
    for own in values[:, :d].T:
        assert not own.any() or abs((own[own != 0] ** 2).mean() - 1) < 1e-9
    assert (both.toarray()[:, :d] == table).all(), "the input has changed"


def test_images_are_tables_of_their_pixels():
    image = np.random.default_rng(0).normal(3.0, [1.0, 50.0], size=(4, 5, 2))
    flat = image.reshape(-1, 2)
    assert standard(image).unit.tolist() == standard(flat).unit.tolist()
    np.testing.assert_array_equal(standard(image).apply(image).reshape(-1, 2), standard(flat).apply(flat))


def test_bytes_become_fractions_and_can_be_left():
    images = [np.random.default_rng(j).integers(0, 256, size=(3, 4, 3), dtype=np.uint8) for j in range(2)]
    scaling = Scaling.fit(images)
    assert scaling.kind == "bytes"
    np.testing.assert_array_equal(scaling.apply(images[1]), images[1] / 255.0)
    assert Scaling.fit(images, scale=False).apply(images[0]) is images[0]
    dark = np.zeros((2, 2, 3), dtype=np.uint8)
    assert scaling.apply(dark).max() == 0 and Scaling.fit([dark, images[0]]).kind == "bytes"


@pytest.mark.parametrize(
    "left",
    [
        np.random.default_rng(0).integers(0, 2, size=(3, 4, 3), dtype=np.uint8),
        np.random.default_rng(0).integers(0, 256, size=(3, 4), dtype=np.uint8),
        np.random.default_rng(0).integers(0, 256, size=(3, 4, 3)),
        np.full((3, 2), 200.0),
        [{"word": "dog"}],
    ],
    ids=["masks", "codes", "int64", "floats", "dicts"],
)
def test_all_else_is_left_by_default(left):
    assert Scaling.fit([left]).kind == "none" and Scaling.fit([left]).apply(left) is left


def test_faults_name_what_was_found():
    byte, real = np.full((2, 2, 3), 9, dtype=np.uint8), np.full((2, 2, 3), 0.5)
    with pytest.raises(InvalidSampleError, match="1 of 2 images are uint8"):
        Scaling.fit([byte, real])
    with pytest.raises(InvalidSampleError, match="dtype float64, but the model was trained on uint8"):
        Scaling.fit([byte]).apply(real)
    with pytest.raises(InvalidSampleError, match=r"scales 3 columns; wanted \(..., 3\)"):
        Scaling.fit([byte]).apply(byte[..., :2])
    with pytest.raises(InvalidSampleError, match="list without columns"):
        Scaling.fit([byte]).apply([{"a": 1}])
    with pytest.raises(InvalidSampleError, match=r"\[2, 3\] features"):
        standard(np.ones((2, 2)), np.ones((2, 3)))
    with pytest.raises(InvalidSampleError, match="sparse, but the model was trained with dense"):
        standard(np.array([[1.0], [5.0]])).apply(sparse.csr_array([[1.0]]))
    with pytest.raises(InvalidParameterError, match="codes or dicts"):
        standard([{"a": 1.0}])
    with pytest.raises(InvalidParameterError, match="scale is True"):
        Scaling.fit([real], scale=True)
    for shift, unit in (([0.0], [0.0]), ([0.0], [1.0, 1.0]), ([np.nan], [1.0]), ([[0.0]], [[1.0]])):
        with pytest.raises(InvalidParameterError, match="shift and unit"):
            Scaling("standard", np.array(shift), np.array(unit))


def test_files_hold_it():
    scaling = standard(np.array([[1.0, 7.0], [4.0, 9.0]]))
    writer = Writer()
    text = writer.value(scaling, "scaling_")
    again = Reader(writer.arrays).value(text)
    assert isinstance(again, Scaling) and again.kind == "standard"
    assert again.shift.tolist() == scaling.shift.tolist() and again.unit.tolist() == scaling.unit.tolist()
    text["fields"]["kind"] = "other"
    with pytest.raises(ValueError, match="kind of a Scaling"):
        Reader(writer.arrays).value(text)


def test_scales_are_warned_of_with_what_was_found():
    random = np.random.default_rng(0)
    table = random.random((20, 3))
    assert very_different_scales([table]) is None and very_different_scales([]) is None
    words = very_different_scales([table * [1, 1, 1e4], table])
    assert "column 2 of the features has values up to " in words and "scale='standard'" in words
    assert "and column 0 up to" in words or "and column 1 up to" in words
    largest = (table * [1, 1, 1e4]).max()
    assert f"up to {largest:.3g}" in words
    assert "beside the 1 of biases" in very_different_scales([255 * table])
    assert "beside the 1 of biases" in very_different_scales([table / 1000])
    assert very_different_scales([np.hstack([table, np.full((20, 1), 1e6)])]) is None, "a constant column"
    assert very_different_scales([sparse.csr_array(1e6 * table)]) is None
    assert very_different_scales([(255 * table).astype(np.uint8).reshape(4, 5, 3)]) is not None
    assert very_different_scales([standard(table * [1, 1, 1e4]).apply(table * [1, 1, 1e4])]) is None


@settings(max_examples=50)
@given(TABLES)
def test_standard_scales_are_never_warned_of(table):
    assert very_different_scales([standard(table).apply(table)]) is None


def test_one_answer_for_all_is_warned_of():
    words = collapsed([np.zeros(3, int), np.zeros(2, int)], [np.array([0, 0, 1]), np.array([2, -1])], ["O", "B", "I"])
    assert "predicts label 'O', which is right for 50 % of 4; the truth has 3" in words and "Raise C" in words
    assert collapsed([[0, 1]], [[0, 1]]) is None
    assert collapsed([[0, 0]], [[0, 0]]) is None and collapsed([[1, 1]], [[0, -1]]) is None and collapsed([], []) is None
    assert "right for 0 %" in collapsed([[2, 2]], [[0, 1]])


def test_rows_of_a_table_are_one_label():
    truth = np.array([[0, 1], [0, 0], [0, 0], [-1, 1]])
    assert "the label set [0, 0], which is right for 66.7 % of 3" in collapsed([np.zeros((4, 2), int)], [truth])
    assert collapsed([truth], [truth]) is None


def test_predictions_are_read_until_two_differ():
    def answers():
        yield [0, 0]
        yield [0, 1]
        raise AssertionError("more was asked for")

    assert collapsed(answers(), [[0, 1]] * 3) is None
