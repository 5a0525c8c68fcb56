"""The arithmetic of a schedule as one TensorFlow graph: read an old version, compute, apply, row by row.

One thread, in the order of the rows; nothing here depends on when or where a gradient was made.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from asyncsgd_edu.engines import optimizers
from asyncsgd_edu.engines.correction import Correction
from asyncsgd_edu.engines.plan import ROW as PLAN_ROW
from asyncsgd_edu.engines.plan import Plan
from asyncsgd_edu.problems.problem import Problem
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.remedies import Remedy

CHUNK = 4096  # Most rows in one call: bounds memory, and is how often a loss is looked at.
SLICE = 0.25  # Seconds that a call should take at most, to be stopped between two.
AT = {name: place for place, name in enumerate(PLAN_ROW)}


class Outcome(NamedTuple):
    """What came of the rows that were done, up to and with the first whose loss is not finite.

    `measured` is float32 of shape [rows, 3]: loss and, where asked for, gap and gradient error. `read` and
    `written` are the parameters that each row read, and those after it, of shape [rows, size], or [rows, 0].
    """

    measured: np.ndarray
    read: np.ndarray
    written: np.ndarray
    parameters: list[np.ndarray]


class Replayer:
    """Variables, slots for old parameters, and the loop over rows; can be run again and again.

    `optimizer` is a Keras optimizer that nobody else uses. `slots` and `single` are at
    least what the plans to come have.
    """

    def __init__(
        self,
        problem: Problem,
        optimizer: Any,
        seed: int,
        slots: int,
        *,
        device: str = "/device:CPU:0",
        single: bool = False,
        remedy: Remedy | None = None,
        measure: bool = False,
        path: bool = False,
    ) -> None:
        self._problem, self._optimizer, self._seed = problem, optimizer, seed
        self._device, self._single, self._measure, self._path = device, single, measure, path
        initial = problem.initial(seed)
        self._size = sum(value.size for value in initial) if path else 0
        with tf.device(device):
            self._now = [tf.Variable(value) for value in initial]
            self._old = [tf.Variable(np.repeat(value[None], slots, axis=0)) for value in initial]
            self._sum = [tf.Variable(np.zeros_like(value)) for value in initial]
            optimizers.build(optimizer, self._now)
        self._correction = Correction(remedy, problem, initial) if remedy else None
        state = [*self._now, *self._old, *self._sum, *optimizer.variables]
        state += self._correction.state if self._correction else []
        self._first = [(variable, np.array(variable.numpy())) for variable in state]
        specs = (tf.TensorSpec([None, len(PLAN_ROW)], tf.int64), tf.TensorSpec([None], tf.float32))
        self._chunk = tf.function(self._loop, autograph=False).get_concrete_function(*specs)

    def run(
        self,
        plan: Plan,
        stop: Callable[[], bool] = lambda: False,
        seen: Callable[[np.ndarray], None] = lambda _: None,
    ) -> Outcome:
        """Do the rows from the initial parameters on, until `stop` says so; `seen` is given each stretch's losses."""
        for variable, value in self._first:
            variable.assign(value)
        found = [np.empty((0, 3 + 2 * self._size), np.float32)]
        low, size = 0, 16
        while low < len(plan.rows) and not stop():
            began = time.perf_counter()
            rows, sizes = (tf.constant(column[low : low + size]) for column in (plan.rows, plan.size))
            done, part = self._chunk(rows, sizes)
            found.append(part.numpy()[: int(done)])
            seen(found[-1][:, 0])
            if int(done) < len(rows) or not np.isfinite(found[-1][-1, 0]):
                break
            low += size
            took = time.perf_counter() - began
            size = min(CHUNK, 2 * size) if took < SLICE / 2 else max(1, size // 2) if took > SLICE else size
        measured, read, written = np.split(np.concatenate(found), [3, 3 + self._size], axis=1)
        return Outcome(measured, read, written, [np.array(value.numpy()) for value in self._now])

    def _loop(self, rows: Any, sizes: Any) -> Any:
        """How many rows were done, and what was measured of a stretch of rows, float32 of shape [rows, 3 or more]."""
        count = tf.shape(rows)[0]

        def body(i: Any, found: Any, fine: Any) -> tuple[Any, Any, Any]:
            row = rows[i]
            with tf.device(self._device):
                read = [tf.gather(old, row[AT["slot_read"]]) for old in self._old]
                batch = self._problem.batch(row[AT["worker"]], row[AT["batch"]], self._seed)
                loss, gradient = self._problem.gradient(read, batch)
            fine = tf.math.is_finite(loss)
            measured = tf.stack([loss, *self._distance(read, gradient, batch)])

            def use() -> Any:
                with tf.control_dependencies(self._use(gradient, read, sizes[i], row)):
                    return tf.constant(True)

            with tf.control_dependencies([*read, *gradient, measured]):
                used = tf.cond(fine & (sizes[i] > 0), use, lambda: tf.constant(False))
            with tf.control_dependencies([used]):
                row_found = tf.concat([measured, *self._flat(read), *self._flat(self._now)], 0)
                return i + 1, found.write(i, row_found), fine

        found = tf.TensorArray(tf.float32, size=count, element_shape=[3 + 2 * self._size])
        going = (0, found, tf.constant(True))
        done, found, _ = tf.while_loop(lambda i, _, fine: (i < count) & fine, body, going, parallel_iterations=1)
        return done, found.stack()

    def _flat(self, values: Sequence[Any]) -> list[Any]:
        """All parameters in one row, if their path is wanted."""
        return [tf.reshape(value, [-1]) for value in values] if self._path else []

    def _distance(self, read: Sequence[Any], gradient: Sequence[Any], batch: Any) -> list[Any]:
        """Root mean squares of how far the parameters, and with them the gradient, have moved since the read."""
        if not self._measure:
            return [tf.zeros([]), tf.zeros([])]
        now = [variable.read_value() for variable in self._now]
        _, here = self._problem.gradient(now, batch)
        return [_apart(now, read), _apart(here, gradient)]

    def _use(self, gradient: Sequence[Any], read: Sequence[Any], size: Any, row: Any) -> list[Any]:
        """Apply a gradient, or add it to its update's mean and apply that with the last."""
        if self._correction is not None:
            now = [variable.read_value() for variable in self._now]
            gradient = self._correction.gradients(gradient, row[AT["staleness"]], now, read)
        if self._single:
            return self._apply(gradient, row[AT["slot_made"]])
        for total, part in zip(self._sum, gradient, strict=True):
            total.assign_add(part)

        def close() -> Any:
            done = self._apply([total.read_value() / size for total in self._sum], row[AT["slot_made"]])
            with tf.control_dependencies(done):
                for total in self._sum:
                    total.assign(tf.zeros_like(total))
            return tf.constant(True)

        return [tf.cond(row[AT["closes"]] > 0, close, lambda: tf.constant(False))]

    def _apply(self, gradient: Sequence[Any], slot: Any) -> list[Any]:
        before = [variable.read_value() for variable in self._now]
        self._optimizer.apply(list(gradient), self._now)
        after = [variable.read_value() for variable in self._now]
        steps = self._correction.observe(before, after) if self._correction else []
        kept = [
            old.scatter_update(tf.IndexedSlices(value[None], slot[None]))
            for old, value in zip(self._old, after, strict=True)
        ]
        return [*kept, *steps]


def _apart(some: Sequence[Any], others: Sequence[Any]) -> Any:
    """Root mean square of the difference, over all elements of all arrays."""
    total = tf.add_n([tf.reduce_sum(tf.square(a - b)) for a, b in zip(some, others, strict=True)])
    return tf.sqrt(total / sum(int(np.prod(value.shape)) for value in some))
