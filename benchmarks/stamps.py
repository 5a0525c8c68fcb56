"""What it costs to know: stamped parameters beside plain ones, steps a second under lock-free access.

    python benchmarks/stamps.py [--elements 20 1000 100000] [--threads 1 4] [--updates 2000] [--repeats 5] [--json]

Under `lock_free` access every update carries a stamp of its worker in the same subtraction, which is how a torn read is
known exactly. Both sides log everything else; the plain side cannot say what a read has mixed. Two variables of so many
elements each, on a bowl. They take turns, and the ratio is that of medians over the repeats.
"""

import argparse
import json
import statistics
import time

import numpy as np

from asyncsgd_edu import AsyncTrainer, Quadratic, configure_devices
from asyncsgd_edu.engines import parameters


class TwoBowls(Quadratic):
    """A bowl in two variables of the same size, so that a read can be torn."""

    name = "two bowls"

    def initial(self, seed):
        """Two vectors of ones."""
        return [np.ones(self.dimension, np.float32)] * 2

    def loss(self, parameters, batch):
        """The sum of the two bowls' losses."""
        return super().loss(parameters[:1], batch) + super().loss(parameters[1:], batch)

    def evaluate(self, parameters):
        """The sum of the two bowls' losses."""
        return {"loss": sum(super(TwoBowls, self).evaluate([part])["loss"] for part in parameters)}


class Unstamped(parameters.SharedParameters):
    """Lock-free parameters without stamps: a read cannot say what it has mixed."""

    def __init__(self, initial, optimizer, access, device, workers=1, correction=None, sparse=False):
        super().__init__(initial, optimizer, access, device, workers, correction, sparse=True)
        self.sparse = sparse


def trainer_of(elements: int, threads: int, stamped: bool) -> AsyncTrainer:
    """A lock-free trainer whose parameters are stamped or not."""
    from asyncsgd_edu.engines import async_trainer

    kept = async_trainer.SharedParameters
    async_trainer.SharedParameters = kept if stamped else Unstamped
    try:
        return AsyncTrainer(TwoBowls(dimension=elements, noise=0.0), workers=threads, access="lock_free")
    finally:
        async_trainer.SharedParameters = kept


def measure(elements: int, threads: int, updates: int, repeats: int) -> dict[str, float]:
    """Median steps a second of each side, taking turns, and the share of torn reads that the stamps show."""
    sides = {"plain": trainer_of(elements, threads, False), "stamped": trainer_of(elements, threads, True)}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for repeat in range(repeats + 1):
        for side, trainer in sides.items():
            start = time.perf_counter()
            trainer.fit(updates)
            if repeat:  # The first is a warm-up.
                rates[side].append(updates / (time.perf_counter() - start))
    torn = float((sides["stamped"].trace.read_spread > 0).mean())
    return {**{side: statistics.median(found) for side, found in rates.items()}, "torn": torn}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, nargs="+", default=[20, 1_000, 100_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    configure_devices(8)
    rows = [
        {"elements": elements, "threads": threads, **measure(elements, threads, options.updates, options.repeats)}
        for elements in options.elements
        for threads in options.threads
    ]
    if options.json:
        print(json.dumps(rows))
        return
    print("steps a second, lock-free, and stamped beside plain")
    print("elements  threads    plain   stamped           torn reads")
    for row in rows:
        ratio = row["stamped"] / row["plain"]
        print(
            f"{row['elements']:8} {row['threads']:8} {row['plain']:8.0f}  {row['stamped']:8.0f} ({ratio:.2f})"
            f"  {row['torn']:9.2%}"
        )


if __name__ == "__main__":
    main()
