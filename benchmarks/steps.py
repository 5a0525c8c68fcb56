"""What the version log costs: logged steps a second beside the bare loop on the same problem.

    python benchmarks/steps.py [--problem digits-cnn] [--threads 1 2 4 8] [--updates 1000] [--repeats 5] [--json]

Equal on every side: the problem, its batches (named by worker and number, drawn in the graph), plain SGD with learning
rate 0.05, the number of threads and of updates, one call of one concrete TensorFlow function a step. `bare` is the
recipe with TensorFlow 2 (read, gradient, `optimizer.apply`), nothing logged and nothing guarded. `consistent` and
`lock_free` are `AsyncTrainer` with that access. The three take turns. No bar is set here.
"""

import threading
from collections.abc import Callable

from turns import Row, Table, at_least_one, command, medians, rate, ratio, show, take_turns

from asyncsgd_edu import AsyncTrainer, configure_devices
from asyncsgd_edu.problems.catalogue import PROBLEMS, make_problem
from asyncsgd_edu.quiet import keras, tf

ACCESS = ("consistent", "lock_free")


def bare_loop(name: str, threads: int) -> Callable[[int], None]:
    """A function of updates that runs the recipe without a log."""
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

    step = train_step.get_concrete_function()

    def run(updates: int) -> None:
        def work(worker: int) -> None:
            # The first workers do one more where the updates do not divide.
            for number in range(updates // threads + (worker < updates % threads)):
                step(tf.constant([worker, number], tf.int64))

        workers = [threading.Thread(target=work, args=(worker,)) for worker in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return run


def measure(name: str, threads: int, updates: int, repeats: int) -> Row:
    """Median steps a second of each side, and the ratios to the bare loop."""
    runs: dict[str, Callable[[int], object]] = {"bare": bare_loop(name, threads)}
    for access in ACCESS:
        runs[access] = AsyncTrainer(make_problem(name), workers=threads, access=access).fit
    found = take_turns({side: rate(lambda r=run: r(updates), updates) for side, run in runs.items()}, repeats)
    ratios = {f"{access} / bare": ratio(found, access, "bare") for access in ACCESS}
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
    show([Table("steps a second", rows)], given.json)


if __name__ == "__main__":
    main()
