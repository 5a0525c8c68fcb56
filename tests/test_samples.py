"""Samples: what is taken as arrays or as a dataset, and what is refused before anything is built."""

import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu.problems import samples as module
from asyncsgd_edu.problems.samples import Samples, samples, split

pytestmark = pytest.mark.usefixtures("eight_devices")
X, Y = np.arange(20.0).reshape(10, 2), np.arange(10)


def pairs(x=X, y=Y):
    return tf.data.Dataset.from_tensor_slices((x, y))


def test_floats_become_float32_and_other_numbers_stay():
    found = samples(X.tolist(), Y.astype(np.uint8))
    assert found.x.dtype == np.float32
    assert found.y.dtype == np.uint8
    assert np.array_equal(found.x, X)


@pytest.mark.parametrize("size", [1, 3, 10, 50])
def test_a_dataset_of_batches_is_read_through_in_order(size):
    found = samples(pairs().batch(size))
    assert np.array_equal(found.x, X)
    assert np.array_equal(found.y, Y)


def test_a_dataset_of_unknown_length_is_taken_up_to_the_limit_and_no_further(monkeypatch):
    dataset = pairs().filter(lambda _, y: y >= 0).batch(2)
    assert dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY
    each = 2 * (2 * 8 + 8)
    monkeypatch.setattr(module, "MOST_BYTES", 5 * each)
    assert len(samples(dataset).x) == 10
    monkeypatch.setattr(module, "MOST_BYTES", 3 * each)
    with pytest.raises(ValueError, match=r"all of it must fit into memory: give dataset.take\(3\)"):
        samples(dataset)


@pytest.mark.parametrize("count", [2, 7, 100])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.66])
def test_a_split_loses_nothing_and_is_that_of_its_seed(count, share):
    both = Samples(np.arange(count) * 2.0, np.arange(count))
    train, held_out = split(both, share, 3)
    assert sorted([*train.y, *held_out.y]) == list(range(count))
    assert len(held_out.y) == max(1, round(share * count))
    for part in (train, held_out):
        assert np.array_equal(part.x, 2.0 * part.y)
    assert np.array_equal(split(both, share, 3)[0].y, train.y)
    if count == 100:
        assert not np.array_equal(split(both, share, 4)[0].y, train.y)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: samples(X, Y[:9]), ValueError, "x and y must be of one length, got 10 and 9"),
        (lambda: samples(X), TypeError, "y must be an array"),
        (lambda: samples(X[:0], Y[:0]), ValueError, r"x must hold at least one sample, got shape \(0, 2\)"),
        (lambda: samples(np.where(X == 7, np.nan, X), Y), ValueError, "x must be finite.*nan in sample 3, 1 such"),
        (lambda: samples(X, np.where(Y == 4, 1e300, Y)), ValueError, "y must be finite, as float32: inf in sample 4"),
        (lambda: samples(X, [str(y) for y in Y], " of validation"), TypeError, "y of validation must be one array"),
        (lambda: samples({"a": X}, Y), TypeError, "x must be one array of numbers, got dict"),
        (lambda: samples([X, X[:, 0]], Y), TypeError, "x must be an array of numbers: "),
        (lambda: samples(3.0, Y), TypeError, "x must be one array of numbers, got float"),
        (lambda: samples(pairs().batch(2), Y), ValueError, "y must be None beside a dataset"),
        (lambda: samples(pairs().batch(2).repeat()), ValueError, "dataset without end: give dataset.take"),
        (lambda: samples(pairs()), ValueError, r"dataset of batches.*give dataset.batch\(32\)"),
        (lambda: samples(pairs(X, np.eye(10))), ValueError, r"x of shape \(2,\) and y of shape \(10,\)"),
        (lambda: samples(pairs().batch(2).map(lambda x, _: x)), TypeError, "pairs"),
        (lambda: samples(pairs().batch(2).map(lambda x, y: (x, y, y))), TypeError, "pairs"),
        (lambda: samples(pairs().batch(2).take(0)), ValueError, "the dataset is empty"),
        (lambda: split(Samples(X, Y), 0, 0), ValueError, "held_out must be a share above 0 and below 1, got 0"),
        (lambda: split(Samples(X, Y), 1.0, 0), ValueError, "held_out .* got 1.0"),
        (lambda: split(Samples(X, Y), "0.2", 0), TypeError, "held_out .* got '0.2'"),
        (lambda: split(Samples(X, Y), 0.99, 0), ValueError, "leaves nothing to train on of 10 samples"),
        (lambda: split(Samples(X, Y), 0.2, -1), ValueError, "split_seed .* got -1"),
    ],
)
def test_what_is_wrong_is_named(make, error, says):
    with pytest.raises(error, match=says):
        make()
