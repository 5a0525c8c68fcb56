"""What the version log costs: logged steps a second beside the bare loop on the same problem.

    python benchmarks/steps.py [--problem digits-cnn] [--threads 1 2 4 8] [--updates 1000] [--repeats 5] [--json]

Bare is the recipe with TensorFlow 2: threads that call one `tf.function` (read, gradient, `optimizer.apply`), the same
batches, nothing logged. Logged is `AsyncTrainer` with each access. The three take turns, and the ratio is that of
medians over the repeats.
"""

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable

from asyncsgd_edu import AsyncTrainer, configure_devices
from asyncsgd_edu.problems.catalogue import PROBLEMS, make_problem
from asyncsgd_edu.quiet import keras, tf


def bare_loop(name: str) -> Callable[[int, int], None]:
    """A function of (threads, updates) that runs the recipe without a log."""
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

    def run(threads: int, updates: int) -> None:
        def work(worker: int) -> None:
            for number in range(updates // threads):
                train_step(tf.constant([worker, number], tf.int64))

        workers = [threading.Thread(target=work, args=(worker,)) for worker in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return run


def measure(name: str, threads: int, updates: int, repeats: int) -> dict[str, float]:
    """Median steps a second of each side, taking turns."""
    bare = bare_loop(name)
    logged = {
        access: AsyncTrainer(make_problem(name), workers=threads, access=access)
        for access in ("consistent", "lock_free")
    }
    sides: dict[str, Callable[[], object]] = {
        "bare": lambda: bare(threads, updates),
        **{access: (lambda t=trainer: t.fit(updates)) for access, trainer in logged.items()},
    }
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for repeat in range(repeats + 1):
        for side, run in sides.items():
            start = time.perf_counter()
            run()
            if repeat:  # The first is a warm-up.
                rates[side].append(updates / (time.perf_counter() - start))
    return {side: statistics.median(found) for side, found in rates.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="digits-cnn", choices=PROBLEMS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    configure_devices(8)
    rows = []
    for threads in options.threads:
        rate = measure(options.problem, threads, options.updates, options.repeats)
        rows.append({"problem": options.problem, "threads": threads, **rate})
    if options.json:
        print(json.dumps(rows))
        return
    print(f"steps a second on {options.problem}, and beside the bare loop")
    print("threads     bare   consistent          lock_free")
    for row in rows:
        sides = [f"{row[s]:8.0f} ({row[s] / row['bare']:.2f})" for s in ("consistent", "lock_free")]
        print(f"{row['threads']:7} {row['bare']:8.0f}   {'   '.join(sides)}")


if __name__ == "__main__":
    main()
