"""How long a gradient takes, as a seeded rule.

A duration is a frozen value. Asked with the same seed, worker and gradient
number it answers the same seconds: it never looks at a clock or keeps state.
"""

from dataclasses import asdict, dataclass

import numpy as np

from asyncsgd_edu.rules.arguments import positive_number, whole_number

DURATION_PURPOSE = 2  # Splits the run's seed: 1 is for batches, 2 for durations.


@dataclass(frozen=True)
class Duration:
    """Seconds per gradient; the subclasses say which law they follow."""

    @property
    def mean(self) -> float:
        """Expected seconds per gradient."""
        raise NotImplementedError

    def draw(self, generator: np.random.Generator) -> float:
        """One draw, in seconds, of the law."""
        raise NotImplementedError

    def seconds(self, seed: int, worker: int, number: int) -> float:
        """Seconds that gradient `number` of `worker` takes.

        >>> Exponential(0.01).seconds(0, 3, 7) == Exponential(0.01).seconds(0, 3, 7)
        True
        """
        stream = np.random.SeedSequence((seed, DURATION_PURPOSE, worker, number))
        return self.draw(np.random.Generator(np.random.Philox(stream)))

    def describe(self) -> dict[str, object]:
        """The law and its constants, for a trace's header."""
        return {"law": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class Constant(Duration):
    """Every gradient takes `value` seconds.

    >>> Constant(0.01).seconds(seed=0, worker=0, number=0)
    0.01
    """

    value: float

    def __post_init__(self) -> None:
        positive_number("a constant duration", self.value, zero=True)

    @property
    def mean(self) -> float:
        """Expected seconds per gradient."""
        return self.value

    def draw(self, generator: np.random.Generator) -> float:
        """The constant; the generator is not used."""
        return float(self.value)


@dataclass(frozen=True)
class Exponential(Duration):
    """Memoryless: however long a gradient has taken, the rest takes `scale` on average.

    >>> Exponential(0.01).mean
    0.01
    """

    scale: float

    def __post_init__(self) -> None:
        positive_number("the mean of an exponential duration", self.scale)

    @property
    def mean(self) -> float:
        """Expected seconds per gradient."""
        return self.scale

    def draw(self, generator: np.random.Generator) -> float:
        """One exponential draw of mean `scale`, in seconds."""
        return float(generator.exponential(self.scale))


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
        whole_number("the straggler's worker", self.worker, 0, 10**6)
        positive_number("the straggler's factor", self.factor)

    @property
    def mean(self) -> float:
        """Expected seconds per gradient of the workers that are not the straggler."""
        return self.base.mean

    def seconds(self, seed: int, worker: int, number: int) -> float:
        """Seconds that gradient `number` of `worker` takes."""
        factor = self.factor if worker == self.worker else 1.0
        return factor * self.base.seconds(seed, worker, number)

    def describe(self) -> dict[str, object]:
        """The law, the slow worker and by how much, for a trace's header."""
        return {"law": "Straggler", "base": self.base.describe(), "worker": self.worker, "factor": self.factor}


def check_durations(durations: object) -> Duration | None:
    """Return `durations` when it is None or a duration; raise TypeError otherwise."""
    if durations is None or isinstance(durations, Duration):
        return durations
    raise TypeError(
        f"durations must be None or a duration such as Constant(0.01) or Exponential(0.01), got {durations!r}"
    )
