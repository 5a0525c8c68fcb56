"""Small colour photographs in ten classes, for those who have them on disk.

The data are CIFAR-10 (Krizhevsky 2009), read by Keras's own loader from where it keeps them. Nothing is
downloaded unless that is asked for.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from asyncsgd_edu.problems.problem import Batch, Problem
from asyncsgd_edu.problems.randomness import batch_seed, initial_generator
from asyncsgd_edu.quiet import keras, tf
from asyncsgd_edu.rules.arguments import whole_number

IMAGES = 50_000  # To train on; 10,000 more are held out.
SOURCE = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
# Under which name Keras's loader (3.12 to 3.15) keeps that file, and the sum that it wants of it.
KEPT_AS = "cifar-10-batches-py-target_archive"
SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
SHAPES: list[tuple[int, ...]] = [(3, 3, 3, 16), (16,), (3, 3, 16, 32), (32,), (2048, 10), (10,)]
AT_ONCE = 500  # Images that are evaluated in one call.
CPU = "/device:CPU:0"  # Where the images lie: a device is sent its batch, not all of them.


class Cifar10(Problem):
    """Classify CIFAR-10 with two convolutions (16 and 32 filters of 3 x 3, each with max pooling) and a dense layer.

    The first `size` of 50,000 images train, the 10,000 test images are held out. A batch is (images uint8
    [batch_size, 32, 32, 3], labels int32 [batch_size]), drawn with replacement. The data must be where Keras keeps
    them; with `download` they are fetched first (170 MB) if they are not.

    Raises FileNotFoundError, saying where they belong and how they get there, if they are missing, and
    ValueError if the file is not the one that Keras expects.
    """

    name = "cifar10"

    def __init__(self, size: int = IMAGES, batch_size: int = 64, *, download: bool = False) -> None:
        self.size = whole_number("size", size, 1, IMAGES)
        self.batch_size = whole_number("batch_size", batch_size, 1, 10**5)
        if not isinstance(download, bool):
            raise TypeError(f"download must be True or False, got {download!r}")
        if not download:
            check_on_disk(archive())

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Training images (uint8) and labels (int32), held-out images and labels, as NumPy arrays."""
        (images, labels), (held_out, held_out_labels) = keras.datasets.cifar10.load_data()
        both = []
        for pixels, classes in ((images[: self.size], labels[: self.size]), (held_out, held_out_labels)):
            if keras.config.image_data_format() == "channels_first":
                pixels = pixels.transpose(0, 2, 3, 1)
            both += [np.ascontiguousarray(pixels), classes[:, 0].astype(np.int32)]
        return both[0], both[1], both[2], both[3]

    @cached_property
    def _training(self) -> Batch:
        # Lifted out of any graph that is being built, so that all graphs share one copy.
        with tf.init_scope(), tf.device(CPU):
            return tf.constant(self.arrays[0]), tf.constant(self.arrays[1])

    def initial(self, seed: int) -> list[np.ndarray]:
        """He-scaled normal weights, zero biases, in the order of `SHAPES`."""
        generator = initial_generator(seed)
        scales = [np.sqrt(2.0 / np.prod(shape[:-1])) if len(shape) > 1 else 0.0 for shape in SHAPES]
        return [
            (scale * generator.standard_normal(shape)).astype(np.float32)
            for scale, shape in zip(scales, SHAPES, strict=True)
        ]

    def batch(self, worker: tf.Tensor | int, number: tf.Tensor | int, seed: int) -> Batch:
        """Images uint8 [batch_size, 32, 32, 3] and labels int32 [batch_size] of one minibatch."""
        with tf.device(CPU):
            images, labels = self._training
            rows = tf.random.stateless_uniform(
                [self.batch_size], batch_seed(seed, worker, number), maxval=self.size, dtype=tf.int32
            )
            return tf.gather(images, rows), tf.gather(labels, rows)

    def logits(self, parameters: Sequence[tf.Tensor], images: tf.Tensor) -> tf.Tensor:
        """Scores of the ten classes, float32 [batch, 10]."""
        first, first_bias, second, second_bias, last, last_bias = parameters
        x = tf.cast(images, tf.float32) / 127.5 - 1.0
        for weights, bias in ((first, first_bias), (second, second_bias)):
            x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, weights, 1, "SAME") + bias), 2, 2, "VALID")
        return tf.reshape(x, [-1, 2048]) @ last + last_bias

    def loss(self, parameters: Sequence[tf.Tensor], batch: Batch) -> tf.Tensor:
        """Mean cross-entropy of the batch, in nats."""
        images, labels = batch
        scores = self.logits(parameters, images)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))

    def evaluate(self, parameters: Sequence[np.ndarray]) -> dict[str, float]:
        """`loss` and `accuracy` (0..1) on the held-out images."""
        _, _, images, labels = self.arrays
        values = [tf.constant(p) for p in parameters]
        loss = right = 0.0
        for low in range(0, len(images), AT_ONCE):
            classes = labels[low : low + AT_ONCE]
            scores = self.logits(values, tf.constant(images[low : low + AT_ONCE]))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(classes, scores)
            loss += float(tf.reduce_sum(tf.cast(losses, tf.float64)))
            right += int(np.sum(np.argmax(scores, axis=1) == classes))
        return {"loss": loss / len(images), "accuracy": right / len(images)}

    def describe(self) -> dict[str, Any]:
        """Name and arguments, for a trace's header."""
        return {**super().describe(), "size": self.size}


def archive() -> Path:
    """The file in which Keras's loader keeps the data: below $KERAS_HOME, or ~/.keras if that is not set."""
    home = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()
    if not os.access(home, os.W_OK):  # As the loader does, which wants to unpack there.
        home = Path("/tmp" if Path("/tmp").is_dir() else tempfile.gettempdir()) / ".keras"
    return home / "datasets" / KEPT_AS


def check_on_disk(path: Path) -> None:
    """Raise FileNotFoundError or ValueError, saying what to do, unless the loader would take `path` as it is."""
    how = f"let Cifar10(download=True) get it once (170 MB), or copy {SOURCE} there"
    if not path.is_file():
        raise FileNotFoundError(f"CIFAR-10 is not on this machine: {path} is missing; {how}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ValueError(f"{path} is not CIFAR-10 as Keras expects it, or not all of it (sha256 {found}); {how}")
