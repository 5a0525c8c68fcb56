"""Problems: the data that a number names, gradients against an independent formula, bad arguments."""

import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu import Digits, Problem, Quadratic, Rosenbrock
from asyncsgd_edu.problems.catalogue import PROBLEMS, make_problem

pytestmark = pytest.mark.usefixtures("eight_devices")
MODELS = ("linear", "mlp", "cnn")


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_batch_is_named_by_seed_worker_and_number(name):
    problem = make_problem(name)

    def draw(worker, number, seed):
        return [part.numpy() for part in problem.batch(worker, number, seed)]

    first = draw(1, 2, 3)
    assert all(np.array_equal(a, b) for a, b in zip(first, draw(1, 2, 3), strict=True))
    for other in (draw(2, 2, 3), draw(1, 3, 3), draw(1, 2, 4), draw(2, 1, 3)):
        assert not np.array_equal(first[0], other[0])
    assert all(len(part) == problem.batch_size for part in first)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_same_seed_gives_the_same_start(name):
    problem = make_problem(name)
    for a, b in zip(problem.initial(5), problem.initial(5), strict=True):
        assert a.dtype == np.float32
        assert np.array_equal(a, b)


def test_another_seed_gives_another_start():
    assert not np.array_equal(Digits("mlp").initial(0)[0], Digits("mlp").initial(1)[0])


def test_gradient_of_the_quadratic_is_its_formula():
    problem = Quadratic(curvatures=[1.0, 0.5, 2.0], noise=0.3)
    weights = np.array([1.0, -2.0, 0.5], np.float32)
    batch = problem.batch(0, 0, 0)
    loss, (gradient,) = problem.gradient([weights], batch)
    noise = batch[0].numpy()[0]
    np.testing.assert_allclose(gradient, [1.0, 0.5, 2.0] * weights + 0.3 * noise, rtol=1e-6)
    np.testing.assert_allclose(loss, 0.5 * (1 + 0.5 * 4 + 2 * 0.25) + 0.3 * noise @ weights, rtol=1e-6)
    assert problem.evaluate([weights])["loss"] == pytest.approx(1.75)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "problem",
    [*(Quadratic(curvatures=np.geomspace(0.1, 9, size)) for size in (1, 2, 20, 300)), Rosenbrock(a=1.3)],
    ids=lambda problem: f"{problem.name}-{problem.initial(0)[0].size}",
)
def test_losses_of_many_places_are_those_of_each_to_the_bit(problem, order):
    size, chance = problem.initial(0)[0].size, np.random.default_rng(0)
    places = chance.standard_normal((500, size)) * 10.0 ** chance.integers(-8, 9, (500, 1))
    places[::100] = [[np.inf], [np.nan], [1e200], [0.0], [-np.inf]]
    with np.errstate(over="ignore", invalid="ignore"):
        together = problem.losses([np.asarray(places, order=order)])
        one_by_one = Problem.losses(problem, [places])
    assert together.dtype == one_by_one.dtype == np.float64
    assert np.array_equal(together, one_by_one, equal_nan=True)
    assert len(np.unique(together)) > 400


def test_losses_of_a_problem_without_a_formula_are_its_evaluations():
    problem = Digits("linear")
    weights, bias = problem.initial(0)
    losses = problem.losses([np.stack([weights, 2 * weights]), np.stack([bias, bias + 1])])
    assert losses.tolist() == [problem.evaluate(at)["loss"] for at in ([weights, bias], [2 * weights, bias + 1])]
    with pytest.raises(ValueError, match="longer than"):
        problem.losses([weights[None], np.stack([bias, bias])])


def test_gradient_of_the_linear_digits_is_the_softmax_formula():
    problem = Digits("linear", batch_size=32)
    weights, bias = problem.initial(0)
    images, labels = (part.numpy() for part in problem.batch(0, 0, 0))
    _, (gradient, bias_gradient) = problem.gradient([weights, bias], (tf.constant(images), tf.constant(labels)))
    scores = np.exp(images @ weights + bias)
    error = scores / scores.sum(1, keepdims=True) - np.eye(10)[labels]
    np.testing.assert_allclose(gradient, images.T @ error / 32, atol=1e-6)
    np.testing.assert_allclose(bias_gradient, error.mean(0), atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_held_out_digits_are_never_trained_on(model):
    train, _, held_out, labels = Digits(model).arrays
    assert (len(train), len(held_out)) == (1437, 360)
    assert len(np.unique(np.concatenate([train, held_out]), axis=0)) == len(np.unique(train, axis=0)) + 360
    assert set(labels) == set(range(10))


def test_the_start_knows_nothing():
    assert Digits("linear").evaluate(Digits("linear").initial(0))["accuracy"] < 0.35


@pytest.mark.parametrize(
    ("make", "error", "names"),
    [
        (lambda: Digits("rnn"), ValueError, ["model", "'rnn'", "linear", "cnn"]),
        (lambda: Digits(batch_size=0), ValueError, ["batch_size", "0"]),
        (lambda: Digits(batch_size=2.5), TypeError, ["batch_size", "2.5"]),
        (lambda: Quadratic(curvatures=-1.0), ValueError, ["curvature", "-1.0"]),
        (lambda: Quadratic(curvatures=[1.0, float("nan")]), ValueError, ["curvature", "nan"]),
        (lambda: Quadratic(curvatures=[1.0, 2.0], dimension=3), ValueError, ["dimension", "2", "3"]),
        (lambda: Quadratic(curvatures=[]), ValueError, ["curvatures", "empty"]),
        (lambda: Quadratic(noise=-0.1), ValueError, ["noise", "-0.1"]),
        (lambda: make_problem("imagenet"), ValueError, ["problem", "'imagenet'", "digits-cnn"]),
    ],
)
def test_bad_arguments_are_named(make, error, names):
    with pytest.raises(error) as told:
        make()
    for name in names:
        assert name in str(told.value)
