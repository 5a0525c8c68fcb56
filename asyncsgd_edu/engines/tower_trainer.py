"""Synchronous SGD: a tower on each device, one average, one update.

Every tower reads the same version and computes a gradient of a batch of its
own. The gradients are averaged explicitly and applied once, when the slowest
tower has finished. No gradient is ever stale; everyone waits for everyone.
"""

import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.engines import devices as devices_
from asyncsgd_edu.engines import optimizers
from asyncsgd_edu.engines.gates import OpenGate
from asyncsgd_edu.engines.headers import header_of
from asyncsgd_edu.engines.log import AT, WIDTH, Call, landed, rows_of
from asyncsgd_edu.engines.parameters import SharedParameters, after, average_gradients, packed
from asyncsgd_edu.engines.steps import check_steps, one_by_one
from asyncsgd_edu.engines.trainer import Trainer
from asyncsgd_edu.problems.problem import Problem, check_problem
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_WORKERS, whole_number
from asyncsgd_edu.rules.durations import Duration, check_durations


class TowerTrainer(Trainer):
    """Train `problem` with `towers` towers, each pinned to a device of its own.

    An update uses the mean of the towers' gradients, so its batch is `towers` times
    the problem's. The trace has one row a gradient: `towers` rows an update. `steps_per_call` is how many updates
    are made in one call of TensorFlow, where nothing has to happen between them: more are faster, and logged one by one
    like any others.

    Raises TypeError or ValueError, before anything starts, for an argument that is
    not allowed; more towers than devices is one.
    """

    def __init__(
        self,
        problem: Problem,
        towers: int = 2,
        devices: Sequence[str] | None = None,
        optimizer: Any = None,
        durations: Duration | None = None,
        seed: int = 0,
        steps_per_call: int = 1,
        gate: OpenGate | None = None,
    ) -> None:
        towers = whole_number("towers", towers, 1, MAX_WORKERS)
        self.seed = whole_number("seed", seed, 0, MAX_SEED)
        self.durations = check_durations(durations, towers)
        self.steps_per_call = check_steps(steps_per_call, waits=durations is not None)
        check_problem(problem)
        places = enough_devices(towers, devices)
        own = optimizers.own_copy(optimizer)
        shared = SharedParameters(problem.initial(self.seed), own, "consistent", "/device:CPU:0")
        header = header_of(
            self,
            problem,
            towers,
            self.seed,
            self.durations,
            policy="synchronous",
            devices=places,
            optimizer=optimizers.describe(own),
            steps_per_call=self.steps_per_call,
        )
        super().__init__(problem, shared, header, 1, gate)
        self._build(places)

    def _build(self, places: Sequence[str]) -> None:
        """Make the one graph: whole (`_steps`, so many in turn), and in two halves (`_compute`, `_apply`)."""
        problem, shared, seed = self.problem, self._shared, self.seed
        count = tf.Variable(float(len(places)), trainable=False, name="towers")

        def compute(number: tf.Tensor) -> list[tf.Tensor]:
            read = shared.read()
            reports, losses, gradients = [], [], []
            for tower, place in enumerate(places):
                with tf.device(place), tf.name_scope(f"tower_{tower}"):
                    loss, gradient = problem.gradient(read.values, problem.batch(tower, number, seed))
                    reports.append(packed(read.version, read.spread, read.time, after(gradient), loss))
                    losses.append(loss)
                    gradients.append(gradient)
            return [tf.stack(reports), tf.stack(losses), *average_gradients(gradients, count.read_value())]

        def apply(losses: tf.Tensor, *gradient: tf.Tensor) -> tf.Tensor:
            return packed(*shared.apply(gradient, tf.reduce_all(tf.math.is_finite(losses))))

        def step(number: tf.Tensor) -> tf.Tensor:
            reports, losses, *gradient = compute(number)
            with tf.control_dependencies([reports]):
                update = apply(losses, *gradient)
            return tf.concat([reports, tf.tile(update[None], [len(places), 1])], 1)

        def steps(first: tf.Tensor) -> tf.Tensor:
            if self.steps_per_call == 1:
                return step(first[0])
            return one_by_one(lambda i: step(first[0] + i), first[1], [len(places), WIDTH], shared.hurried)

        number, first_of = tf.TensorSpec([], tf.int64), tf.TensorSpec([2], tf.int64)
        shapes = [tf.TensorSpec(v.shape, v.dtype) for v in shared.variables]
        losses = tf.TensorSpec([len(places)], tf.float32)
        self._steps = tf.function(steps, autograph=False).get_concrete_function(first_of)
        self._compute = tf.function(compute, autograph=False).get_concrete_function(number)
        self._apply = tf.function(apply, autograph=False).get_concrete_function(losses, *shapes)
        # Once before a run, when no update is let in: a first call takes far longer than others.
        self._steps(tf.constant([0, 1], tf.int64))
        _, at, *average = self._compute(tf.constant(0, tf.int64))
        self._apply(at, *average)

    def _get_ready(self) -> None:
        """Nothing: one thread drives the graph."""

    def _round(self, thread: int, number: int) -> Call | np.ndarray:
        """Read once, compute on every tower, average, apply once."""
        towers = range(self.workers)
        with self.gate.free_pass(thread) as free:
            if free and self.durations is None:
                # All of it, in one call. No step is begun that would come too late: there is but one thread.
                count = min(self.steps_per_call, self._limit - self.version) if self.steps_per_call > 1 else 1
                call = Call(towers, number, self._steps(tf.constant([number, count], tf.int64)).numpy())
                self._next_batch[thread] = number + call.steps
                return call

        with self.gate.turn(thread, "read"):
            reports, losses, *average = self._compute(tf.constant(number, tf.int64))
        rows = rows_of([Call(towers, number, reports.numpy())])
        self._log.in_flight(rows)
        if self.durations is not None:
            # The towers work side by side, so the update waits for the slowest of them.
            rows[:, AT["ready_time"]] += [self.durations.seconds(self.seed, tower, number) for tower in towers]
            self.gate.sleep(max(0.0, rows[:, AT["ready_time"]].max() - time.time()))

        with self.gate.turn(thread, "apply"):
            applied = self._apply(losses, *average)
        return landed(rows, applied)

    def _name_worker(self, thread: int, error: BaseException) -> int:
        """Number of the tower that an error of the graph names, else 0."""
        named = re.search(r"tower_(\d+)", str(error))
        return int(named[1]) if named else 0


def enough_devices(towers: int, devices: Sequence[str] | None) -> tuple[str, ...]:
    """Names of `towers` different devices. Raises ValueError if there are fewer."""
    if devices is not None and len(devices) > towers:
        raise ValueError(f"{len(devices)} devices for {towers} towers: name one for each")
    have = devices_.check_devices(devices) if devices is not None else tuple(devices_.available(towers))
    if len(set(have)) < len(have):
        raise ValueError(f"each tower needs a device of its own, got {list(have)}")
    if towers > len(have):
        raise ValueError(
            f"{towers} towers need {towers} logical devices, this process has {len(have)}: "
            f"call configure_devices({towers}) before anything else of TensorFlow runs, or restart the kernel"
        )
    return have[:towers]
