"""A bent valley in two dimensions: the problem whose path can be drawn."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.problems.problem import Batch, Problem
from asyncsgd_edu.problems.randomness import batch_seed
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import positive_number

LARGEST = 1e30


class Rosenbrock(Problem):
    """Loss (a - x)^2 + b (y - x^2)^2, with gradient noise of standard deviation `noise` (Rosenbrock 1960).

    The parameters are one vector (x, y). The minimum is (a, a^2), in a valley along y = x^2 that is
    the steeper the larger b is. A batch is one noise vector z, of shape [1, 2]: the minibatch loss has
    the extra term noise * z.(x, y), so its gradient has noise * z.

    Plain SGD from (-1.2, 1) with b = 100 is stable at a learning rate of 0.001, far below what other
    problems take, and is near the minimum after some 10,000 updates; b = 1 is stable at 0.05.
    Stale gradients need smaller ones.

    >>> Rosenbrock().evaluate([np.array([1.0, 1.0])])
    {'loss': 0.0, 'distance': 0.0}
    """

    name = "rosenbrock"
    batch_size = 1

    def __init__(
        self, a: float = 1.0, b: float = 100.0, noise: float = 0.0, start: Sequence[float] = (-1.2, 1.0)
    ) -> None:
        self.a = _number("a", a)
        self.b = _number("b", positive_number("b", b))
        self.noise = positive_number("noise", noise, zero=True)
        if not isinstance(start, Sequence | np.ndarray) or len(start) != 2:
            raise TypeError(f"start must be two numbers (x, y), got {start!r}")
        self.start = (_number("x of start", start[0]), _number("y of start", start[1]))
        steepest = max(self.evaluate([np.array(self.start)])["loss"], abs(self._across(*self.start)))
        if steepest > LARGEST:
            raise ValueError(
                f"loss and curvature at the start must be at most {LARGEST:g}, as float32 holds no more: "
                f"a {self.a:g}, b {self.b:g} and start {self.start} give {steepest:g}"
            )

    def initial(self, seed: int) -> list[np.ndarray]:
        """The start as one vector, shape [2]; the seed plays no part."""
        return [np.array(self.start, np.float32)]

    def batch(self, worker: tf.Tensor | int, number: tf.Tensor | int, seed: int) -> Batch:
        """One standard normal vector, shape [1, 2]."""
        return (tf.random.stateless_normal([1, 2], batch_seed(seed, worker, number)),)

    def loss(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tf.Tensor:
        """(a - x)^2 + b (y - x^2)^2 + noise * mean over the batch of z.(x, y)."""
        (point,) = parameters
        x, y = point[0], point[1]
        tilt = self.noise * tf.reduce_mean(batch[0], axis=0)
        # One sum: of three terms added one by one a graph adds the last first, and eager code does not.
        return tf.reduce_sum(tf.stack([tf.square(self.a - x), self.b * tf.square(y - tf.square(x))]) + tilt * point)

    def evaluate(self, parameters: Sequence[np.ndarray]) -> dict[str, float]:
        """`loss` without the noise, and the `distance` from the minimum."""
        point = np.asarray(parameters[0], np.float64)
        distance = math.hypot(point[0] - self.a, point[1] - self.a**2)
        return {"loss": float(self.losses([point[None]])[0]), "distance": distance}

    def losses(self, parameters: Sequence[np.ndarray]) -> np.ndarray:
        """`loss` of `evaluate` at many places, for points of shape [places, 2]; float64 [places]."""
        x, y = np.asarray(parameters[0], np.float64).T
        with np.errstate(over="ignore"):
            return np.asarray((self.a - x) ** 2 + self.b * (y - x**2) ** 2)

    def curvature(self, parameters: Sequence[Any]) -> list[Any]:
        """Diagonal of the Hessian: 2 + 4 b (3 x^2 - y) and 2 b; shape [2]."""
        (point,) = parameters
        return [tf.stack([self._across(point[0], point[1]), 2 * self.b])]

    def _across(self, x: Any, y: Any) -> Any:
        return 2 + 4 * self.b * (3 * x**2 - y)

    def describe(self) -> dict[str, Any]:
        """Name and arguments, for a trace's header."""
        return {**super().describe(), "a": self.a, "b": self.b, "noise": self.noise, "start": list(self.start)}


def _number(name: str, value: Any) -> float:
    """Return `value` as a float when float32 holds it well."""
    sentence = f"{name} must be a number from -{LARGEST:g} to {LARGEST:g}, got {value!r}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(sentence)
    if not abs(float(value)) <= LARGEST:
        raise ValueError(sentence)
    return float(value)
