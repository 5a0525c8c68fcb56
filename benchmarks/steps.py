"""What the version log costs: logged steps a second beside the bare loop on the same problem.

    python benchmarks/steps.py [--problem digits-cnn] [--threads 1 2 4 8] [--updates 1000] [--repeats 5] [--json]

Equal on every side: the problem, its batches (named by worker and number, drawn in the graph), plain SGD with learning
rate 0.05, the number of threads and of updates. `tf.function` is the recipe with TensorFlow 2 (read, gradient,
`optimizer.apply`) as one writes it; `concrete` is the same through its concrete function, which skips what
`tf.function` does in Python at each call, as the trainers do. Nothing is logged or guarded there. `consistent` and
`lock_free` are `AsyncTrainer` with that access, one call of TensorFlow a step; with `10` they make ten steps a call,
each logged. The sides take turns.

Bar: logged steps, ten a call, at least 0.97 of `tf.function`, one a call.
"""

import threading
from collections.abc import Callable
from functools import partial

from turns import Row, Table, at_least_one, command, medians, rate, ratio, show, take_turns

from asyncsgd_edu import AsyncTrainer, configure_devices
from asyncsgd_edu.problems.catalogue import PROBLEMS, make_problem
from asyncsgd_edu.quiet import keras, tf

ACCESS = ("consistent", "lock_free")
STEPS = (1, 10)  # In a call.


def bare_loops(name: str, threads: int) -> dict[str, Callable[[int], None]]:
    """Functions of updates that run the recipe without a log, by what they call."""
    problem = make_problem(name)
    weights = [tf.Variable(value) for value in problem.initial(0)]
    optimizer = keras.optimizers.SGD(0.05)
    optimizer.build(weights)

    @tf.function(input_signature=[tf.TensorSpec([2], tf.int64)], autograph=False)
    def train_step(batch):
        values = [weight.read_value() for weight in weights]
        loss, gradient = problem.gradient(values, problem.batch(batch[0], batch[1], 0))
        optimizer.apply(gradient, weights)
        return loss

    def run(step: Callable[[tf.Tensor], object], updates: int) -> None:
        def work(worker: int) -> None:
            # The first workers do one more where the updates do not divide.
            for number in range(updates // threads + (worker < updates % threads)):
                step(tf.constant([worker, number], tf.int64))

        workers = [threading.Thread(target=work, args=(worker,)) for worker in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return {"tf.function": partial(run, train_step), "concrete": partial(run, train_step.get_concrete_function())}


def measure(name: str, threads: int, updates: int, repeats: int) -> Row:
    """Median steps a second of each side, and the ratios to the loop as one writes it."""
    runs: dict[str, Callable[[int], object]] = {**bare_loops(name, threads)}
    for access in ACCESS:
        for steps in STEPS:
            trainer = AsyncTrainer(make_problem(name), workers=threads, access=access, steps_per_call=steps)
            runs[access if steps == 1 else f"{access} {steps}"] = trainer.fit
    found = take_turns({side: rate(lambda r=run: r(updates), updates) for side, run in runs.items()}, repeats)
    ratios = {f"{side} / tf.function": ratio(found, side, "tf.function") for side in list(runs)[1:]}
    return {"problem": name, "threads": threads, **medians(found), **ratios}


def main() -> None:
    """Measure and show."""
    parser = command(__doc__, repeats=5)
    parser.add_argument("--problem", default="digits-cnn", choices=PROBLEMS)
    parser.add_argument("--threads", type=at_least_one, nargs="+", default=[1, 2, 4, 8], metavar="N")
    parser.add_argument("--updates", type=at_least_one, default=1000, metavar="N", help="updates in a run (1000)")
    given = parser.parse_args()
    configure_devices(8)
    rows = [measure(given.problem, threads, given.updates, given.repeats) for threads in given.threads]
    show([Table("steps a second", rows, "ten steps a call / tf.function at least 0.97")], given.json)


if __name__ == "__main__":
    main()
