"""The arithmetic of a schedule, done again on one thread.

A trace says in which order gradients were applied, which version each was
read at and which batch it used. That is all that the result depends on, so the
same race can be run again with another optimizer or learning rate, and a
simulated or written schedule can be given losses.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from asyncsgd_edu.engines import devices, optimizers
from asyncsgd_edu.header import Ended
from asyncsgd_edu.problems.problem import Problem, check_problem
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import positive_number
from asyncsgd_edu.trace import Trace

CHUNK = 4096  # Most rows in one call: bounds memory, and is how often a loss is looked at.
SLICE = 0.25  # Seconds that a call should take at most, to be stopped between two.


def never() -> bool:
    """Nobody asks to stop."""
    return False


def replay(
    trace: Trace,
    problem: Problem,
    optimizer: Any = None,
    learning_rate: float | None = None,
    *,
    stop: Callable[[], bool] = never,
) -> Trace:
    """Do the arithmetic of `trace` on `problem`; returns its rows with `loss` filled, and `parameters`.

    `optimizer` is a Keras optimizer, SGD(0.05) by default, with `learning_rate` in place of
    its own if given. The initial parameters and batches come from the trace's seed. Gradients of
    one update are averaged; dropped ones are computed for their loss only. Old parameters are
    kept as far back as the trace's largest staleness. A loss that is not finite ends the replay
    as `diverged` there. `stop` is asked a few times a second: once it says so, the replay ends as `stopped`
    with the rows done so far.

    The result is bit for bit that of a run with `consistent` access. Under `lock_free` access a read may have
    mixed versions, and additions may have come in another order, so there it is close but not equal.

    Warns when the trace is of another problem. Raises ValueError for a trace that breaks a law.
    """
    check_problem(problem)
    check_replayable(trace)
    devices.prepare()
    own = optimizers.own_copy(optimizer)
    if learning_rate is not None:
        own.learning_rate = positive_number("learning_rate", learning_rate)
    recorded = trace.header.problem.get("name")
    if recorded not in (None, problem.name):
        warnings.warn(f"the trace is of {recorded}, replayed on {problem.name}", stacklevel=2)
    losses, values = _Arithmetic(trace, problem, own).run(stop)
    columns = {name: column[: len(losses)] for name, column in trace.columns.items()}
    header = replace(
        trace.header,
        trainer="replay",
        problem=problem.describe(),
        optimizer=optimizers.describe(own),
        batch_size=problem.batch_size,
    )
    if len(losses) and not np.isfinite(losses[-1]):
        header = replace(header, ended=Ended("diverged", version=int(trace.read_version[len(losses) - 1])))
    elif len(losses) < len(trace):
        header = replace(header, ended=Ended("stopped"))
    return Trace(header, {**columns, "loss": losses}, values)


def check_replayable(trace: Trace) -> None:
    """Raise ValueError unless the trace's rows say exactly which parameters each gradient saw."""
    if len(trace) == 0:
        raise ValueError("a trace without rows cannot be replayed")
    if trace.apply_version[trace.applied][:1].tolist() not in ([0], []):
        raise ValueError("only a trace from version 0 on can be replayed, this one begins later")
    broken = trace.audit()
    if broken:
        raise ValueError(f"a trace that breaks a law cannot be replayed: {broken[0]}")


class _Arithmetic:
    """Variables, a ring of old parameters, and the loop over rows as one graph."""

    def __init__(self, trace: Trace, problem: Problem, optimizer: Any) -> None:
        self._trace, self._problem, self._optimizer = trace, problem, optimizer
        end = trace.flights.end[: len(trace)]
        depth = int((end - trace.read_version).max()) + 1
        initial = problem.initial(trace.header.seed)
        with tf.device("/device:CPU:0"):
            self._now = [tf.Variable(value) for value in initial]
            self._old = [tf.Variable(np.repeat(value[None], depth, axis=0)) for value in initial]
            self._sum = [tf.Variable(np.zeros_like(value)) for value in initial]
            optimizer.build(self._now)
        self._depth = depth
        applied = trace.applied
        size = np.bincount(end[applied].astype(int), minlength=1)
        # The last gradient of an update closes it: the mean is applied there.
        last = np.zeros(len(trace), bool)
        last[np.flatnonzero(applied)[np.cumsum(size[size > 0]) - 1]] = True
        self._single = bool(applied.all() and (size == 1).all())
        share = np.where(applied, 1.0 / np.maximum(1, size[np.minimum(end, len(size) - 1)]), 0.0)
        self._rows = (
            np.stack([trace.worker, trace.batch, trace.read_version, end, last], axis=1).astype(np.int64),
            share.astype(np.float32),
        )
        specs = (tf.TensorSpec([None, 5], tf.int64), tf.TensorSpec([None], tf.float32))
        self._chunk = tf.function(self._loop, autograph=False).get_concrete_function(*specs)

    def run(self, stop: Callable[[], bool]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Losses of the rows, up to and with the first that is not finite, and the final parameters."""
        losses = [np.empty(0, np.float32)]
        low, size = 0, 16
        while low < len(self._trace) and not stop():
            began = time.perf_counter()
            rows, share = (tf.constant(column[low : low + size]) for column in self._rows)
            done, part = self._chunk(rows, share)
            losses.append(part.numpy()[: int(done)])
            if int(done) < len(rows) or not np.isfinite(losses[-1][-1]):
                break
            low += size
            took = time.perf_counter() - began
            size = min(CHUNK, 2 * size) if took < SLICE / 2 else max(1, size // 2) if took > SLICE else size
        return np.concatenate(losses), [np.array(value.numpy()) for value in self._now]

    def _loop(self, rows: Any, share: Any) -> Any:
        """How many rows were done, and losses of a stretch of rows, float32 of shape [rows]."""
        count = tf.shape(rows)[0]

        def body(i: Any, losses: Any, fine: Any) -> tuple[Any, Any, Any]:
            row = rows[i]
            read = [tf.gather(old, row[2] % self._depth) for old in self._old]
            batch = self._problem.batch(row[0], row[1], self._trace.header.seed)
            loss, gradient = self._problem.gradient(read, batch)
            fine = tf.math.is_finite(loss)

            def use() -> Any:
                with tf.control_dependencies(self._use(gradient, share[i], row[3], row[4] > 0)):
                    return tf.constant(True)

            with tf.control_dependencies([*read, *gradient]):
                used = tf.cond(fine, use, lambda: tf.constant(False))
            with tf.control_dependencies([used]):
                return i + 1, losses.write(i, loss), fine

        losses = tf.TensorArray(tf.float32, size=count, element_shape=[])
        going = (0, losses, tf.constant(True))
        done, losses, _ = tf.while_loop(lambda i, _, fine: (i < count) & fine, body, going, parallel_iterations=1)
        return done, losses.stack()

    def _use(self, gradient: Sequence[Any], share: Any, version: Any, last: Any) -> list[Any]:
        """Apply a gradient, or add it to its update's mean and apply that with the last."""
        if self._single:
            return self._apply(gradient, version)
        for total, part in zip(self._sum, gradient, strict=True):
            total.assign_add(share * part)

        def close() -> Any:
            done = self._apply([total.read_value() for total in self._sum], version)
            with tf.control_dependencies(done):
                for total in self._sum:
                    total.assign(tf.zeros_like(total))
            return tf.constant(True)

        return [tf.cond(last, close, lambda: tf.constant(False))]

    def _apply(self, gradient: Sequence[Any], version: Any) -> list[Any]:
        self._optimizer.apply(list(gradient), self._now)
        place = (version + 1) % self._depth
        return [
            old.scatter_update(tf.IndexedSlices(now.read_value()[None], place[None]))
            for old, now in zip(self._old, self._now, strict=True)
        ]
