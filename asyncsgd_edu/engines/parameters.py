"""The shared parameters: what a read sees, what an apply does, and which version that is.

Everything here is built as TensorFlow graph and run by many threads at once.
Two atomic counters make the versions. `started` numbers the updates that were
let in, which is also what stops a run at its limit; `landed` counts those that
are wholly in the parameters, and that count is the version. Three ways to touch them:

`consistent`: one critical section guards every whole read and every whole apply, so
the two counters move together. `lock_free`: nothing guards them but what TensorFlow
does for each single variable, so a read can have an update in one variable and not yet
in another. (What is written is the optimizer's choice, see `slots`: some overwrite the parameter
itself, and then updates can be lost here too, and are counted.) `read_modify_write`: what a
beginner writes, `v.assign(v - step)`; an update that lands between the read and the write is lost.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from asyncsgd_edu.engines import optimizers
from asyncsgd_edu.engines.correction import Correction
from asyncsgd_edu.engines.stamps import MOST_STAMPED, Stamped, torn
from asyncsgd_edu.quiet import keras, tf
from asyncsgd_edu.rules.arguments import one_of

ACCESS = ("consistent", "lock_free", "read_modify_write")
CEILING = 2**62  # Never reached: ResourceCountUpTo is used for its atomic count, not for its error.


class Read(NamedTuple):
    """Parameters as a worker sees them, the version they are, and when that was (wall-clock seconds)."""

    values: list[tf.Tensor]
    version: tf.Tensor
    spread: tf.Tensor
    time: tf.Tensor


class Applied(NamedTuple):
    """The version just before the update, 1 if it was applied, 0 if refused, -1 if dropped, and when it was visible."""

    version: tf.Tensor
    done: tf.Tensor
    time: tf.Tensor


class SharedParameters:
    """`tf.Variable`s that several workers read and update, counted.

    `initial` are float32 arrays; `optimizer` is a Keras optimizer that nobody else
    uses. Its slots are made here, before any worker exists. Unless access is `consistent`, the variables
    stand in for longer ones that hold a stamp of each of `workers` workers. `correction` is what is done
    about stale gradients. With `sparse`, gradients are `tf.IndexedSlices` and go through TensorFlow's sparse kernels,
    which change one element after the other: no stamp can vouch for a whole there, so there is none, and what
    is said of a read is only the most that it can have mixed.
    """

    def __init__(
        self,
        initial: Sequence[np.ndarray],
        optimizer: keras.optimizers.Optimizer,
        access: str,
        device: str,
        workers: int = 1,
        correction: Correction | None = None,
        sparse: bool = False,
    ) -> None:
        self.access = one_of("access", access, ACCESS)
        self.device = device
        self.optimizer = optimizer
        self.correction = correction
        self.sparse = sparse
        names = [f"parameter_{i}" for i in range(len(initial))]
        with tf.device(device):
            if access == "consistent" or sparse:
                self._stamped = []
                held = [tf.Variable(value, name=name) for value, name in zip(initial, names, strict=True)]
                self.variables = held
            else:
                atomic = access == "lock_free"
                self._stamped = [Stamped(v, workers, atomic, n) for v, n in zip(initial, names, strict=True)]
                held = [stamped.whole for stamped in self._stamped]
                self.variables = [stamped.variable for stamped in self._stamped]
            optimizers.build(optimizer, self.variables)
        with tf.device("/device:CPU:0"):
            self._started = tf.Variable(0, dtype=tf.int64, name="started")
            self._landed = tf.Variable(0, dtype=tf.int64, name="landed")
            self._limit = tf.Variable(0, dtype=tf.int64, name="limit")
            self.hurried = tf.Variable(False, name="hurried")
            self._section = tf.CriticalSection(name="parameters")
        state = [*held, *optimizer.variables, *(correction.state if correction else ())]
        self._first = [(variable, np.array(variable.numpy())) for variable in state]
        self._values = tf.function(lambda: self.read().values, autograph=False).get_concrete_function()

    def read(self) -> Read:
        """Read all parameters (graph op)."""
        return Read(*self._alone(self._read))

    def apply(
        self,
        gradients: Sequence[tf.Tensor],
        wanted: tf.Tensor,
        worker: tf.Tensor | int = 0,
        read: tuple[tf.Tensor, Sequence[tf.Tensor]] | None = None,
    ) -> Applied:
        """Apply a worker's gradients with the optimizer (graph op), unless not `wanted` or the limit is reached.

        With `read`, the version and the values that they were computed from, they are corrected first.
        """
        return Applied(*self._alone(lambda: self._apply(gradients, wanted, worker, read)))

    def correct(
        self, gradients: Sequence[tf.Tensor], version: tf.Tensor, values: Sequence[tf.Tensor]
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """What the remedy makes of gradients read at `version`, and whether it keeps them (graph op)."""
        staleness = self._landed.read_value() - version
        assert self.correction is not None
        amended = self.correction.gradients(gradients, staleness, self._look()[0], values)
        return amended, self.correction.keeps(staleness)

    def enter(self) -> tf.Tensor:
        """Take the next number and say whether it is within the limit (graph op): that many are let in, no more."""
        return _count(self._started) < self._limit.read_value()

    def _alone(self, action: Callable[[], Any]) -> Any:
        """Run the graph ops of `action` alone under `consistent` access, as they come otherwise."""
        return self._section.execute(action) if self.access == "consistent" else action()

    def _read(self) -> Read:
        version = self._landed.read_value()
        with tf.control_dependencies([version]):
            values, spread = self._look()
        with tf.control_dependencies([*values, spread]):
            if self.access != "consistent" and not self._stamped:
                # Updates let in by now but not landed before: the most that this read can have mixed.
                let_in = tf.minimum(self._started.read_value(), self._limit.read_value())
                spread = tf.maximum(let_in - version, 0)
            return Read(values, version, spread, tf.timestamp())

    def _look(self) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Values, one variable after the other, and how many updates are in some of them only."""
        if not self._stamped:
            return [variable.read_value() for variable in self.variables], tf.zeros([], tf.int64)
        values, stamps = zip(*(stamped.read() for stamped in self._stamped), strict=True)
        return list(values), torn(stamps)

    def _apply(
        self,
        gradients: Sequence[tf.Tensor],
        wanted: tf.Tensor,
        worker: tf.Tensor | int,
        read: tuple[tf.Tensor, Sequence[tf.Tensor]] | None,
    ) -> Applied:
        if read is not None and self.correction is not None:
            gradients, kept = self.correct(gradients, *read)
            admitted = tf.cond(kept, self.enter, lambda: tf.constant(False))  # What is dropped takes nobody's place.
            unused = tf.where(kept | ~wanted, 0, -1)
        else:
            admitted, unused = self.enter(), tf.constant(0)

        def update() -> tuple[tf.Tensor, tf.Tensor]:
            for stamped in self._stamped:
                stamped.signed_by(tf.cast(worker, tf.int32))
            before = self._look()[0] if self.correction else []
            self.optimizer.apply(gradients, self.variables)
            if self.correction:
                self.correction.observe(before, self._look()[0])
            return _count(self._landed), tf.constant(1)

        def leave() -> tuple[tf.Tensor, tf.Tensor]:
            return self._landed.read_value(), unused

        version, done = tf.cond(wanted & admitted, update, leave)
        with tf.control_dependencies([version]):
            return Applied(version, done, tf.timestamp())

    def lost(self) -> tuple[int, ...]:
        """Of the updates so far, how many are no longer in each variable, by its stamps; empty where there are none.

        Call with no worker about.
        """
        landed = self.version
        return tuple(
            max(0, landed - round(float(stamped.read()[1].numpy().sum(dtype=np.float64)))) for stamped in self._stamped
        )

    @property
    def version(self) -> int:
        """Updates that are in the parameters now."""
        return int(self._landed)

    def allow(self, limit: int) -> None:
        """Let updates in up to version `limit`, none before this; call with no worker about.

        Raises ValueError for more than stamps can count.
        """
        if self._stamped and limit > MOST_STAMPED:
            raise ValueError(f"updates under {self.access} access must be at most {MOST_STAMPED} in all, got {limit}")
        self._started.assign(self._landed)
        self._limit.assign(limit)

    def hurry(self, wanted: bool) -> None:
        """Say whether calls of several steps end after the present one."""
        self.hurried.assign(wanted)

    def close(self) -> None:
        """Let no further update in, whoever may still come."""
        self._limit.assign(0)

    def values(self) -> list[np.ndarray]:
        """Copies of the parameters, read as a worker reads them."""
        return [np.array(value.numpy()) for value in self._values()]

    def reset(self) -> None:
        """Return parameters, slots and counters to where they started."""
        for variable, value in self._first:
            variable.assign(value)
        for counter in (self._started, self._landed, self._limit):
            counter.assign(0)


def _count(counter: tf.Variable) -> tf.Tensor:
    """Atomic fetch-and-increment: the number before, int64 scalar. No two callers get the same."""
    return tf.raw_ops.ResourceCountUpTo(resource=counter.handle, limit=CEILING, T=tf.int64)


def packed(*numbers: tf.Tensor) -> tf.Tensor:
    """Scalars of any type as one float64 vector; versions are exact up to 2^53."""
    with tf.device("/device:CPU:0"):
        return tf.stack([tf.cast(number, tf.float64) for number in numbers])


def after(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Wall-clock seconds once all `tensors` have been computed."""
    with tf.control_dependencies(tensors):
        return tf.timestamp()


def average_gradients(towers: Sequence[Sequence[tf.Tensor]], count: tf.Tensor | None = None) -> list[tf.Tensor]:
    """Mean over towers of each parameter's gradient: a list of towers in, one gradient out.

    The mean, not the sum: a sum would be the same as `towers` times the learning rate. They are added one after
    the other and the sum is divided, as replay does it, bit for bit. In a graph `count`, how many there are,
    must come from a variable: a division by a constant would be made into a product with its inverse.
    """
    number = tf.constant(len(towers), tf.float32) if count is None else count
    dense = [[tf.convert_to_tensor(gradient) for gradient in tower] for tower in towers]  # Sparse ones have no sum.
    return [functools.reduce(operator.add, same) / number for same in zip(*dense, strict=True)]
