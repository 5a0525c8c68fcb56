"""A bowl: the problem whose every law is known in closed form."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.problems.problem import Batch, Problem
from asyncsgd_edu.problems.randomness import batch_seed
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import positive_number, whole_number

LARGEST = 1e30


class Quadratic(Problem):
    """Loss 1/2 sum_i h_i w_i^2, with gradient noise of standard deviation `noise`.

    `curvatures` is one number h for all `dimension` weights, or a sequence of one
    number a weight (then `dimension`, if given, must be its length). The start is
    w = 1. A batch is one noise vector z, of shape [1, dimension]: the minibatch
    loss has the extra term noise * z.w, so its gradient is h w + noise z.

    >>> Quadratic(curvatures=[1.0, 0.1]).dimension
    2
    """

    name = "quadratic"
    batch_size = 1

    def __init__(
        self, curvatures: float | Sequence[float] = 1.0, noise: float = 0.1, dimension: int | None = None
    ) -> None:
        if isinstance(curvatures, numbers.Real):
            dimension = whole_number("dimension", 20 if dimension is None else dimension, 1, 10**7)
            given = [float(curvatures)] * dimension
        elif isinstance(curvatures, Sequence | np.ndarray):
            given = list(curvatures)
        else:
            raise TypeError(f"curvatures must be a number or a sequence of numbers, got {curvatures!r}")
        if len(given) == 0:
            raise ValueError("curvatures must be a number or a sequence of at least one, got an empty sequence")
        if dimension not in (None, len(given)):
            raise ValueError(f"dimension must be the number of curvatures, {len(given)}, got {dimension!r}")
        checked = [positive_number("a curvature", h) for h in given]
        if max(checked) > LARGEST:
            raise ValueError(f"a curvature must be at most {LARGEST:g}, as float32 holds no more, got {max(checked)}")
        self.curvatures = np.array(checked, np.float32)
        self.noise = positive_number("noise", noise, zero=True)
        self.dimension = len(self.curvatures)

    def initial(self, seed: int) -> list[np.ndarray]:
        """One vector of ones, shape [dimension]; the seed plays no part."""
        return [np.ones(self.dimension, np.float32)]

    def batch(self, worker: tf.Tensor | int, number: tf.Tensor | int, seed: int) -> Batch:
        """One standard normal vector, shape [1, dimension]."""
        return (tf.random.stateless_normal([1, self.dimension], batch_seed(seed, worker, number)),)

    def loss(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tf.Tensor:
        """1/2 sum h w^2 + noise * mean over the batch of z.w."""
        (weights,) = parameters
        # One sum, weight by weight: with one for the bowl and one for the noise a graph adds
        # the parts of the gradient in another order than eager code does.
        tilt = self.noise * tf.reduce_mean(batch[0], axis=0)
        return tf.reduce_sum(0.5 * self.curvatures * tf.square(weights) + tilt * weights)

    def evaluate(self, parameters: Sequence[np.ndarray]) -> dict[str, float]:
        """`loss` without the noise, and the `distance` from the minimum."""
        weights = np.asarray(parameters[0], np.float64)
        return {"loss": float(self.losses([weights[None]])[0]), "distance": float(np.sqrt(np.sum(weights**2)))}

    def losses(self, parameters: Sequence[np.ndarray]) -> np.ndarray:
        """`loss` of `evaluate` at many places, for weights of shape [places, dimension]; float64 [places]."""
        # Place after place in memory: else the order of a sum, and its last bits, would go with their number.
        weights = np.ascontiguousarray(parameters[0], np.float64)
        return np.asarray(0.5 * np.sum(self.curvatures * weights**2, axis=1))

    def curvature(self, parameters: Sequence[Any]) -> list[np.ndarray]:
        """The curvatures, the same everywhere."""
        return [self.curvatures]

    def describe(self) -> dict[str, Any]:
        """Name and arguments, for a trace's header."""
        same = bool((self.curvatures == self.curvatures[0]).all())
        shown = float(self.curvatures[0]) if same else self.curvatures.tolist()
        return {**super().describe(), "curvatures": shown, "noise": self.noise, "dimension": self.dimension}
