"""Losses: means as Keras's own, targets brought into shape, what is right, and what does not fit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu.problems.keras_losses import MeanLoss

pytestmark = pytest.mark.usefixtures("eight_devices")
LABELS = np.array([0, 2, 1, 2])
ONE_HOT = np.eye(3, dtype=np.float32)[LABELS]
OUTPUT = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.2, 0.3], [0.2, 0.2, 0.6]], np.float32)  # 3 of 4 right


def squares(y, output):
    return tf.reduce_mean(tf.square(y - output), axis=-1)


@pytest.mark.parametrize(
    ("loss", "y", "output", "expected"),
    [
        ("sparse_categorical_crossentropy", LABELS, OUTPUT, -np.log([0.7, 0.6, 0.2, 0.6]).mean()),
        (keras.losses.CategoricalCrossentropy(), ONE_HOT, OUTPUT, -np.log([0.7, 0.6, 0.2, 0.6]).mean()),
        (keras.losses.CategoricalCrossentropy, ONE_HOT, OUTPUT, -np.log([0.7, 0.6, 0.2, 0.6]).mean()),
        ("mse", ONE_HOT, OUTPUT, np.square(ONE_HOT - OUTPUT).mean()),
        (keras.losses.MeanSquaredError(reduction=None), ONE_HOT, OUTPUT, np.square(ONE_HOT - OUTPUT).mean()),
        (squares, ONE_HOT, OUTPUT, np.square(ONE_HOT - OUTPUT).mean()),
        (lambda y, output: tf.reduce_max(tf.abs(y - output)), ONE_HOT, OUTPUT, np.abs(ONE_HOT - OUTPUT).max()),
    ],
)
def test_a_loss_is_the_mean_over_the_batch(loss, y, output, expected):
    mean = MeanLoss(loss)
    y = mean.fitted(y, (None, *output.shape[1:]))
    assert float(mean(tf.constant(y), tf.constant(output))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", ["mse", squares])
@pytest.mark.parametrize(("targets", "output"), [((4,), (None, 1)), ((4, 1), (None,)), ((4, 1), (None, 1))])
def test_a_place_of_length_one_never_makes_a_table_of_all_pairs(loss, targets, output):
    y, out = np.arange(4.0, dtype=np.float32).reshape(targets), np.zeros((4, *output[1:]), np.float32)
    mean = MeanLoss(loss)
    fitted = mean.fitted(y, output)
    assert fitted.shape == out.shape
    assert float(mean(tf.constant(fitted), tf.constant(out))) == pytest.approx(np.square(np.arange(4)).mean())


@pytest.mark.parametrize(
    ("loss", "y", "output", "share"),
    [
        ("sparse_categorical_crossentropy", LABELS, OUTPUT, 0.75),
        ("sparse_categorical_crossentropy", LABELS[:, None], OUTPUT, 0.75),
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), LABELS.astype(float), OUTPUT, 0.75),
        ("categorical_crossentropy", ONE_HOT, OUTPUT, 0.75),
        ("binary_crossentropy", np.array([1, 0, 1, 0]), np.array([[0.6], [0.1], [0.4], [0.7]], np.float32), 0.5),
        (
            keras.losses.BinaryCrossentropy(from_logits=True),
            np.array([1, 0, 1, 0]),
            np.array([[0.1], [-3.0], [0.2], [0.4]], np.float32),
            0.75,
        ),
    ],
)
def test_accuracy_is_the_share_that_is_right(loss, y, output, share):
    mean = MeanLoss(loss)
    y = mean.fitted(y, (None, *output.shape[1:]))
    assert float(mean.right(tf.constant(y), tf.constant(output))) == share


@pytest.mark.parametrize("loss", ["mse", squares, "kl_divergence"])
def test_other_losses_have_no_accuracy(loss):
    assert MeanLoss(loss).right(tf.constant(ONE_HOT), tf.constant(OUTPUT)) is None


def test_masked_steps_do_not_count_whether_the_loss_is_named_or_an_object():
    y = tf.constant([[0.0, 0.0], [0.0, 0.0]])
    output = tf.constant([[1.0, 9.0], [2.0, 9.0]])[..., None]
    masked = keras.layers.Masking(0.0)(tf.constant([[1.0, 0.0], [1.0, 0.0]])[..., None])
    output._keras_mask = masked._keras_mask
    for loss in ("mse", keras.losses.MeanSquaredError()):
        assert float(MeanLoss(loss)(y[..., None], output)) == pytest.approx((1 + 4) / 2)


def test_an_ignored_class_may_be_in_y():
    loss = MeanLoss(keras.losses.SparseCategoricalCrossentropy(ignore_class=-1))
    assert loss.fitted(np.array([0, -1, 2]), (None, 3)).tolist() == [0, -1, 2]


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: MeanLoss(None), TypeError, "loss must be given: a Keras loss"),
        (lambda: MeanLoss("crossentropy"), ValueError, "unknown loss 'crossentropy': Keras has 'mse'"),
        (lambda: MeanLoss(3), TypeError, "loss must be a Keras loss.* got 3"),
        (lambda: MeanLoss(keras.losses.MeanSquaredError(reduction="sum")), ValueError, "reduction='sum'"),
        (
            lambda: MeanLoss("mse").fitted(np.zeros((4, 2)), (None, 3)),
            ValueError,
            r"output \[samples, 3\], y \[samples, 2\]; mean_squared_error needs the same shape",
        ),
        (
            lambda: MeanLoss("categorical_crossentropy").fitted(LABELS, (None, 3)),
            ValueError,
            r"output \[samples, 3\], y \[samples\]; .* give 'sparse_categorical_crossentropy' for class numbers",
        ),
        (
            lambda: MeanLoss("sparse_categorical_crossentropy").fitted(ONE_HOT, (None, 3)),
            ValueError,
            "without its last place, a class number each",
        ),
        (
            lambda: MeanLoss("sparse_categorical_crossentropy").fitted(LABELS, (None, 2), "y of validation"),
            ValueError,
            "y of validation must hold whole numbers from 0 to 1, .* got 2 in sample 1",
        ),
        (
            lambda: MeanLoss("sparse_categorical_crossentropy").fitted(LABELS + 0.5, (None, 3)),
            ValueError,
            "whole numbers from 0 to 2, .* got 0.5 in sample 0",
        ),
        (
            lambda: MeanLoss(squares)(tf.zeros([4, 2]), tf.zeros([4, 3])),
            ValueError,
            r"loss squares cannot compare y of shape \(4, 2\) with an output of shape \(4, 3\): ",
        ),
    ],
)
def test_what_is_wrong_is_named(make, error, says):
    with pytest.raises(error, match=says):
        make()
