"""Keras models as functions: random by a named seed, batch normalisation without moving state, refusals that name."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu.problems.keras_model import StatelessModel

pytestmark = pytest.mark.usefixtures("eight_devices")
layers = keras.layers
X = np.random.default_rng(0).normal(1.0, 2.0, size=(32, 4)).astype(np.float32)
SEED = np.array([5, 7], np.int64)  # Not a tensor: TensorFlow must not start while tests are collected.


@pytest.fixture(autouse=True)
def same_weights_each_time():
    keras.utils.set_random_seed(0)


def sequential(*parts, shape=(4,), **settings):
    return keras.Sequential([keras.Input(shape), *parts], **settings)


def train(model, seed=SEED, x=X):
    return [
        part.numpy() for part in model.train(model.start, tf.constant(x), seed if seed is None else tf.constant(seed))
    ]


class Plain(keras.Model):
    """A subclassed model whose call knows of no `training`."""

    def __init__(self):
        super().__init__()
        self.dense, self.dropout = layers.Dense(4), layers.Dropout(0.5)

    def call(self, x):
        return self.dropout(self.dense(x))


class Doubled(keras.Model):
    """The same batch normalisation twice."""

    def __init__(self):
        super().__init__()
        self.norm, self.dense = layers.BatchNormalization(momentum=0.5), layers.Dense(4)

    def call(self, x):
        return self.norm(self.dense(self.norm(x)))


class Idle(keras.Model):
    """Has a batch normalisation that it does not use, and one that is not even built."""

    def __init__(self):
        super().__init__()
        self.used, self.unused, self.unbuilt = (layers.BatchNormalization(momentum=0.5) for _ in range(3))
        self.unused.build((None, 4))

    def call(self, x):
        return self.used(x)


def functional():
    x = keras.Input((4,))
    return keras.Model(x, layers.Dropout(0.5)(layers.Dense(4)(x)))


@pytest.mark.parametrize("make", [lambda: sequential(layers.Dense(4), layers.Dropout(0.5)), functional, Plain])
def test_what_is_random_is_named_by_its_seed_in_every_kind_of_model(make):
    model = StatelessModel(make(), X)
    assert model.random
    output, penalty = train(model)
    assert penalty == 0
    kept = X @ model.start[0] + model.start[1]
    dropped = output == 0
    assert 0.2 < dropped.mean() < 0.8
    np.testing.assert_allclose(output[~dropped], 2 * kept[~dropped], rtol=1e-5, atol=1e-5)
    assert np.array_equal(output, train(model)[0])
    assert not np.array_equal(output, train(model, SEED + 1)[0])
    evaluated, _ = model.evaluate(model.start, tf.constant(X), SEED, [])
    np.testing.assert_allclose(evaluated, kept, rtol=1e-5, atol=1e-5)


def test_two_layers_do_not_drop_the_same_and_their_own_seeds_play_no_part():
    x = keras.Input((4,))
    outputs = []
    for seeds in ((1, 1), (2, 3)):
        parts = [layers.Dropout(0.5, seed=seed)(layers.Dense(4, kernel_initializer="ones")(x)) for seed in seeds]
        outputs.append(train(StatelessModel(keras.Model(x, layers.Concatenate()(parts)), X))[0])
    assert np.array_equal(*outputs)
    assert not np.array_equal(outputs[0][:, :4] == 0, outputs[0][:, 4:] == 0)


def test_layers_that_draw_without_dropping_are_named_by_the_seed_too():
    images = np.random.default_rng(1).random((3, 6, 6, 1)).astype(np.float32)
    parts = [layers.RandomFlip(), layers.RandomRotation(0.2), layers.GaussianNoise(0.1), layers.Conv2D(2, 3)]
    model = StatelessModel(sequential(*parts, shape=(6, 6, 1)), images)
    first = train(model, x=images)[0]
    assert np.array_equal(first, train(model, x=images)[0])
    assert not np.array_equal(first, train(model, SEED + 1, images)[0])


def test_a_model_that_draws_wants_a_seed():
    with pytest.raises(ValueError, match=r"layers of model .* draw random numbers: a batch of it is \(x, y, seeds\)"):
        train(StatelessModel(functional(), X), None)


def test_weight_decay_and_other_losses_of_layers_are_the_penalty():
    dense = layers.Dense(
        3, kernel_regularizer=keras.regularizers.L2(0.5), activity_regularizer=keras.regularizers.L1(0.1)
    )
    model = StatelessModel(sequential(dense), X)
    output, penalty = train(model)
    expected = 0.5 * np.square(model.start[0]).sum() + 0.1 * np.abs(output).sum() / len(X)
    assert penalty == pytest.approx(expected, rel=1e-5)


@pytest.mark.filterwarnings("ignore:.build... was called on layer 'idle'")  # Keras says that of what is idle in it.
@pytest.mark.parametrize(
    "make",
    [
        lambda: sequential(layers.Dense(4), layers.BatchNormalization(momentum=0.5)),
        lambda: sequential(
            layers.BatchNormalization(momentum=0.5), layers.Dense(4), layers.BatchNormalization(momentum=0.5)
        ),
        lambda: sequential(sequential(layers.Dense(3), layers.BatchNormalization(momentum=0.5)), layers.Dense(1)),
        Doubled,
        Idle,
    ],
    ids=["one", "two", "nested", "one used twice", "one of three used"],
)
def test_statistics_are_those_that_keras_comes_to_on_the_same_batch(make):
    own = make()
    model = StatelessModel(own, X)
    found = [part.numpy() for part in model.gather(model.start, tf.constant(X), None)]
    weights = model.weights(model.start, found)
    for _ in range(40):
        own(X, training=True)  # Moves the averages half of the way each time.
    for ours, theirs in zip(weights, own.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    evaluated, _ = model.evaluate(model.start, tf.constant(X), None, found)
    np.testing.assert_allclose(evaluated, own(X, training=False), rtol=1e-4, atol=1e-4)


def test_a_frozen_layer_keeps_what_it_has():
    norm = layers.BatchNormalization(trainable=False)
    own = sequential(norm, layers.Dense(1, use_bias=False))
    norm.moving_mean.assign([1.0, 2.0, 3.0, 4.0])
    model = StatelessModel(own, X)
    assert model.statistics == []
    assert len(model.start) == 1
    expected = (X - [1, 2, 3, 4]) / np.sqrt(1 + norm.epsilon) @ model.start[0]
    np.testing.assert_allclose(train(model, None)[0], expected, rtol=1e-4, atol=1e-4)


def test_the_model_itself_is_only_read():
    own = sequential(layers.Dense(4), layers.Dropout(0.5), layers.BatchNormalization())
    before = [variable.numpy() for variable in own.variables]
    model = StatelessModel(own, X)
    other = [value + 1 for value in model.start]
    model.train(other, tf.constant(X), SEED)
    model.gather(other, tf.constant(X), SEED)
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, own.variables, strict=True))
    own.set_weights([value + 1 for value in own.get_weights()])
    assert np.array_equal(model.start[0], before[0])


def test_weights_go_back_into_the_model_in_its_own_order():
    own = sequential(layers.BatchNormalization(), layers.Dense(2), layers.Dropout(0.5))
    model = StatelessModel(own, X)
    values = [np.full_like(value, number) for number, value in enumerate(model.start)]
    own.set_weights(model.weights(values, [np.full(4, 8.0, np.float32), np.full(4, 9.0, np.float32)]))
    assert [variable.numpy().flat[0] for variable in own.trainable_variables] == [0, 1, 2, 3]
    assert own.layers[0].moving_mean.numpy().tolist() == [8.0] * 4
    assert own.layers[0].moving_variance.numpy().tolist() == [9.0] * 4
    with pytest.raises(ValueError, match="has 4 trainable weights, got 3 parameters"):
        model.weights(values[:3], [])
    with pytest.raises(ValueError, match=r"dense\w*/bias' has shape \(2,\), got \(3,\)"):
        model.weights([*values[:3], np.zeros(3)], [])


def elsewhere(make):
    made = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join()
    return made[0]


def ones():
    return sequential(layers.Dense(4, kernel_initializer="ones"), layers.Dropout(0.5))


def test_a_model_from_another_thread_is_as_good_and_may_be_computed_on_any():
    theirs, ours = StatelessModel(elsewhere(ones), X), StatelessModel(ones(), X)
    assert np.array_equal(train(theirs)[0], train(ours)[0])
    assert np.array_equal(elsewhere(lambda: train(ours)[0]), train(ours)[0])


def in_a_graph():
    with tf.Graph().as_default():
        return ones()


class Counting(layers.Layer):
    """Remembers how often it was called, in a weight of its own."""

    def build(self, _):
        self.count = self.add_weight(name="count", shape=(), trainable=False)

    def call(self, x):
        return x * self.count.assign_add(1.0)


class Broken(keras.Model):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.dense = layers.Dense(1)

    def call(self, x, training=False):
        if training:
            raise ArithmeticError("nothing works")
        return self.dense(x)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: "model", TypeError, "model must be a model of Keras 3.* got 'model'"),
        (lambda: layers.Dense(3), TypeError, "model must be a model of Keras 3"),
        (lambda: sequential(layers.Flatten(), name="flat"), ValueError, "'flat' has no trainable weights"),
        (
            lambda: sequential(layers.Dense(2, name="wide", dtype="float64")),
            TypeError,
            "wide/kernel' must be .* got float64",
        ),
        (lambda: sequential(layers.Dense(2, kernel_constraint="non_neg")), ValueError, "kernel' .* constraint NonNeg"),
        (
            lambda: sequential(layers.Dense(2, dtype="mixed_float16", name="low"), name="mixed"),
            TypeError,
            "layer 'low' of model 'mixed' must compute in float32, got float16",
        ),
        (
            lambda: keras.Sequential([layers.Conv2D(2, 3)], name="pictures"),
            ValueError,
            r"'pictures' is not built and cannot be built from x of shape \(32, 4\): .*ndim",
        ),
        (lambda: sequential(Counting(), layers.Dense(1)), ValueError, "changes '.*counting.*/count' while it trains"),
        (lambda: sequential(layers.SpectralNormalization(layers.Dense(1))), ValueError, "/vector_u' while it trains"),
        (
            lambda: sequential(layers.Dense(1), layers.BatchNormalization(momentum=1.0)),
            ValueError,
            "/moving_mean' while it trains",
        ),
        (
            lambda: sequential(layers.Dense(1), layers.BatchNormalization(renorm=True)),
            ValueError,
            "/moving_stddev' while it trains",
        ),
        (lambda: Broken(name="odd"), ValueError, r"'odd' cannot be computed for x of shape \(32, 4\).* nothing works"),
        (in_a_graph, ValueError, "kernel' has no value here: make the model outside of any tf.Graph"),
        (
            lambda: keras.Model(x := keras.Input((4,)), [layers.Dense(1)(x), layers.Dense(2)(x)]),
            TypeError,
            "must have one tensor as its output, got list",
        ),
    ],
)
def test_what_is_wrong_is_named(make, error, says):
    with pytest.raises(error, match=says):
        train(StatelessModel(make(), X))


def test_a_start_that_is_not_finite_is_named():
    own = sequential(layers.Dense(1, name="last"))
    own.layers[-1].bias.assign([np.nan])
    with pytest.raises(ValueError, match="last/bias' must be finite"):
        StatelessModel(own, X)
