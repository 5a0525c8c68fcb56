"""Versions that travel with the values: exact, and without a lock.

A variable's value and the number of updates in it are two things, and no read gets both
at once; unless the number is part of the value. So each parameter lies flat in a variable
that is a little longer: after its elements come as many stamps as there are workers. An
update subtracts from the elements and adds 1 to its worker's stamp in one and the same
`assign_sub`, which TensorFlow does as a whole. Whoever reads the elements has then also
read which updates are in them: a vector clock (Fidge 1988, Mattern 1989).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.quiet import tf

MOST_STAMPED = 2**24  # Updates of one worker: float32 counts no further.


class Stamped:
    """One parameter and its stamps, and a variable that stands in for it.

    `variable` has the parameter's shape and is what an optimizer is given: asked for its
    value it reads the elements, told to add or subtract it does so there, with the stamp of
    the present `writer`. With `atomic` that is one subtraction. Without, it is what a
    beginner writes: read, subtract, assign; what another worker wrote in between is lost, stamps and all.
    """

    def __init__(self, value: np.ndarray, workers: int, atomic: bool, name: str) -> None:
        self._shape, self._size, self._workers, self._atomic = value.shape, value.size, workers, atomic
        first = np.concatenate([value.reshape(-1), np.zeros(workers, value.dtype)])
        self.whole = tf.Variable(first, name=name)
        self._writer: tf.Tensor | None = None
        self._seen: tf.Tensor | None = None  # Stamps of the last read through the stand-in.
        self.variable = self._stand_in(value, name)

    def read(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The value and the stamps that are in it, float32 of shape [workers]: one read."""
        whole = self.whole.read_value()
        return tf.reshape(whole[: self._size], self._shape), whole[self._size :]

    def signed_by(self, worker: tf.Tensor) -> None:
        """The next write is an update of this worker. Only the first of an update's writes carries the stamp."""
        self._writer, self._seen = worker, None

    def _read(self) -> tf.Tensor:
        value, self._seen = self.read()
        return value

    def _stamp(self) -> tf.Tensor:
        """1 at the writer that has not signed yet, else nothing; float32 of shape [workers]."""
        writer, self._writer = self._writer, None
        if writer is None:
            return tf.zeros([self._workers], self.whole.dtype)
        return tf.one_hot(writer, self._workers, dtype=self.whole.dtype)

    def _subtract(self, delta: Any) -> None:
        change = tf.concat([self._flat(delta), -self._stamp()], 0)
        if self._atomic:
            self.whole.assign_sub(change)
        else:
            self.whole.assign(self.whole.read_value() - change)

    def _set(self, value: Any) -> None:
        # Worked out from what was read before, so the stamps are those that were read with it.
        seen = self._seen if self._seen is not None else self.read()[1]
        self.whole.assign(tf.concat([self._flat(value), seen + self._stamp()], 0))

    def _flat(self, value: Any) -> tf.Tensor:
        return tf.reshape(tf.cast(tf.convert_to_tensor(value), self.whole.dtype), [self._size])

    def _stand_in(self, value: np.ndarray, name: str) -> tf.Variable:
        variable = tf.Variable(value, name=f"{name}_stand_in")
        # On this one variable, in place of its class's own: an optimizer asks for nothing else.
        variable.value = variable.read_value = self._read
        variable.assign_sub = variable.scatter_sub = self._subtract
        variable.assign_add = variable.scatter_add = lambda delta: self._subtract(-tf.convert_to_tensor(delta))
        variable.assign = self._set
        return variable


def torn(stamps: Sequence[tf.Tensor]) -> tf.Tensor:
    """How many updates are in some of the variables and not in others; int64 scalar.

    `stamps` are those of each variable, as read. Exact: 0 if and only if every variable had
    had the same updates. (Where updates get lost, a worker's stamps tell how many of its updates are in, not which.)
    """
    if len(stamps) == 1:
        return tf.zeros([], tf.int64)
    clocks = tf.stack(list(stamps))
    apart = tf.reduce_max(clocks, 0) - tf.reduce_min(clocks, 0)
    return tf.cast(tf.reduce_sum(apart), tf.int64)
