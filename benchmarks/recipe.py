"""Logged steps beside the recipe of 2016: `session.run(train_op)` in N threads, nothing logged.

    python benchmarks/recipe.py [--threads 1 2 4 8] [--updates 5000] [--repeats 5] [--json]

The work is the same on every side: least squares with 20 weights, batches of 32 drawn in the graph, plain SGD, no
coordination. `recipe` is the loop as it was written then. `bare` is a TensorFlow 2 loop, one call a step, that cannot
even be stopped. `unlogged` is `AsyncTrainer` with the log taken out: its threads, its gate, its exact stop and its
refusal of a loss that is not finite, but no versions, stamps, times or rows. `logged` is `AsyncTrainer` with
`lock_free` access, one call a step; `logged 50` makes 50 steps in a call. They take turns.

How far ahead `logged 50` is depends on the machine. It saves the way from Python into TensorFlow, which the recipe goes
at each step, and pays for some 150 graph ops of a step that is logged. Two machines of two cores gave, for 1 to 8
threads and with the same code, 2.0 to 2.5 and 1.2 to 1.7; `logged / unlogged` was 0.90 to 0.97 and 0.71 to 0.93.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from turns import Row, Table, at_least_one, command, medians, rate, ratio, show, take_turns

from asyncsgd_edu import AsyncTrainer, Problem, configure_devices
from asyncsgd_edu.engines.gates import Stopped
from asyncsgd_edu.problems.randomness import batch_seed
from asyncsgd_edu.quiet import keras, tf

RATE = 0.01
RATIOS = (("logged 50", "recipe"), ("logged", "unlogged"), ("logged", "bare"))
BAR = "logged 50 / recipe at least 2.0, logged / unlogged at least 0.90"


class LeastSquares(Problem):
    """Find the 20 weights that made y from x, 32 samples a batch."""

    name = "least squares"
    batch_size = 32
    true = np.linspace(-1, 1, 20, dtype=np.float32)

    def initial(self, seed: int) -> list[np.ndarray]:
        """Zeros, shape [20]."""
        return [np.zeros(20, np.float32)]

    def batch(self, worker: Any, number: Any, seed: int) -> Any:
        """Inputs of shape [32, 20] and targets of shape [32]."""
        x = tf.random.stateless_normal([self.batch_size, 20], batch_seed(seed, worker, number))
        return x, tf.linalg.matvec(x, tf.constant(self.true))

    def loss(self, parameters: Sequence[Any], batch: Any) -> Any:
        """Half the mean square."""
        return 0.5 * tf.reduce_mean(tf.square(tf.linalg.matvec(batch[0], parameters[0]) - batch[1]))

    def evaluate(self, parameters: Sequence[np.ndarray]) -> dict[str, float]:
        """The distance from the true weights."""
        return {"loss": float(0.5 * np.sum((parameters[0] - self.true) ** 2))}


def in_threads(count: int, updates: int, step: Callable[[int, int], object]) -> None:
    """Call step(worker, number) from `count` threads, `updates` times in all."""

    def work(worker: int) -> None:
        # The first workers do one more where the updates do not divide.
        for number in range(updates // count + (worker < updates % count)):
            step(worker, number)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def recipe(threads: int) -> Callable[[int], None]:
    """The recipe: one train_op, a session, threads."""
    problem, graph = LeastSquares(), tf.Graph()
    with graph.as_default(), tf.device("/cpu:0"):
        weights = tf.compat.v1.get_variable("weights", initializer=problem.initial(0)[0], use_resource=False)
        number = tf.random.uniform([], maxval=2**31 - 1, dtype=tf.int32)
        loss = problem.loss([weights], problem.batch(0, number, 0))
        train_op = tf.compat.v1.train.GradientDescentOptimizer(RATE).minimize(loss)
        start = tf.compat.v1.global_variables_initializer()
    session = tf.compat.v1.Session(graph=graph)
    session.run(start)
    graph.finalize()
    return lambda updates: in_threads(threads, updates, lambda _worker, _number: session.run(train_op))


def bare(threads: int) -> Callable[[int], None]:
    """The engine's step without the log, one call of a concrete function a step."""
    problem = LeastSquares()
    weights = [tf.Variable(value) for value in problem.initial(0)]
    optimizer = keras.optimizers.SGD(RATE)
    optimizer.build(weights)

    @tf.function(input_signature=[tf.TensorSpec([2], tf.int64)], autograph=False)
    def train_step(batch: Any) -> Any:
        loss, gradient = problem.gradient([w.read_value() for w in weights], problem.batch(batch[0], batch[1], 0))
        optimizer.apply(gradient, weights)
        return loss

    step = train_step.get_concrete_function()
    return lambda updates: in_threads(
        threads, updates, lambda worker, number: step(tf.constant([worker, number], tf.int64))
    )


class Unlogged(AsyncTrainer):
    """The trainer with the log taken out: a step says only whether it was let in."""

    def __init__(self, threads: int) -> None:
        super().__init__(LeastSquares(), workers=threads, optimizer=keras.optimizers.SGD(RATE), access="lock_free")
        weights = [tf.Variable(value) for value in self.problem.initial(0)]
        optimizer = keras.optimizers.SGD(RATE)
        optimizer.build(weights)

        def step(batch: Any) -> Any:
            values = [w.read_value() for w in weights]
            loss, gradient = self.problem.gradient(values, self.problem.batch(batch[0], batch[1], 0))

            def update() -> Any:
                optimizer.apply(gradient, weights)
                return tf.constant(True)

            let_in = self._shared.enter()
            return tf.cond(tf.math.is_finite(loss) & let_in, update, lambda: tf.constant(False))

        self._step = tf.function(step, autograph=False).get_concrete_function(tf.TensorSpec([2], tf.int64))

    def _round(self, worker: int, number: int) -> None:
        batch = tf.constant([worker, number], tf.int64)
        with self.gate.free_pass(worker) as free:
            if not free:
                raise Stopped
            if not self._step(batch).numpy():
                self._send_home()


def logged(threads: int, steps_per_call: int) -> Callable[[int], object]:
    """The trainer."""
    trainer = AsyncTrainer(
        LeastSquares(), workers=threads, access="lock_free", optimizer=keras.optimizers.SGD(RATE),
        steps_per_call=steps_per_call,
    )  # fmt: skip
    return trainer.fit


def measure(threads: int, updates: int, repeats: int) -> Row:
    """Median steps a second of each side, and the ratios."""
    sides = {
        "recipe": recipe(threads),
        "bare": bare(threads),
        "unlogged": Unlogged(threads).fit,
        "logged": logged(threads, 1),
        "logged 50": logged(threads, 50),
    }
    found = take_turns({name: rate(lambda run=run: run(updates), updates) for name, run in sides.items()}, repeats)
    ratios = {f"{over} / {under}": ratio(found, over, under) for over, under in RATIOS}
    return {"threads": threads, **medians(found), **ratios}


def main() -> None:
    """Measure and show."""
    parser = command(__doc__, repeats=5)
    parser.add_argument("--threads", type=at_least_one, nargs="+", default=[1, 2, 4, 8], metavar="N")
    parser.add_argument("--updates", type=at_least_one, default=5000, metavar="N", help="updates in a run (5000)")
    given = parser.parse_args()
    configure_devices(8)
    rows = [measure(threads, given.updates, given.repeats) for threads in given.threads]
    show([Table("steps a second, 20-weight least squares", rows, BAR)], given.json)


if __name__ == "__main__":
    main()
