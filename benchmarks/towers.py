"""Towers beside TensorFlow's own: updates a second of `TowerTrainer` and of `tf.distribute.MirroredStrategy`.

    python benchmarks/towers.py [--models mlp cnn] [--devices 1 2 4 8] [--batch 256] [--updates 200]
                                [--repeats 5] [--json]

Equal on all sides: the devices (logical CPUs of one process, or GPUs where there are enough), the samples in one update
(`--batch`, so each of n devices gets a batch of `--batch` / n), the data of every batch (named by device and number,
gathered in the graph), the model function, the start, plain Keras SGD with learning rate 0.05. `towers` and `mirrored`
make one call of a concrete function an update; `tf.function` is the same MirroredStrategy called through its
`tf.function`, as tutorials write it; `towers 50` makes fifty updates a call, each logged like any other. Left unequal:
`TowerTrainer` logs every gradient (versions, times, loss) and keeps one copy of the parameters; MirroredStrategy logs
nothing and keeps a copy on each device, which is what it is. It reduces with `ReductionToOneDevice`, the fastest of its
reductions on logical CPUs; its default, collectives, cannot serve strategies of several sizes in one process. Before
anything is timed both make a few updates, and the comparison is refused unless all their parameters agree within 1e-5.
The sides take turns.

Bar: `towers 50` is at least 1.2 times as fast as `tf.function`.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from turns import Row, Table, at_least_one, command, medians, rate, ratio, show, take_turns

from asyncsgd_edu import Digits, TowerTrainer, configure_devices
from asyncsgd_edu.quiet import keras, tf

RATE, SEED = 0.05, 0
SAME, FEW = 1e-5, 5  # How far apart parameters may be, after how many updates.
RATIOS = (("towers 50", "tf.function"), ("towers 50", "mirrored"), ("towers", "mirrored"))
MODELS = ("linear", "mlp", "cnn")


class Mirrored:
    """Synchronous training of a problem by `tf.distribute.MirroredStrategy`, one replica a device."""

    def __init__(self, problem: Digits, devices: list[str]) -> None:
        strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())
        with strategy.scope():
            self.weights = [tf.Variable(value) for value in problem.initial(SEED)]
            optimizer = keras.optimizers.SGD(RATE)
            optimizer.build(self.weights)

        def replica(number: tf.Tensor) -> tf.Tensor:
            mine = tf.distribute.get_replica_context().replica_id_in_sync_group
            values = [tf.convert_to_tensor(weight) for weight in self.weights]
            loss, gradient = problem.gradient(values, problem.batch(mine, number, SEED))
            # Keras adds up what the replicas bring: their mean is wanted.
            optimizer.apply([part / len(devices) for part in gradient], self.weights)
            return loss

        @tf.function(input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
        def update(number: tf.Tensor) -> tf.Tensor:
            return strategy.run(replica, args=(number,))

        self.calls = {"mirrored": update.get_concrete_function(), "tf.function": update}
        self.number = 0

    def fit(self, updates: int, call: str = "mirrored") -> None:
        """Do `updates` updates, one call each: of the concrete function, or of the `tf.function`."""
        update = self.calls[call]
        for number in range(self.number, self.number + updates):
            update(tf.constant(number, tf.int64))
        self.number += updates

    @property
    def parameters(self) -> list[np.ndarray]:
        """Copies of the parameters, those of every device after each other."""
        replicas = [getattr(weight, "values", (weight,)) for weight in self.weights]
        return [np.stack([copy.numpy() for copy in copies]) for copies in replicas]


def check_same(towers: TowerTrainer, mirrored: Mirrored) -> float:
    """The largest difference between any parameters after a few updates. Ends the program if it is above 1e-5."""
    towers.fit(FEW)
    mirrored.fit(FEW)
    started = towers.problem.initial(SEED)
    pairs = list(zip(towers.parameters, mirrored.parameters, strict=True))
    apart = max(float(np.abs(copies - ours).max()) for ours, copies in pairs)
    moved = max(float(np.abs(ours - first).max()) for (ours, _), first in zip(pairs, started, strict=True))
    if not apart <= SAME < moved:
        raise SystemExit(f"not the same work: parameters are {apart:.3g} apart, having moved by {moved:.3g}")
    return apart


def measure(model: str, devices: list[str], batch: int, updates: int, repeats: int) -> Row:
    """Median updates a second of all sides, and the ratios of towers to TensorFlow's own."""
    problem, count = Digits(model, batch // len(devices)), len(devices)
    towers, towers_50 = (
        TowerTrainer(
            problem, count, devices=devices, optimizer=keras.optimizers.SGD(RATE), seed=SEED, steps_per_call=steps
        )
        for steps in (1, 50)
    )
    mirrored = Mirrored(problem, devices)
    apart = check_same(towers, mirrored)
    runs: dict[str, Callable[[int], object]] = {"towers": towers.fit, "towers 50": towers_50.fit}
    for call in mirrored.calls:
        runs[call] = partial(mirrored.fit, call=call)
    found = take_turns({side: rate(lambda r=run: r(updates), updates) for side, run in runs.items()}, repeats)
    return {
        "model": model,
        "devices": count,
        "batch of a device": problem.batch_size,
        **medians(found),
        **{f"{over} / {under}": ratio(found, over, under) for over, under in RATIOS},
        "parameters apart": apart,
    }


def main() -> None:
    """Measure and show."""
    parser = command(__doc__, repeats=5)
    parser.add_argument("--models", nargs="+", default=["mlp", "cnn"], choices=MODELS)
    parser.add_argument("--devices", type=at_least_one, nargs="+", default=[1, 2, 4, 8], metavar="N")
    parser.add_argument("--batch", type=at_least_one, default=256, metavar="N", help="samples in an update (256)")
    parser.add_argument("--updates", type=at_least_one, default=200, metavar="N", help="updates in a run (200)")
    given = parser.parse_args()
    if any(given.batch % count for count in given.devices):
        parser.error(f"--batch must divide by every number of devices, got {given.batch} for {given.devices}")
    have = configure_devices(max(given.devices))
    rows = [
        measure(model, have[:count], given.batch, given.updates, given.repeats)
        for model in given.models
        for count in given.devices
    ]
    show(
        [Table("updates a second, equal samples in an update", rows, "towers 50 / tf.function at least 1.2")],
        given.json,
    )


if __name__ == "__main__":
    main()
