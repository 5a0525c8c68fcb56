"""The shape of a problem: parameters, batches, a loss, an evaluation."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.quiet import tf

Batch = tuple[tf.Tensor, ...]


class Problem(ABC):
    """What a trainer trains.

    `name` and `batch_size` (samples in one gradient) go into the trace's header.
    The same seed gives the same start and the same data, whatever the number of threads.
    """

    name: str
    batch_size: int
    sparse = False  # Whether there is a `sparse_gradient`.

    @abstractmethod
    def initial(self, seed: int) -> list[np.ndarray]:
        """Initial parameters, float32 arrays."""

    @abstractmethod
    def batch(self, worker: tf.Tensor | int, number: tf.Tensor | int, seed: int) -> Batch:
        """The data of a worker's batch `number`, each tensor of shape [batch_size, ...]."""

    @abstractmethod
    def loss(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tf.Tensor:
        """Mean loss of the batch at the parameters, a float32 scalar."""

    @abstractmethod
    def evaluate(self, parameters: Sequence[np.ndarray]) -> dict[str, float]:
        """How good the parameters are: at least `loss`."""

    def losses(self, parameters: Sequence[np.ndarray]) -> np.ndarray:
        """`loss` of `evaluate` at many places at once; float64 of shape [places].

        Each of the parameters has their values at every place: shape [places, ...]. A problem with a formula
        does this faster than one evaluation after the other, and to the same bits.
        """
        places = zip(*parameters, strict=True)
        return np.array([self.evaluate([np.asarray(value) for value in place])["loss"] for place in places], np.float64)

    def gradient(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Loss of the batch, and its gradient with respect to each parameter (of the same shapes)."""
        values = [tf.convert_to_tensor(p) for p in parameters]
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = self.loss(values, batch)
        return loss, tape.gradient(loss, values, unconnected_gradients="zero")

    def sparse_gradient(
        self, parameters: Sequence[tf.Tensor], batch: Batch
    ) -> tuple[tf.Tensor, list[tf.IndexedSlices]]:
        """Loss of the batch, and its gradient as those elements of each parameter that it touches."""
        raise NotImplementedError(f"{self.name} has no sparse gradient")

    def curvature(self, parameters: Sequence[Any]) -> list[np.ndarray] | None:
        """Diagonal of the Hessian of the expected loss, one array a parameter; None where it is not known."""
        return None

    def describe(self) -> dict[str, Any]:
        """Name and arguments, for a trace's header."""
        return {"name": self.name, "batch_size": self.batch_size}


def check_problem(problem: object) -> None:
    """Raise TypeError unless `problem` is a problem."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a problem such as Digits('cnn') or Quadratic(), got {problem!r}")
