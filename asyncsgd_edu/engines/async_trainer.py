"""Asynchronous SGD: N threads, one set of parameters, no coordination.

Each worker repeats the same three lines: read the parameters, compute a
gradient, apply it. Nobody waits for anybody. Between a worker's read and its
apply the others apply theirs, so the gradient lands on parameters that are
newer than those it was computed from. That difference is the staleness, and
`AsyncTrainer._round` is where it arises.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.engines import optimizers
from asyncsgd_edu.engines.correction import Correction
from asyncsgd_edu.engines.devices import places_of_workers
from asyncsgd_edu.engines.gates import OpenGate
from asyncsgd_edu.engines.headers import header_of
from asyncsgd_edu.engines.log import AT, WIDTH, Call, rows_of
from asyncsgd_edu.engines.meeting import Late, Meeting, NoMeeting
from asyncsgd_edu.engines.parameters import Applied, SharedParameters, after, packed
from asyncsgd_edu.engines.steps import check_steps, one_by_one
from asyncsgd_edu.engines.trainer import Trainer
from asyncsgd_edu.problems.problem import Problem, check_problem
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_WORKERS, whole_number
from asyncsgd_edu.rules.durations import Duration, check_durations
from asyncsgd_edu.rules.policies import Asynchronous, Policy, check_policy
from asyncsgd_edu.rules.remedies import Remedy, check_remedy


class AsyncTrainer(Trainer):
    """Train `problem` with `workers` threads that do not wait for each other.

    `devices` pins workers to devices, round robin; by default all share the first.
    `access` is `consistent` (a whole read and a whole apply are atomic), `lock_free`
    (only TensorFlow's own per-variable atomicity) or `read_modify_write` (not even that: updates
    are lost, and counted). `policy` says whose gradients are averaged into an update and who must wait;
    the default lets everybody go on at once. `durations` are slept between the gradient and its apply, and
    the trace says so. `remedy` corrects stale gradients. `steps_per_call` is how many steps a thread makes in
    one call of TensorFlow, where nothing has to happen between them: more are faster, and logged one by one like
    any others. `gate` can force an order.

    A problem with sparse gradients is updated through TensorFlow's sparse kernels under `lock_free` access
    without a remedy (that is Hogwild!), and elsewhere like any other.

    Raises TypeError or ValueError, before anything starts, for an argument that is not allowed.
    """

    def __init__(
        self,
        problem: Problem,
        workers: int = 4,
        devices: Sequence[str] | None = None,
        optimizer: Any = None,
        access: str = "consistent",
        policy: Policy[Any] = Asynchronous(),
        durations: Duration | None = None,
        remedy: Remedy | None = None,
        seed: int = 0,
        steps_per_call: int = 1,
        gate: OpenGate | None = None,
    ) -> None:
        workers = whole_number("workers", workers, 1, MAX_WORKERS)
        self.seed = whole_number("seed", seed, 0, MAX_SEED)
        self.durations = check_durations(durations, workers)
        self.policy = check_policy(policy)
        self.policy.begin(workers)  # Says what does not fit so many workers.
        self.remedy = check_remedy(remedy)
        self.steps_per_call = check_steps(
            steps_per_call, waits=not isinstance(policy, Asynchronous) or durations is not None
        )
        check_problem(problem)
        # Devices first: even an optimizer starts TensorFlow, and then no more of them can be made.
        places = places_of_workers(devices, workers)
        own = optimizers.own_copy(optimizer)
        saved = optimizers.saved_up(own)
        if access != "consistent" and saved:
            raise ValueError(
                f"gradient_accumulation_steps must be None under {access} access, as an update that writes nothing "
                f"leaves no stamp, got {saved}"
            )
        home = places[0] if len(set(places)) == 1 else "/device:CPU:0"
        initial = problem.initial(self.seed)
        correction = Correction(remedy, problem, initial) if remedy else None
        sparse = problem.sparse and access == "lock_free" and remedy is None
        shared = SharedParameters(initial, own, access, home, workers, correction, sparse)
        header = header_of(
            self,
            problem,
            workers,
            self.seed,
            self.durations,
            policy=str(policy),
            access=access,
            devices=places,
            optimizer=optimizers.describe(own),
            remedy=remedy.describe() if remedy else None,
            steps_per_call=self.steps_per_call,
        )
        super().__init__(problem, shared, header, workers, gate)
        averages = not isinstance(policy, Asynchronous)
        towers = {p: Tower(problem, shared, self.seed, p, steps_per_call, averages) for p in dict.fromkeys(places)}
        self._towers = [towers[places[worker % len(places)]] for worker in range(workers)]
        for tower in towers.values():
            tower.rehearse()

    def _get_ready(self) -> None:
        """All gradients have ended: the policy begins anew."""
        if isinstance(self.policy, Asynchronous):
            self._meeting: Meeting | NoMeeting = NoMeeting(self._towers)
        else:
            self._meeting = Meeting(self.policy, self.workers, self._towers[0], lambda: self.version)
        # With nobody to wait for and nothing to sleep, a round is one call.
        self._in_one = isinstance(self._meeting, NoMeeting) and self.durations is None

    def _round(self, worker: int, number: int) -> Call | np.ndarray | None:
        """Read, compute, apply: one gradient of one worker."""
        tower, batch = self._towers[worker], tf.constant([worker, number], tf.int64)
        with self.gate.free_pass(worker) as free:
            if free and self._in_one:
                call = Call([worker], number, tower.steps(batch).numpy())  # The three, in one call.
                self._next_batch[worker] = number + call.steps
                return call

        with self.gate.turn(worker, "read", when=lambda: self._meeting.may_read(worker)):
            self._meeting.reads(worker)
            read, *rest = tower.compute(batch)
        row = rows_of([Call([worker], number, read.numpy())])
        self._log.in_flight(row)
        if self.durations is not None:
            self.gate.sleep(self.durations.seconds(self.seed, worker, number))
            row[:, AT["ready_time"]] = time.time()

        # The gradient is in flight. Whatever the others apply now makes it stale.

        with self.gate.turn(worker, "apply"):
            return self._meeting.deliver(worker, Late(row, rest))


class Tower:
    """The graph of a step on one device: whole (`steps`), and in two halves (`compute`, `land`).

    A batch is named by int64 [worker, number]. `compute` returns a float64 vector
    (read version, read spread, read time, ready time, loss), the loss, the gradient and, if a remedy
    looks back, the values read. `land` takes int64 [worker, read version] and these, corrects the gradient and
    applies it, and returns (version, applied, apply time). `steps` makes `steps_per_call` whole steps, up to
    the first that is not applied, and returns both vectors in one for each. One packed vector each,
    because turning many small tensors into Python numbers would cost more than the step.
    `correct` (None without a remedy) and `apply` are the halves of `land`; with `averages` only, for gradients that
    are averaged in between.
    """

    def __init__(
        self,
        problem: Problem,
        shared: SharedParameters,
        seed: int,
        device: str,
        steps_per_call: int = 1,
        averages: bool = False,
    ) -> None:
        count = len(shared.variables)
        looks_back = shared.correction is not None and shared.correction.looks_back
        gradient_of = problem.sparse_gradient if shared.sparse else problem.gradient

        def read_and_compute(batch: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
            with tf.device(device):
                read = shared.read()
                loss, gradient = gradient_of(read.values, problem.batch(batch[0], batch[1], seed))
            numbers = [read.version, read.spread, read.time, after(gradient), loss]
            return numbers, [*gradient, *(read.values if looks_back else [])]

        def correct_and_apply(worker: tf.Tensor, version: tf.Tensor, loss: tf.Tensor, *rest: tf.Tensor) -> Applied:
            # A loss that is not finite ends the run; its gradient must not spoil the parameters.
            return shared.apply(rest[:count], tf.math.is_finite(loss), worker, read=(version, rest[count:]))

        def step(batch: tf.Tensor) -> tf.Tensor:
            numbers, rest = read_and_compute(batch)
            with tf.control_dependencies(numbers):  # Or the times could be those of after the update.
                return packed(*numbers, *correct_and_apply(batch[0], numbers[0], numbers[-1], *rest))

        def compute(batch: tf.Tensor) -> list[tf.Tensor]:
            numbers, rest = read_and_compute(batch)
            return [packed(*numbers), numbers[-1], *rest]

        def land(whose: tf.Tensor, loss: tf.Tensor, *rest: tf.Tensor) -> tf.Tensor:
            return packed(*correct_and_apply(whose[0], whose[1], loss, *rest))

        def apply(worker: tf.Tensor, loss: tf.Tensor, *gradient: tf.Tensor) -> tf.Tensor:
            return packed(*shared.apply(gradient, tf.math.is_finite(loss), worker))

        def correct(whose: tf.Tensor, loss: tf.Tensor, *rest: tf.Tensor) -> list[tf.Tensor]:
            gradient, keep = shared.correct(rest[:count], whose[1], rest[count:])
            return [keep, loss, *gradient]

        def steps(batch: tf.Tensor) -> tf.Tensor:
            def nth(i: tf.Tensor) -> tf.Tensor:
                return step(batch + tf.stack([tf.zeros_like(i), i]))

            return one_by_one(nth, steps_per_call, [WIDTH], shared.hurried)

        def graph(function: Callable[..., Any], *specs: tf.TypeSpec) -> Any:
            return tf.function(function, autograph=False).get_concrete_function(*specs)

        pair, one = tf.TensorSpec([2], tf.int64), tf.TensorSpec([], tf.int64)
        shapes = [tf.TensorSpec([], tf.float32), *(tf.TensorSpec(v.shape, v.dtype) for v in shared.variables)]
        self.steps = graph(steps if steps_per_call > 1 else step, pair)
        self.compute = graph(compute, pair)
        rest = [tf.type_spec_from_value(part) for part in self.compute.structured_outputs[1:]]
        self.land = graph(land, pair, *rest)
        self.apply = graph(apply, one, *shapes) if averages else None
        self.correct = graph(correct, pair, *rest) if averages and shared.correction else None

    def rehearse(self) -> None:
        """Run everything once before a run, when no update is let in: a first call takes far longer than others."""
        pair = tf.constant([0, 0], tf.int64)
        self.steps(pair)
        _, *rest = self.compute(pair)
        self.land(pair, *rest)
        if self.apply:
            _, *average = self.correct(pair, *rest) if self.correct else (True, *rest)
            self.apply(pair[0], *average)
