"""What it costs to know: stamped parameters beside plain ones, steps a second under lock-free access.

    python benchmarks/stamps.py [--elements 20 1000 100000] [--threads 1 4] [--updates 2000] [--repeats 5] [--json]

Under `lock_free` access every update carries a stamp of its worker in the same subtraction, which is how a torn read is
known exactly. Equal on both sides: two variables of so many elements each, on a bowl without noise; the trainer, its
threads, its updates, plain SGD, everything else that is logged. The plain side cannot say what a read has mixed. They
take turns. `torn reads` is the share of the stamped side's reads that the stamps show to be torn. No bar is set here.
"""

import numpy as np
from turns import Row, Table, at_least_one, command, medians, rate, ratio, show, take_turns

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


def measure(elements: int, threads: int, updates: int, repeats: int) -> Row:
    """Median steps a second of both sides, their ratio, and the share of torn reads that the stamps show."""
    trainers = {"plain": trainer_of(elements, threads, False), "stamped": trainer_of(elements, threads, True)}
    sides = {side: rate(lambda t=trainer: t.fit(updates), updates) for side, trainer in trainers.items()}
    found = take_turns(sides, repeats)
    return {
        "elements": elements,
        "threads": threads,
        **medians(found),
        "stamped / plain": ratio(found, "stamped", "plain"),
        "torn reads": float((trainers["stamped"].trace.read_spread > 0).mean()),
    }


def main() -> None:
    """Measure and show."""
    parser = command(__doc__, repeats=5)
    parser.add_argument("--elements", type=at_least_one, nargs="+", default=[20, 1_000, 100_000], metavar="N")
    parser.add_argument("--threads", type=at_least_one, nargs="+", default=[1, 4], metavar="N")
    parser.add_argument("--updates", type=at_least_one, default=2000, metavar="N", help="updates in a run (2000)")
    given = parser.parse_args()
    configure_devices(8)
    rows = [
        measure(elements, threads, given.updates, given.repeats)
        for elements in given.elements
        for threads in given.threads
    ]
    show([Table("steps a second, lock-free", rows)], given.json)


if __name__ == "__main__":
    main()
