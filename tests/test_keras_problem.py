"""Bring your own model: it trains as Keras trains it, replays bit for bit, and what cannot work is said at once."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu import AsyncTrainer, TowerTrainer, replay
from asyncsgd_edu.problems.keras_problem import KerasProblem

pytestmark = pytest.mark.usefixtures("eight_devices")
layers = keras.layers
X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(np.int64)


@pytest.fixture(autouse=True)
def same_weights_each_time():
    keras.utils.set_random_seed(0)


def sequential(*parts, shape=(6,), **settings):
    return keras.Sequential([keras.Input(shape), *parts], **settings)


def dropping():
    return sequential(layers.Dense(8, "relu"), layers.Dropout(0.5), layers.Dense(2, "softmax"))


def normalising():
    dense = layers.Dense(8, "relu", kernel_regularizer=keras.regularizers.L2(0.01))
    return sequential(dense, layers.BatchNormalization(), layers.Dense(2, "softmax"))


def problem_of(model, **settings):
    return KerasProblem(model, X, Y, "sparse_categorical_crossentropy", batch_size=8, **settings)


def same(one, other):
    return np.array_equal(one.loss, other.loss) and all(
        np.array_equal(a, b) for a, b in zip(one.parameters, other.parameters, strict=True)
    )


@pytest.mark.parametrize("make", [dropping, normalising])
def test_threads_and_towers_are_replayed_bit_for_bit(make):
    model = make()
    before = [variable.numpy() for variable in model.variables]
    problem = problem_of(model)
    trainer = AsyncTrainer(problem, workers=2, seed=1)
    trace = trainer.fit(updates=40)
    assert trace.audit() == []
    assert same(trace, replay(trace, problem))
    assert not np.array_equal(trace.parameters[0], problem.initial(1)[0])
    towers = TowerTrainer(problem, towers=2, optimizer=keras.optimizers.Adam(0.01)).fit(updates=20)
    assert same(towers, replay(towers, problem, keras.optimizers.Adam(0.01)))
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, model.variables, strict=True))


def test_one_worker_trains_as_keras_does():
    """Nothing of the package's in the other run: Keras's own step, on the same batches."""
    model = normalising()
    problem = problem_of(model)
    trainer = AsyncTrainer(problem, workers=1, seed=3)
    trace = trainer.fit(updates=10)
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss="sparse_categorical_crossentropy")
    losses = [model.train_on_batch(*(part.numpy() for part in problem.batch(0, n, 3))) for n in range(10)]
    for ours, theirs in zip(trainer.parameters, model.trainable_variables, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trace.loss, losses, rtol=1e-5)


def test_a_result_goes_into_the_model_which_then_scores_as_the_trainer_does():
    model = normalising()
    problem = problem_of(model)
    trainer = AsyncTrainer(problem, workers=2)
    trainer.fit(updates=60)
    scores = trainer.evaluate()
    model.set_weights(problem.weights(trainer.parameters))
    model.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    loss, accuracy = model.evaluate(*problem.arrays[2:], verbose=0)
    assert scores == pytest.approx({"loss": loss, "accuracy": accuracy}, rel=1e-5)
    assert scores["loss"] < problem.evaluate(problem.initial(0))["loss"]


def test_statistics_are_those_of_the_first_training_samples_in_whole_batches():
    problem = problem_of(sequential(layers.BatchNormalization(), layers.Dense(2, "softmax")), held_out=0.5)
    weights = problem.weights(problem.initial(0))
    seen = problem.arrays[0][:96]  # 100 samples, batches of 8.
    np.testing.assert_allclose(weights[2], seen.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(weights[3], seen.var(axis=0), rtol=1e-4)


def test_the_start_is_the_model_as_it_was_given_whatever_the_seed():
    model = dropping()
    before = model.get_weights()
    problem = problem_of(model)
    model.set_weights([value + 1 for value in before])
    for seed in (0, 7):
        assert all(np.array_equal(a, b) for a, b in zip(problem.initial(seed), before, strict=True))
    problem.initial(0)[0][:] = 9
    assert np.array_equal(problem.initial(0)[0], before[0])
    assert problem.describe()["fingerprint"] != problem_of(model).describe()["fingerprint"]


def test_a_batch_and_what_is_dropped_in_it_are_named_by_seed_worker_and_number():
    model = sequential(layers.Dropout(0.5), layers.Dense(1, use_bias=False, kernel_initializer="ones"))
    problem = KerasProblem(model, np.ones((50, 6)), np.zeros(50), "mse", batch_size=4)

    def loss(*name):  # All samples are alike, so it differs by what is dropped only.
        return float(problem.loss(problem.initial(0), problem.batch(*name)))

    assert [len(part) for part in problem.batch(1, 2, 3)] == [4, 4, 4]
    assert len({loss(w, n, s) for w in range(3) for n in range(3) for s in range(3)}) > 9
    assert loss(1, 2, 3) == loss(1, 2, 3)
    rows = problem_of(dropping())
    assert all(np.array_equal(a, b) for a, b in zip(rows.batch(1, 2, 3), rows.batch(1, 2, 3), strict=True))
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert not np.array_equal(rows.batch(1, 2, 3)[0], rows.batch(*other)[0])


def test_held_out_samples_are_never_trained_on_and_keep_their_targets():
    problem = problem_of(dropping(), held_out=0.25, split_seed=4)
    x, y, held_x, held_y = problem.arrays
    assert len(held_x) == 50
    assert len(np.unique(np.concatenate([x, held_x]), axis=0)) == 200
    assert np.array_equal((held_x[:, 0] + held_x[:, 1] ** 2 > 0.5), held_y)
    drawn = np.concatenate([problem.batch(w, n, 0)[0] for w in range(4) for n in range(20)])
    assert {row.tobytes() for row in drawn} <= {row.tobytes() for row in x}
    assert len(y) == 150


def test_validation_takes_the_place_of_the_split_and_the_callers_arrays_stay_theirs():
    x, other = X.copy(), X[:20] + 1
    problem = KerasProblem(dropping(), x, Y, "sparse_categorical_crossentropy", validation=(other, Y[:20]))
    x[:], other[:] = 0, 0
    assert np.array_equal(problem.arrays[0], X)
    assert np.array_equal(problem.arrays[2], X[:20] + 1)
    with pytest.raises(ValueError, match="read-only"):
        problem.arrays[0][:] = 0
    datasets = [tf.data.Dataset.from_tensor_slices(pair).batch(16) for pair in ((X, Y), (X[:20] + 1, Y[:20]))]
    again = KerasProblem(
        dropping(), datasets[0], loss="sparse_categorical_crossentropy", validation=datasets[1], batch_size=32
    )
    for ours, theirs in zip(again.arrays, problem.arrays, strict=True):
        assert np.array_equal(ours, theirs)


class Sums(keras.Model):
    """A subclassed model with an embedding, whose gradient Keras makes sparse."""

    def __init__(self):
        super().__init__()
        self.embed, self.last = layers.Embedding(12, 3), layers.Dense(1)

    def call(self, x):
        return self.last(tf.reduce_sum(self.embed(x), axis=1))


def test_a_subclassed_regression_on_whole_numbers_has_a_dense_gradient_that_replays():
    words = np.random.default_rng(1).integers(0, 12, size=(100, 4))
    problem = KerasProblem(Sums(), words, words.sum(axis=1) / 20.0, keras.losses.MeanSquaredError(), batch_size=8)
    batch = problem.batch(0, 0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss, gradient = problem.gradient(problem.initial(0), batch)
    embed, kernel, bias = problem.initial(0)
    x, y = (part.numpy() for part in batch)
    error = (
        embed[x].sum(axis=1) @ kernel + bias - y[:, None] if y.ndim == 1 else embed[x].sum(axis=1) @ kernel + bias - y
    )
    expected = np.zeros_like(embed)
    for row, wrong in zip(x, error, strict=True):
        np.add.at(expected, row, 2 * wrong * kernel[:, 0] / len(x))
    np.testing.assert_allclose(loss, np.square(error).mean(), rtol=1e-5)
    np.testing.assert_allclose(gradient[0], expected, rtol=1e-4, atol=1e-6)
    assert set(problem.evaluate(problem.initial(0))) == {"loss"}
    trace = AsyncTrainer(problem, workers=2).fit(updates=20)
    assert same(trace, replay(trace, problem))


def test_all_samples_count_in_an_evaluation_of_many_calls():
    x = np.arange(600.0)[:, None] / 600
    model = sequential(layers.Dense(1, use_bias=False, kernel_initializer="ones"), shape=(1,))
    problem = KerasProblem(model, x, np.zeros(600), "mse", validation=(x, np.zeros(600)))
    assert problem.evaluate(problem.initial(0))["loss"] == pytest.approx(np.square(x).mean(), rel=1e-5)


class Deciding(keras.Model):
    """Looks at the data to decide what to do, which a graph cannot."""

    def __init__(self):
        super().__init__(name="fickle")
        self.dense = layers.Dense(2)

    def call(self, x):
        return self.dense(x) if tf.reduce_sum(x) > 0 else -self.dense(x)


class Dice(layers.Layer):
    """Adds what `throw` gives, of which Keras knows nothing."""

    def __init__(self, throw, **settings):
        super().__init__(**settings)
        self.throw = throw

    def call(self, x):
        return x + self.throw()


def diced(throw):
    return sequential(Dice(throw, name="dice"), layers.Dense(2, "softmax"), name="game")


def remembering():
    calls = iter(range(100))
    return diced(lambda: float(next(calls)))


def whole(x):
    return sequential(layers.Lambda(lambda v: tf.reduce_sum(v)[None, None]), layers.Dense(2))


def sparse(model, x=X, y=Y, **settings):
    return KerasProblem(model, x, y, "sparse_categorical_crossentropy", **settings)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: KerasProblem(dropping(), X, Y), TypeError, "loss must be given"),
        (lambda: KerasProblem(dropping(), X, Y, "crossentropy"), ValueError, "unknown loss 'crossentropy'"),
        (lambda: KerasProblem(dropping(), X, Y, "mse"), ValueError, r"output \[samples, 2\], y \[samples\]"),
        (lambda: sparse(dropping(), y=Y + 1), ValueError, "y must hold whole numbers from 0 to 1, .* got 2 in sample"),
        (
            lambda: sparse(dropping(), validation=(X, Y * 5)),
            ValueError,
            "y of validation must hold whole numbers from 0 to 1",
        ),
        (lambda: sparse(dropping(), validation=(X[:, :3], Y)), ValueError, r"\(200, 6\), as x .* got \(200, 3\)"),
        (lambda: sparse(dropping(), validation=3), TypeError, "validation must be a pair"),
        (lambda: sparse(dropping(), validation=(X, Y), held_out=0.1), ValueError, "do nothing beside validation"),
        (lambda: sparse(dropping(), x=X[:, :5]), ValueError, r"cannot be computed for x of shape \(None, 5\)"),
        (lambda: sparse(dropping(), y=Y[:-1]), ValueError, "of one length, got 200 and 199"),
        (lambda: sparse(dropping(), batch_size=161), ValueError, "160 samples to train on, .* from 1 to 160, got 161"),
        (lambda: sparse(dropping(), batch_size=0), ValueError, "batch_size.* got 0"),
        (lambda: sparse(Deciding()), ValueError, "model 'fickle' cannot be computed .* in a graph: "),
        (lambda: sparse(whole(X)), ValueError, "must give an output for each sample"),
        (lambda: sparse(diced(lambda: tf.random.normal([]))), ValueError, "model 'game' cannot .* game\\w*/dice\\w*/"),
        (lambda: sparse(diced(lambda: keras.random.normal([]))), ValueError, "dice\\w*/.* Keras's global random state"),
        (lambda: sparse(diced(np.random.default_rng(0).random)), ValueError, "game\\w*/dice\\w*/.* Python or NumPy"),
        (lambda: sparse(remembering()), ValueError, "game\\w*/dice\\w*/.* Python or NumPy"),
        (
            lambda: sparse(diced(lambda: tf.cast(tf.constant(1.0, tf.bfloat16), tf.float32))),
            ValueError,
            "game\\w*/dice\\w*/.* is of bfloat16; everything has to be float32",
        ),
        (
            lambda: KerasProblem(dropping(), X, np.zeros((200, 3)), lambda y, output: y - output, held_out=0.2),
            ValueError,
            r"loss <lambda> cannot compare y of shape \(32, 3\) with an output of shape \(32, 2\)",
        ),
    ],
)
def test_what_cannot_work_is_said_when_the_problem_is_made(make, error, says):
    with pytest.raises(error, match=says):
        make()
