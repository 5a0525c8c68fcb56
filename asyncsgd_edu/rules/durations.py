"""How long a gradient takes, as a seeded rule.

A duration is a frozen value. Asked with the same seed, worker and gradient
number it answers the same seconds: it never looks at a clock or keeps state.
"""

from dataclasses import asdict, dataclass

import numpy as np

from asyncsgd_edu.rules import order_statistics as places
from asyncsgd_edu.rules.arguments import positive_number, whole_number
from asyncsgd_edu.rules.laws import exponential_order_statistic
from asyncsgd_edu.rules.order_statistics import Floats

DURATION_PURPOSE = 2  # Splits the run's seed: 1 is for batches, 2 for durations.


@dataclass(frozen=True)
class Duration:
    """Seconds per gradient; the subclasses say which law they follow."""

    def _keep(self, name: str, what: str, *, zero: bool = False) -> None:
        """Check one of the constants, and keep it as a plain float, which JSON can hold."""
        object.__setattr__(self, name, positive_number(what, getattr(self, name), zero=zero))

    @property
    def mean(self) -> float:
        """Expected seconds per gradient. Raises ValueError where the law has no mean."""
        raise NotImplementedError

    def order_statistic(self, k: int, n: int) -> float:
        """Expected seconds that the k-th fastest of n gradients takes, k from 1 to n.

        >>> round(Exponential(1.0).order_statistic(8, 8), 3)
        2.718
        """
        return self._place(*places.check_place(k, n))

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """So many independent draws of the law, in seconds; shape [count]."""
        raise NotImplementedError

    def seconds(self, seed: int, worker: int, number: int) -> float:
        """Seconds that gradient `number` of `worker` takes in a real run.

        >>> Exponential(0.01).seconds(0, 3, 7) == Exponential(0.01).seconds(0, 3, 7)
        True
        """
        stream = np.random.SeedSequence((seed, DURATION_PURPOSE, worker, number))
        return float(self.draws(np.random.Generator(np.random.Philox(stream)), 1)[0])

    def series(self, seed: int, worker: int, count: int) -> Floats:
        """Seconds that the first `count` gradients of `worker` take in a simulated run; shape [count].

        From one stream a worker, which is much faster than `seconds`. A longer series
        begins with the shorter one.
        """
        # Philox is made for this: another key is another stream, without hashing a seed first.
        key = (seed << 64) | (DURATION_PURPOSE << 32) | worker
        return self.draws(np.random.Generator(np.random.Philox(key=key)), count)

    def check_workers(self, workers: int) -> None:
        """Raise ValueError if the law says something of a worker that there is not."""

    def describe(self) -> dict[str, object]:
        """The law and its constants, for a trace's header."""
        return {"law": type(self).__name__, **asdict(self)}

    def _place(self, k: int, n: int) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Duration):
    """Every gradient takes `value` seconds.

    >>> Constant(0.01).seconds(seed=0, worker=0, number=0)
    0.01
    """

    value: float

    def __post_init__(self) -> None:
        self._keep("value", "a constant duration", zero=True)

    @property
    def mean(self) -> float:
        """Expected seconds per gradient."""
        return self.value

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """The constant; the generator is not used."""
        return np.full(count, float(self.value))

    def _place(self, k: int, n: int) -> float:
        return float(self.value)


@dataclass(frozen=True)
class ShiftedExponential(Duration):
    """At least `shift` seconds, then memoryless: the rest takes `scale` on average.

    >>> ShiftedExponential(1.0, 0.2).mean
    1.2
    """

    shift: float
    scale: float

    def __post_init__(self) -> None:
        self._keep("shift", "the shift of an exponential duration", zero=True)
        self._keep("scale", "the scale of an exponential duration")

    @property
    def mean(self) -> float:
        """Expected seconds per gradient."""
        return self.shift + self.scale

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """Exponential draws of mean `scale`, each `shift` seconds longer."""
        return self.shift + generator.exponential(self.scale, count)

    def _place(self, k: int, n: int) -> float:
        return self.shift + exponential_order_statistic(n, k, self.scale)


@dataclass(frozen=True)
class Exponential(Duration):
    """Memoryless: however long a gradient has taken, the rest takes `scale` on average.

    >>> Exponential(0.01).mean
    0.01
    """

    scale: float

    def __post_init__(self) -> None:
        self._keep("scale", "the mean of an exponential duration")

    @property
    def mean(self) -> float:
        """Expected seconds per gradient."""
        return self.scale

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """Exponential draws of mean `scale`, in seconds."""
        return generator.exponential(self.scale, count)

    def _place(self, k: int, n: int) -> float:
        return exponential_order_statistic(n, k, self.scale)


@dataclass(frozen=True)
class Uniform(Duration):
    """Anything from `low` to `high` seconds, all alike.

    >>> Uniform(0.5, 1.5).order_statistic(3, 3)
    1.25
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        self._keep("low", "the low end of a uniform duration", zero=True)
        self._keep("high", "the high end of a uniform duration")
        if self.low > self.high:
            raise ValueError(f"a uniform duration needs low up to high, got low {self.low}, high {self.high}")

    @property
    def mean(self) -> float:
        """Expected seconds per gradient."""
        return (self.low + self.high) / 2

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """Uniform draws from `low` to `high`, in seconds."""
        return generator.uniform(self.low, self.high, count)

    def _place(self, k: int, n: int) -> float:
        return self.low + (self.high - self.low) * k / (n + 1)


@dataclass(frozen=True)
class Straggler(Duration):
    """The durations of `base`, but `factor` times as long for one worker.

    >>> Straggler(Constant(0.01), worker=3, factor=10).seconds(0, 3, 0)
    0.1
    """

    base: Duration
    worker: int
    factor: float

    def __post_init__(self) -> None:
        if check_durations(self.base) is None:
            raise TypeError("the straggler's base must be a duration such as Constant(0.01), got None")
        object.__setattr__(self, "worker", whole_number("the straggler's worker", self.worker, 0, 10**6))
        self._keep("factor", "the straggler's factor")

    @property
    def mean(self) -> float:
        """Expected seconds per gradient of the workers that are not the straggler."""
        return self.base.mean

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """Draws for the workers that are not the straggler."""
        return self.base.draws(generator, count)

    def seconds(self, seed: int, worker: int, number: int) -> float:
        """Seconds that gradient `number` of `worker` takes in a real run."""
        return self._factor(worker) * self.base.seconds(seed, worker, number)

    def series(self, seed: int, worker: int, count: int) -> Floats:
        """Seconds that the first `count` gradients of `worker` take in a simulated run; shape [count]."""
        return self._factor(worker) * self.base.series(seed, worker, count)

    def check_workers(self, workers: int) -> None:
        """Raise ValueError if there is no such worker: nobody would be slow."""
        if self.worker >= workers:
            raise ValueError(f"the straggler must be a worker from 0 to {workers - 1}, got {self.worker}")
        self.base.check_workers(workers)

    def describe(self) -> dict[str, object]:
        """The law, the slow worker and by how much, for a trace's header."""
        return {"law": "Straggler", "base": self.base.describe(), "worker": self.worker, "factor": self.factor}

    def _factor(self, worker: int) -> float:
        return self.factor if worker == self.worker else 1.0

    def _place(self, k: int, n: int) -> float:
        raise ValueError("order statistics are of workers that are alike, and a straggler is not: ask its base")


def check_durations(durations: object, workers: int | None = None) -> Duration | None:
    """Return `durations` when it is None or a duration that suits so many workers.

    Raises TypeError for anything else, ValueError for a duration that names a worker there is not.
    """
    if durations is None:
        return None
    if isinstance(durations, Duration):
        if workers is not None:
            durations.check_workers(workers)
        return durations
    raise TypeError(
        f"durations must be None or a duration such as Constant(0.01) or Exponential(0.01), got {durations!r}"
    )
