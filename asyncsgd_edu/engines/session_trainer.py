"""Asynchronous SGD as it was first written (2016): a graph, a session, and threads that run it.

    loss, gradients = ...                               # the graph: once
    train_op = optimizer.apply_gradients(zip(gradients, variables))
    def work():
        while True:
            session.run(train_op)                       # the work: again and again
    for _ in range(4):
        threading.Thread(target=work).start()           # asynchronous: that is all

Here are the same lines with a log around them, and with the stop that the recipe left to do. For several
devices the graph has a step for each, all of them over the same variables, and each thread runs one.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from asyncsgd_edu.engines.devices import places_of_workers
from asyncsgd_edu.engines.gates import OpenGate
from asyncsgd_edu.engines.headers import header_of
from asyncsgd_edu.engines.log import AT, TAIL, Call, rows_of
from asyncsgd_edu.engines.parameters import after, packed
from asyncsgd_edu.engines.session_graph import Copied, copied_gradient
from asyncsgd_edu.engines.session_optimizers import check_optimizer, describe, own_optimizer
from asyncsgd_edu.engines.session_parameters import CPU, HERE, SessionParameters
from asyncsgd_edu.engines.trainer import Trainer
from asyncsgd_edu.problems.problem import Problem, check_problem
from asyncsgd_edu.quiet import tf, without_greetings
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_WORKERS, whole_number
from asyncsgd_edu.rules.durations import Duration, check_durations

v1 = tf.compat.v1


class Step(NamedTuple):
    """What a session runs: a step as a whole, or its first half. Reports are packed, as in `log.ROW`.

    `train_op` gives the whole report, `compute` the report up to the loss, the loss and the gradient.
    """

    train_op: Any
    compute: list[Any]


class SessionTrainer(Trainer):
    """Train `problem` with `workers` threads that run a session's `train_op`, without coordination.

    `devices` pins workers to devices, round robin: each device has a step of its own in the graph, and
    the steps share the variables. By default all workers share the first device. `optimizer` is one of
    `tf.compat.v1.train`, which is copied and must not have been used yet, or a function without arguments that
    makes one within the graph; GradientDescentOptimizer(0.05) by default. `durations` are slept between the
    gradient and its apply, and the trace says so. `gate` can force an order.

    Access is lock free: nothing guards the variables but what TensorFlow does for each single one. The column
    `read_spread` is an upper bound of the versions that a read has mixed, and 0 for a problem with one
    variable. Some optimizers keep more than that unguarded: Adam's powers of beta lose updates.

    Raises TypeError or ValueError, before anything starts, for an argument that is not allowed.
    """

    def __init__(
        self,
        problem: Problem,
        workers: int = 4,
        devices: Sequence[str] | None = None,
        optimizer: Any = None,
        durations: Duration | None = None,
        seed: int = 0,
        gate: OpenGate | None = None,
    ) -> None:
        workers = whole_number("workers", workers, 1, MAX_WORKERS)
        self.seed = whole_number("seed", seed, 0, MAX_SEED)
        self.durations = check_durations(durations, workers)
        check_problem(problem)
        check_optimizer(optimizer)
        # Devices before any graph: it starts TensorFlow, and then no more of them can be made.
        places = places_of_workers(devices, workers)
        gradient = copied_gradient(problem, self.seed)
        with tf.Graph().as_default():
            with tf.device(CPU):
                own = own_optimizer(optimizer)
            header = header_of(
                self,
                problem,
                workers,
                self.seed,
                self.durations,
                access="lock_free",
                devices=places,
                optimizer=describe(own),
            )
            home = places[0] if len(set(places)) == 1 else CPU
            shared: Any = SessionParameters(problem.initial(self.seed), own, home)
            self._build(gradient, shared, places)
            with without_greetings():  # The first session of a process has one of its own.
                self._session = shared.open()
        super().__init__(problem, shared, header, workers, gate)
        self._rehearse()

    def _build(self, gradient: Copied, shared: SessionParameters, places: Sequence[str]) -> None:
        """Make the graph: a step for each device, all over the same variables, and one second half for all."""
        self._batch = v1.placeholder(tf.int64, [2], "worker_and_number")  # Which one: its data are drawn in the graph.
        steps = {}
        for tower, place in enumerate(dict.fromkeys(places)):
            read = shared.read()
            with tf.device(place):
                loss, *gradients = gradient(self._batch, *read.values, name=f"tower_{tower}")
            with tf.device(CPU):
                report = packed(read.version, read.spread, read.time, after(gradients), loss)
            with tf.control_dependencies([report]):
                train_op = tf.concat([report, packed(*shared.apply(gradients, loss))], 0)
            steps[place] = Step(train_op, [report, loss, *gradients])
        self._steps = [steps[place] for place in places]
        # A gradient that was slept on, or waited for its turn, comes back from Python.
        shapes = [(), *(variable.shape for variable in shared.variables())]
        self._late = [v1.placeholder(tf.float32, shape) for shape in shapes]
        self._apply = packed(*shared.apply(self._late[1:], self._late[0]))

    def _rehearse(self) -> None:
        """Run everything once before a run, when no update is let in: a first call takes far longer than others."""
        for step in self._steps:
            self._run(step.train_op, {self._batch: (0, 0)})
            _, *rest = self._run(step.compute, {self._batch: (0, 0)})
        self._run(self._apply, dict(zip(self._late, rest, strict=True)))

    def _get_ready(self) -> None:
        """Nothing: the graph is made, and a session serves all."""

    def _round(self, worker: int, number: int) -> Call | np.ndarray:
        """Run a step: read, compute, apply."""
        step, batch = self._steps[worker % len(self._steps)], {self._batch: (worker, number)}
        with self.gate.free_pass(worker) as free:
            if free and self.durations is None:
                return Call([worker], number, self._run(step.train_op, batch))

        # The same in two calls, for something happens in between.
        with self.gate.turn(worker, "read"):
            report, *rest = self._run(step.compute, batch)
        row = rows_of([Call([worker], number, report)])
        self._log.in_flight(row)
        if self.durations is not None:
            self.gate.sleep(self.durations.seconds(self.seed, worker, number))
            row[:, AT["ready_time"]] = time.time()

        with self.gate.turn(worker, "apply"):
            row[:, -len(TAIL) :] = self._run(self._apply, dict(zip(self._late, rest, strict=True)))
            return row

    def _run(self, fetches: Any, feeds: dict[Any, Any]) -> Any:
        return self._session.run(fetches, feeds, options=HERE)
