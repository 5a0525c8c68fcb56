"""Real handwritten digits, small enough for a laptop in a classroom.

The data are the 1,797 images of 8 x 8 pixels that scikit-learn ships (UCI
"Optical Recognition of Handwritten Digits"), so no network is needed.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from asyncsgd_edu.problems.problem import Batch, Problem
from asyncsgd_edu.problems.randomness import batch_seed, initial_generator
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import one_of, whole_number

HELD_OUT = 360  # A fifth; the split belongs to the problem, not to a run's seed, so that runs compare.

SHAPES: dict[str, list[tuple[int, ...]]] = {
    "linear": [(64, 10), (10,)],
    "mlp": [(64, 64), (64,), (64, 10), (10,)],
    "cnn": [(3, 3, 1, 16), (16,), (3, 3, 16, 32), (32,), (512, 10), (10,)],
}


class Digits(Problem):
    """Classify the digits 0 to 9 with a `linear`, `mlp` (one hidden layer of 64) or `cnn` model.

    1,437 images train, 360 are held out. A batch is (images float32 [batch_size, 64]
    in 0..1, labels int32 [batch_size]), drawn with replacement.
    """

    def __init__(self, model: str = "linear", batch_size: int = 64) -> None:
        self.model = one_of("model", model, SHAPES)
        self.batch_size = whole_number("batch_size", batch_size, 1, 10**5)
        self.name = f"digits-{self.model}"

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Training images and labels, held-out images and labels, as NumPy arrays."""
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        order = np.random.Generator(np.random.Philox(0)).permutation(len(images))
        images = (images[order] / 16.0).astype(np.float32)
        labels = labels[order].astype(np.int32)
        return images[HELD_OUT:], labels[HELD_OUT:], images[:HELD_OUT], labels[:HELD_OUT]

    @cached_property
    def _training(self) -> Batch:
        # Lifted out of any graph that is being built, so that all graphs share one copy.
        with tf.init_scope():
            return tf.constant(self.arrays[0]), tf.constant(self.arrays[1])

    def initial(self, seed: int) -> list[np.ndarray]:
        """He-scaled normal weights, zero biases, in the order of `SHAPES`."""
        generator = initial_generator(seed)
        values = []
        for shape in SHAPES[self.model]:
            scale = np.sqrt(2.0 / np.prod(shape[:-1])) if len(shape) > 1 else 0.0
            values.append((scale * generator.standard_normal(shape)).astype(np.float32))
        return values

    def batch(self, worker: tf.Tensor | int, number: tf.Tensor | int, seed: int) -> Batch:
        """Images [batch_size, 64] and labels [batch_size] of one minibatch."""
        images, labels = self._training
        rows = tf.random.stateless_uniform(
            [self.batch_size], batch_seed(seed, worker, number), maxval=images.shape[0], dtype=tf.int32
        )
        return tf.gather(images, rows), tf.gather(labels, rows)

    def logits(self, parameters: Sequence[tf.Tensor], images: tf.Tensor) -> tf.Tensor:
        """Scores of the ten digits, float32 [batch, 10]."""
        if self.model == "linear":
            weights, bias = parameters
            return images @ weights + bias
        if self.model == "mlp":
            first, first_bias, second, second_bias = parameters
            return tf.nn.relu(images @ first + first_bias) @ second + second_bias
        first, first_bias, second, second_bias, last, last_bias = parameters
        x = tf.reshape(images, [-1, 8, 8, 1])
        x = tf.nn.relu(tf.nn.conv2d(x, first, 1, "SAME") + first_bias)
        x = tf.nn.relu(tf.nn.conv2d(x, second, 1, "SAME") + second_bias)
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        return tf.reshape(x, [-1, 512]) @ last + last_bias

    def loss(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tf.Tensor:
        """Mean cross-entropy of the batch, in nats."""
        images, labels = batch
        scores = self.logits(parameters, images)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))

    def evaluate(self, parameters: Sequence[np.ndarray]) -> dict[str, float]:
        """`loss` and `accuracy` (0..1) on the held-out images."""
        images, labels = tf.constant(self.arrays[2]), tf.constant(self.arrays[3])
        values = [tf.constant(p) for p in parameters]
        right = tf.argmax(self.logits(values, images), axis=1, output_type=tf.int32) == labels
        return {
            "loss": float(self.loss(values, (images, labels))),
            "accuracy": float(tf.reduce_mean(tf.cast(right, tf.float32))),
        }

    def describe(self) -> dict[str, Any]:
        """Name and arguments, for a trace's header."""
        return {**super().describe(), "model": self.model}
