"""Bring your own model: a Keras model, samples and a loss as a problem.

The model object is only read. Parameters are its trainable weights; a run starts from those that it has when the
problem is made, so a model that has been trained before can be trained on.
"""

import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.problems.keras_losses import MeanLoss
from asyncsgd_edu.problems.keras_model import StatelessModel
from asyncsgd_edu.problems.problem import Batch, Problem
from asyncsgd_edu.problems.purity import check_pure
from asyncsgd_edu.problems.randomness import batch_seed
from asyncsgd_edu.problems.samples import Samples, samples, split
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import whole_number

HELD_OUT = 0.2
AT_ONCE = 256  # Samples that are evaluated in one call.
FOR_STATISTICS = 2048  # At most so many training samples go into the statistics of batch normalisation.
EVALUATION = 3  # A purpose of randomness, beside those in `randomness`.
CPU = "/device:CPU:0"  # Where the samples lie: a device is sent its batch, not all of them.


class KerasProblem(Problem):
    """Train a Keras `model` on samples `x` and `y` (arrays, or a `tf.data.Dataset` of batches as `x`) with `loss`.

    `loss` is a Keras loss, its name or a function of (y, output). Of the samples a share `held_out` (0.2 if not
    given), drawn by `split_seed`, is for evaluation, unless `validation` is, a pair (x, y) or a dataset. A batch is
    (x, y) of shape [batch_size, ...], drawn with replacement from the rest. If layers draw random numbers it has a
    third part, int64 [batch_size, 2], every row of it the seed of the batch's: the same worker, number and seed drop
    the same units, and a `seed` given to a layer plays no part.

    Batch normalisation goes by the batch it is given. Its gamma and beta are parameters, shared by all workers;
    its moving statistics belong to nobody and are not updated in training. To evaluate, they are worked out from the
    first 2,048 training samples, batch by batch, at the parameters in question (Wu & Johnson 2021, arXiv 2105.07576).

    Raises TypeError or ValueError, naming what is wrong, for a model that cannot be built or computed from x, or not
    computed again from its parameters alone, for samples that do not fit it, and for arguments that are not allowed.
    """

    def __init__(
        self,
        model: Any,
        x: Any,
        y: Any = None,
        loss: Any = None,
        batch_size: int = 32,
        *,
        held_out: float | None = None,
        split_seed: int = 0,
        validation: Any = None,
    ) -> None:
        both, self._mean_loss = samples(x, y), MeanLoss(loss)
        self._model = StatelessModel(model, both.x)
        # A name that Keras made up counts the models of the process; that is not a part of the problem.
        self.name = f"keras-{re.sub(r'_[0-9]+$', '', self._model.name)}"
        self._values = [tf.TensorSpec(value.shape, tf.float32) for value in self._model.start]
        self._output = self._output_shape(both.x)
        both = self._fitted(both, "y")
        if validation is None:
            self._train, self._held_out = split(both, HELD_OUT if held_out is None else held_out, split_seed)
        else:
            if held_out is not None or split_seed != 0:
                raise ValueError("held_out and split_seed do nothing beside validation: leave them out")
            held = self._fitted(_validation(validation, both), "y of validation")
            # Copies: what the caller does to arrays afterwards is no business of the problem.
            self._train, self._held_out = (Samples(np.array(x), np.array(y)) for x, y in (both, held))
        self.batch_size = whole_number(
            f"batch_size, beside {len(self._train.x)} samples to train on,", batch_size, 1, len(self._train.x)
        )
        for array in self.arrays:
            array.setflags(write=False)
        with tf.device(CPU):
            self._data = tf.constant(self._train.x), tf.constant(self._train.y)
        check_pure(f"the loss of model {self._model.name!r}", self._loss_graph)
        self._score, self._gather = self._evaluation_graphs()

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Samples to train on (x, y), then those held out (x, y), as NumPy arrays."""
        return *self._train, *self._held_out

    def initial(self, seed: int) -> list[np.ndarray]:
        """The model's trainable weights as they were when this problem was made; the seed plays no part."""
        return [value.copy() for value in self._model.start]

    def batch(self, worker: tf.Tensor | int, number: tf.Tensor | int, seed: int) -> Batch:
        """x, y of shape [batch_size, ...], and the seed of what layers draw, int64 [batch_size, 2], if any does."""
        with tf.device(CPU):
            base = batch_seed(seed, worker, number)
            rows = tf.random.stateless_uniform([self.batch_size], base, maxval=len(self._train.x), dtype=tf.int32)
            drawn = [tf.gather(part, rows) for part in self._data]
            return (*drawn, tf.tile(base[None], [self.batch_size, 1])) if self._model.random else tuple(drawn)

    def loss(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tf.Tensor:
        """Mean loss of the batch and the model's own losses, such as weight decay, in training."""
        x, y, *draw = batch
        output, penalty = self._model.train(parameters, x, draw[0][0] if draw else None)
        return self._mean_loss(y, output) + penalty

    def gradient(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Loss of the batch and its gradient, dense also where an embedding's is made sparse."""
        loss, gradient = super().gradient(parameters, batch)
        return loss, [tf.convert_to_tensor(part) for part in gradient]

    def evaluate(self, parameters: Sequence[np.ndarray]) -> dict[str, float]:
        """`loss`, and `accuracy` (0..1) for a cross-entropy, of the held-out samples; nothing is dropped."""
        values, statistics = [tf.constant(p) for p in parameters], self._statistics(parameters)
        total = np.zeros(self._score.outputs[0].shape)
        for low in range(0, len(self._held_out.x), AT_ONCE):
            part = [tf.constant(array[low : low + AT_ONCE]) for array in self._held_out]
            total += len(part[0]) * self._score(*part, *statistics, *values).numpy().astype(np.float64)
        return dict(zip(("loss", "accuracy"), (total / len(self._held_out.x)).tolist(), strict=False))

    def weights(self, parameters: Sequence[np.ndarray]) -> list[np.ndarray]:
        """All weights of the model at these parameters: `model.set_weights(problem.weights(trainer.parameters))`.

        Those that are not trained are as they were, and batch normalisation's statistics those of the parameters.
        """
        return self._model.weights(parameters, self._statistics(parameters))

    def describe(self) -> dict[str, Any]:
        """Name, loss and sizes, for a trace's header, and a fingerprint of start and samples."""
        fingerprint = 0
        for array in (*self._model.start, *self._train):
            fingerprint = zlib.crc32(np.ascontiguousarray(array).data, fingerprint)
        return {
            **super().describe(),
            "loss": self._mean_loss.name,
            "parameters": sum(value.size for value in self._model.start),
            "samples": len(self._train.x),
            "held_out": len(self._held_out.x),
            "fingerprint": f"{fingerprint:08x}",
        }

    # --- graphs, built with the problem, so that what is wrong is said before any worker starts

    def _output_shape(self, x: np.ndarray) -> tf.TensorShape:
        """Shape of what the model makes of samples, their number left open."""
        spec = tf.TensorSpec([None, *x.shape[1:]], x.dtype)

        def output(x: tf.Tensor, *values: tf.Tensor) -> tf.Tensor:
            return self._model.train(values, x, _evaluation_seed(0))[0]

        shape = _concrete(output, spec, *self._values).outputs[0].shape
        if not shape.rank or shape[0] is not None:
            raise ValueError(
                f"model {self._model.name!r} must give an output for each sample: for x of shape {spec.shape} it "
                f"gives one of shape {shape}"
            )
        return shape

    def _fitted(self, both: Samples, name: str) -> Samples:
        """The samples with y in the shape and type that the loss takes beside the model's output."""
        return Samples(both.x, self._mean_loss.fitted(both.y, self._output, name))

    def _loss_graph(self) -> Any:
        """A new graph of the loss of a batch."""
        x, y = (tf.TensorSpec([self.batch_size, *part.shape[1:]], part.dtype) for part in self._train)
        seeds = tf.TensorSpec([self.batch_size, 2], tf.int64)

        def loss(x: tf.Tensor, y: tf.Tensor, seeds: tf.Tensor, *values: tf.Tensor) -> tf.Tensor:
            return self.loss(values, (x, y, seeds))

        return _concrete(loss, x, y, seeds, *self._values).graph

    def _evaluation_graphs(self) -> tuple[Any, Any]:
        """(x, y, statistics, values) to loss and accuracy; (number, x, values) to statistics of a batch of training."""
        x, y = (tf.TensorSpec([None, *part.shape[1:]], part.dtype) for part in self._train)
        statistics = [tf.TensorSpec(shape, tf.float32) for shape in self._model.statistics]

        def score(x: tf.Tensor, y: tf.Tensor, *rest: tf.Tensor) -> tf.Tensor:
            statistics, values = rest[: len(self._model.statistics)], rest[len(self._model.statistics) :]
            output, penalty = self._model.evaluate(values, x, _evaluation_seed(0), statistics)
            right = self._mean_loss.right(y, output)
            return tf.stack([self._mean_loss(y, output) + penalty, *([right] if right is not None else [])])

        def gather(number: tf.Tensor, x: tf.Tensor, *values: tf.Tensor) -> list[tf.Tensor]:
            return self._model.gather(values, x, _evaluation_seed(number))

        number = tf.TensorSpec([], tf.int64)
        gatherer = _concrete(gather, number, x, *self._values) if statistics else None
        return _concrete(score, x, y, *statistics, *self._values), gatherer

    def _statistics(self, parameters: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Mean and variance for each batch normalisation, over batches of the first training samples."""
        if self._gather is None:
            return []
        values, x = [tf.constant(p) for p in parameters], self._train.x[: max(FOR_STATISTICS, self.batch_size)]
        found = []
        for number in range(len(x) // self.batch_size):
            batch = tf.constant(x[number * self.batch_size : (number + 1) * self.batch_size])
            parts = self._gather(tf.constant(number, tf.int64), batch, *values)
            found.append([part.numpy().astype(np.float64) for part in parts])
        columns = [np.stack(column) for column in zip(*found, strict=True)]
        both = []
        for means, variances in zip(columns[::2], columns[1::2], strict=True):
            mean = means.mean(axis=0)
            both += [mean, (variances + means**2).mean(axis=0) - mean**2]
        return [part.astype(np.float32) for part in both]


def _validation(given: Any, both: Samples) -> Samples:
    """Samples to evaluate on, of the shapes of those to train on."""
    x, y = (given, None) if isinstance(given, tf.data.Dataset) else _pair(given)
    checked = samples(x, y, " of validation")
    if checked.x.shape[1:] != both.x.shape[1:]:
        raise ValueError(
            f"x of validation must be of shape {(len(checked.x), *both.x.shape[1:])}, as x is of shape {both.x.shape}, "
            f"got {checked.x.shape}"
        )
    return checked


def _pair(given: Any) -> tuple[Any, Any]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"validation must be a pair (x, y) or a tf.data.Dataset, got {type(given).__name__}")
    return given[0], given[1]


def _concrete(function: Any, *specs: tf.TensorSpec) -> Any:
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def _evaluation_seed(number: tf.Tensor | int) -> tf.Tensor:
    """The seed of what layers draw in evaluation, int64 [2]: the same at every evaluation."""
    return tf.random.experimental.stateless_fold_in(tf.constant([0, EVALUATION], tf.int64), number)
