"""Logistic regression on sparse examples: the problem for which updates seldom meet.

Hogwild! (Niu et al. 2011, arXiv 1106.5730) needs no locks because an example touches few weights, and other
examples mostly others. How often two examples do share one is set here, and all else stays as it is.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from asyncsgd_edu.problems.problem import Batch, Problem
from asyncsgd_edu.problems.randomness import batch_seed
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import MAX_SEED, positive_number, whole_number

HELD_OUT = 2_000
MARGIN = 3.0  # Standard deviation of an example's true log-odds: some 85 % of the labels can be told.


class SparseLogistic(Problem):
    """Tell two classes apart by `nonzero` of `features` numbers an example; one weight a feature, no bias.

    `overlap` is the chance that two examples share a feature, rho of Hogwild! (there the worst example's; here the
    mean, as `rules.laws.conflict_rate` counts it). Without it, features are drawn alike and chance makes it; a larger
    one comes about because the right share of the examples has feature 0, as many texts share a word.

    `examples` train and 2,000 are held out; `data_seed` draws them, so that runs of different seeds compare. A batch
    is (features int32 [batch_size, nonzero], their values float32 [batch_size, nonzero], labels float32 [batch_size],
    0 or 1), drawn with replacement. The start is w = 0. Of larger batches than 1 more overlap than `overlap` says.

    Raises TypeError or ValueError for arguments that are not allowed, an overlap below that of chance among them.

    >>> SparseLogistic(features=1000, nonzero=10).overlap  # doctest: +ELLIPSIS
    0.0961...
    >>> SparseLogistic(features=1000, nonzero=10, overlap=0.5).common  # doctest: +ELLIPSIS
    0.671...
    """

    sparse = True
    name = "sparse-logistic"

    def __init__(
        self,
        features: int = 1000,
        nonzero: int = 10,
        overlap: float | None = None,
        *,
        batch_size: int = 1,
        examples: int = 20_000,
        data_seed: int = 0,
    ) -> None:
        self.features = whole_number("features", features, 2, 10**7)
        self.nonzero = whole_number("nonzero, which must be below features,", nonzero, 1, min(256, self.features - 1))
        self.batch_size = whole_number("batch_size", batch_size, 1, 10**5)
        self.examples = whole_number("examples", examples, 1, 10**6)
        self.data_seed = whole_number("data_seed", data_seed, 0, MAX_SEED)
        self.common, self.overlap = common_share(self.features, self.nonzero, overlap)

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Features, values and labels of the training examples, then of those held out, as NumPy arrays."""
        generator = np.random.Generator(np.random.Philox(self.data_seed))
        count = self.examples + HELD_OUT
        truth = generator.standard_normal(self.features) * MARGIN / math.sqrt(self.nonzero)
        features = 1 + distinct(generator, count, self.nonzero, self.features - 1)
        features[generator.random(count) < self.common, 0] = 0
        values = generator.standard_normal((count, self.nonzero))
        odds = np.exp((values * truth[features]).sum(axis=1))
        labels = generator.random(count) < odds / (1 + odds)
        columns = features.astype(np.int32), values.astype(np.float32), labels.astype(np.float32)
        train, held_out = ([column[part] for column in columns] for part in np.split(np.arange(count), [self.examples]))
        return train[0], train[1], train[2], held_out[0], held_out[1], held_out[2]

    @cached_property
    def _training(self) -> Batch:
        # Lifted out of any graph that is being built, so that all graphs share one copy.
        with tf.init_scope():
            return tuple(tf.constant(array) for array in self.arrays[:3])

    def initial(self, seed: int) -> list[np.ndarray]:
        """One vector of zeros, shape [features]; the seed plays no part."""
        return [np.zeros(self.features, np.float32)]

    def batch(self, worker: tf.Tensor | int, number: tf.Tensor | int, seed: int) -> Batch:
        """Features and values, [batch_size, nonzero], and labels, [batch_size]."""
        rows = tf.random.stateless_uniform(
            [self.batch_size], batch_seed(seed, worker, number), maxval=self.examples, dtype=tf.int32
        )
        return tuple(tf.gather(part, rows) for part in self._training)

    def log_odds(self, parameters: Sequence[tf.Tensor], features: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Log-odds of class 1, float32 [batch]; only the weights of the `features` are looked at."""
        return tf.reduce_sum(values * tf.gather(parameters[0], features), axis=1)

    def loss(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tf.Tensor:
        """Mean cross-entropy of the batch, in nats."""
        features, values, labels = batch
        odds = self.log_odds(parameters, features, values)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, odds))

    def gradient(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Loss of the batch and its gradient, dense: 0 for all weights that the batch does not touch."""
        loss, slices = self.sparse_gradient(parameters, batch)
        return loss, [tf.convert_to_tensor(part) for part in slices]

    def sparse_gradient(
        self, parameters: Sequence[tf.Tensor], batch: Batch
    ) -> tuple[tf.Tensor, list[tf.IndexedSlices]]:
        """Loss of the batch and its gradient as the `batch_size * nonzero` weights that it touches.

        A weight that several examples touch is listed with each; what counts is the sum. With this, TensorFlow
        updates by its sparse kernels, which are what Hogwild! is about: nothing guards them.
        """
        features, values, labels = batch
        odds = self.log_odds(parameters, features, values)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, odds))
        slopes = (tf.sigmoid(odds) - labels)[:, None] * values / self.batch_size
        shape = tf.constant([self.features], tf.int32)
        return loss, [tf.IndexedSlices(tf.reshape(slopes, [-1]), tf.reshape(features, [-1]), shape)]

    def curvature(self, parameters: Sequence[Any]) -> list[Any]:
        """Diagonal of the Hessian of the mean loss of the training examples, shape [features]."""
        features, values, _ = self._training
        chance = tf.sigmoid(self.log_odds([tf.convert_to_tensor(parameters[0])], features, values))
        bends = (chance * (1 - chance))[:, None] * tf.square(values) / self.examples
        return [tf.math.unsorted_segment_sum(bends, features, self.features)]

    def evaluate(self, parameters: Sequence[np.ndarray]) -> dict[str, float]:
        """`loss` and `accuracy` (0..1) on the held-out examples."""
        features, values, labels = (tf.constant(array) for array in self.arrays[3:])
        weights = [tf.constant(parameters[0])]
        right = (self.log_odds(weights, features, values) > 0) == (labels > 0.5)
        return {
            "loss": float(self.loss(weights, (features, values, labels))),
            "accuracy": float(tf.reduce_mean(tf.cast(right, tf.float32))),
        }

    def describe(self) -> dict[str, Any]:
        """Name and arguments, for a trace's header."""
        made = {"features": self.features, "nonzero": self.nonzero, "overlap": self.overlap}
        return {**super().describe(), **made, "examples": self.examples, "data_seed": self.data_seed}


def common_share(features: int, nonzero: int, overlap: float | None) -> tuple[float, float]:
    """Which share of the examples has feature 0, so that two overlap with this chance; and the chance.

    Two that have it overlap. Otherwise the chance is that of drawing k or k - 1 of the other features twice and
    meeting one again. So the chance is a quadratic in the share; solved for it.

    >>> common_share(3, 1, 0.5)  # Feature 0 never: 1 or 2, drawn alike.
    (0.0, 0.5)
    >>> share, _ = common_share(10**6, 1, 0.25)  # Features are many: two overlap if both have 0.
    >>> round(share, 4)
    0.5
    """
    others = features - 1
    neither, one = meeting_chance(others, nonzero, nonzero), meeting_chance(others, nonzero, nonzero - 1)
    if overlap is None:
        return 0.0, neither
    overlap = positive_number("overlap", overlap)
    if not neither <= overlap <= 1:
        raise ValueError(
            f"overlap must be from {neither:.6g}, which chance makes with {nonzero} of {features} features, to 1, "
            f"got {overlap!r}: more features or fewer nonzero make less"
        )
    square, linear = 1 - 2 * one + neither, 2 * (one - neither)
    if overlap == neither or square == 0:
        return 0.0, overlap
    share = (-linear + math.sqrt(linear**2 + 4 * square * (overlap - neither))) / (2 * square)
    return min(1.0, share), overlap


def meeting_chance(features: int, some: int, others: int) -> float:
    """Chance that `some` of the features and `others` of them, each drawn without replacement, have one in common.

    1 - C(n - a, b) / C(n, b).

    >>> meeting_chance(4, 1, 1), meeting_chance(4, 2, 3), meeting_chance(4, 2, 0)
    (0.25, 1.0, 0.0)
    """
    return 1 - math.comb(features - some, others) / math.comb(features, others)


def distinct(generator: np.random.Generator, rows: int, count: int, below: int) -> np.ndarray:
    """For each row `count` different whole numbers from 0 to `below` - 1, all sets and orders alike; int64."""
    chosen = np.empty((rows, 0), np.int64)
    for taken in range(count):
        number = generator.integers(0, below - taken, rows)  # The number-th of those that are left:
        for place in range(taken):
            number += number >= chosen[:, place]  # ... counted past those that are not.
        chosen = np.sort(np.column_stack([chosen, number]), axis=1)
    return generator.permuted(chosen, axis=1)
