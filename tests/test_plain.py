"""The plain loop, against one by hand in NumPy."""

from typing import Any

import numpy as np
import pytest

from asyncsgd_edu import Digits, Quadratic
from asyncsgd_edu.engines import optimizers, plain

pytestmark = pytest.mark.usefixtures("eight_devices")


@pytest.mark.parametrize("workers", [1, 3])
def test_it_is_gradient_descent_on_the_mean_of_the_batches(workers: int) -> None:
    bowl, rate = Quadratic([1.0, 0.2], noise=0.3), 0.1
    parameters, losses = plain.train_plainly(bowl, optimizers.make("SGD", rate), 20, seed=4, workers=workers)
    w, seen = np.ones(2), []
    for number in range(20):
        noise = np.mean([bowl.batch(worker, number, 4)[0].numpy()[0] for worker in range(workers)], axis=0)
        seen.append(0.5 * np.sum(bowl.curvatures * w**2) + 0.3 * noise @ w)
        w = w - rate * (bowl.curvatures * w + 0.3 * noise)
    np.testing.assert_allclose(parameters[0], w, rtol=1e-5)
    np.testing.assert_allclose(losses, seen, rtol=1e-5, atol=1e-6)
    assert losses.dtype == np.float32


def test_optimizers_have_their_settings() -> None:
    momentum = optimizers.make("SGD", 0.1, momentum=0.9)
    parameters, _ = plain.train_plainly(Quadratic(noise=0.0, dimension=1), momentum, 2)
    # 1 - 0.1 = 0.9, then a step of 0.9 * 0.1 + 0.1 * 0.9.
    assert parameters[0] == pytest.approx([0.72])
    parameters, _ = plain.train_plainly(Quadratic(noise=0.0, dimension=1), optimizers.make("Adam", 0.1), 1)
    assert parameters[0] == pytest.approx([0.9], rel=1e-5)  # Adam's first step is the learning rate.


def test_a_joined_batch_is_the_workers_in_order() -> None:
    problem = Digits("linear", batch_size=4)
    images, labels = plain.joined(problem, number=2, seed=1, workers=3)
    assert images.shape == (12, 64)
    for worker in range(3):
        one = problem.batch(worker, 2, 1)
        assert np.array_equal(images[4 * worker : 4 * worker + 4], one[0])
        assert np.array_equal(labels[4 * worker : 4 * worker + 4], one[1])


def test_a_gradient_is_that_of_its_batch() -> None:
    bowl = Quadratic([2.0, 1.0], noise=0.0)
    (found,) = plain.gradient(bowl, [np.array([3.0, 5.0], np.float32)], bowl.batch(0, 0, 0))
    assert found.tolist() == [6.0, 5.0]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"updates": 0}, "updates must be a whole number from 1"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"workers": 0}, "workers must be a whole number from 1 to 256, got 0"),
        ({"problem": "digits"}, "problem must be a problem such as"),
    ],
)
def test_bad_arguments_are_told(changed: dict[str, Any], sentence: str) -> None:
    given = {"problem": Quadratic(), "optimizer": optimizers.make("SGD", 0.1), "updates": 1} | changed
    with pytest.raises((TypeError, ValueError), match=sentence):
        plain.train_plainly(**given)
