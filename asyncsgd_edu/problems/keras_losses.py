"""A loss of Keras's as the mean over a batch, what it wants of `y`, and the share that is right.

Nothing here knows a model: only the shape of what comes out of one.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.quiet import keras, tf

SPARSE = {"sparse_categorical_crossentropy", "SparseCategoricalCrossentropy"}
ONE_HOT = {
    *("categorical_crossentropy", "CategoricalCrossentropy"),
    *("categorical_focal_crossentropy", "CategoricalFocalCrossentropy"),
}
BINARY = {
    *("binary_crossentropy", "BinaryCrossentropy"),
    *("binary_focal_crossentropy", "BinaryFocalCrossentropy"),
}
SHAPES_OF_THEIR_OWN = {"ctc", "CTC", "circle", "Circle"}
KERAS_LOSSES = "keras.src.losses"
MANY = 2**24  # Classes: Keras hands labels on as float32.


class MeanLoss:
    """`loss`, a Keras loss, its name, or a function of (y, output), as `fit` takes it.

    Called with y and output it gives a float32 scalar, the mean over the batch. `name` is for people.
    Raises TypeError or ValueError for anything else, and for a loss that sums over the batch.
    """

    def __init__(self, loss: Any) -> None:
        if loss is None:
            raise TypeError("loss must be given: a Keras loss, its name such as 'mse', or a function of (y, output)")
        if isinstance(loss, str):
            try:
                loss = keras.losses.get(loss)
            except ValueError as error:
                raise ValueError(
                    f"unknown loss {loss!r}: Keras has 'mse', 'mae', 'huber', 'binary_crossentropy', "
                    f"'categorical_crossentropy', 'sparse_categorical_crossentropy' and more"
                ) from error
        if inspect.isclass(loss) and issubclass(loss, keras.losses.Loss):
            loss = loss()
        if not callable(loss):
            raise TypeError(f"loss must be a Keras loss, its name, or a function of (y, output), got {loss!r}")
        if getattr(loss, "reduction", None) == "sum":
            raise ValueError(
                f"loss must be a mean over the batch, {type(loss).__name__}(reduction='sum') is as many times as large "
                f"as the batch: give reduction='sum_over_batch_size'"
            )
        self.name = getattr(loss, "__name__", type(loss).__name__)
        self._known = getattr(loss, "__module__", "").startswith(KERAS_LOSSES)
        self._loss = loss if isinstance(loss, keras.losses.Loss) else _OfFunction(loss, self.name)

    def __call__(self, y: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        """Mean loss of the batch (graph op)."""
        try:
            return tf.reduce_mean(self._loss(y, output))
        except Exception as error:
            raise ValueError(
                f"loss {self.name} cannot compare y of shape {y.shape} with an output of shape {output.shape}: "
                f"{said(error)}"
            ) from error

    def fitted(self, y: np.ndarray, output: Sequence[int | None], name: str = "y") -> np.ndarray:
        """`y` as the loss takes it beside outputs of the shape `output`, whose first place is the batch.

        Raises ValueError, with both shapes, if it does not fit, and for labels that are not classes.
        """
        shape = [len(y), *output[1:]]
        if self._known and self.name in SPARSE:
            return self._labels(y, shape, name)
        if len(y.shape) != len(shape) and _fit(_squeezed(y.shape), _squeezed(shape)):
            y = y.reshape(y.shape[:-1] if len(y.shape) > len(shape) else (*y.shape, 1))
        if self._known and self.name not in SHAPES_OF_THEIR_OWN and not _fit(y.shape, shape):
            raise self._misfit(y, shape, name, "the same shape")
        return y

    def _labels(self, y: np.ndarray, shape: Sequence[int | None], name: str) -> np.ndarray:
        """Class numbers, int32, of the output's shape without its last place."""
        if y.shape[-1:] == (1,) and len(y.shape) == len(shape):
            y = y[..., 0]
        if not _fit(y.shape, shape[:-1]):
            raise self._misfit(y, shape, name, "the output's shape without its last place, a class number each")
        classes, ignored = shape[-1] or MANY, getattr(self._loss, "ignore_class", None)
        bad = np.argwhere(((y < 0) | (y >= classes) | (y != np.rint(y))) & (y != ignored))
        if len(bad):
            raise ValueError(
                f"{name} must hold whole numbers from 0 to {classes - 1}, a number for each of the model's outputs, "
                f"got {y[tuple(bad[0])]} in sample {bad[0][0]}"
            )
        return y.astype(np.int32)

    def _misfit(self, y: np.ndarray, shape: Sequence[int | None], name: str, wanted: str) -> ValueError:
        hint = "; give 'sparse_categorical_crossentropy' for class numbers" if self.name in ONE_HOT else ""
        return ValueError(
            f"{name} does not fit the model's output: output {_shown(shape)}, {name} {_shown(y.shape)}; "
            f"{self.name} needs {wanted}{hint}"
        )

    def right(self, y: tf.Tensor, output: tf.Tensor) -> tf.Tensor | None:
        """Share of answers that are right, a float32 scalar (graph op); None where the loss is not one of classes."""
        if not self._known or self.name not in SPARSE | ONE_HOT | BINARY:
            return None
        if self.name in SPARSE:
            right = tf.argmax(output, -1, output_type=tf.int32) == y
        elif self.name in ONE_HOT:
            right = tf.argmax(output, -1) == tf.argmax(y, -1)
        else:
            half = 0.0 if getattr(self._loss, "from_logits", False) else 0.5
            right = (output > half) == (tf.cast(y, tf.float32) > 0.5)
        return tf.reduce_mean(tf.cast(right, tf.float32))


class _OfFunction(keras.losses.Loss):
    """A function of (y, output), averaged, and masked where the output is, as `fit` does with it."""

    def __init__(self, function: Any, name: str) -> None:
        super().__init__(name=name)
        self._function = function

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """What the function says of each sample."""
        return self._function(y_true, y_pred)


def said(error: BaseException) -> str:
    """What an error of Keras's says, without its colours and the arguments that it lists."""
    text = str(error).split("Arguments received by")[0].replace("\x1b[1m", "").replace("\x1b[0m", "")
    return " ".join(text.split()) or type(error).__name__


def _squeezed(shape: Sequence[int | None]) -> Sequence[int | None]:
    return shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape


def _fit(shape: Sequence[int | None], other: Sequence[int | None]) -> bool:
    return len(shape) == len(other) and all(None in (a, b) or a == b for a, b in zip(shape, other, strict=True))


def _shown(shape: Sequence[int | None]) -> str:
    """[samples, 3]: the shape without how many samples there are."""
    return f"[{', '.join(['samples', *('any' if place is None else str(place) for place in shape[1:])])}]"
