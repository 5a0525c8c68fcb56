"""Durations that are now and then far longer than usual: skewed laws, and measured ones.

Frozen values like those of `durations`, asked in the same way.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsgd_edu.rules import order_statistics as places
from asyncsgd_edu.rules.durations import Duration
from asyncsgd_edu.rules.order_statistics import Floats


@dataclass(frozen=True)
class Gamma(Duration):
    """A sum of `shape` exponential parts of mean `scale`: the larger the shape, the more alike.

    The standard deviation is the mean over the square root of the shape; shape 1 is exponential.

    >>> Gamma(4, 0.25).mean
    1.0
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        self._keep("shape", "the shape of a gamma duration")
        self._keep("scale", "the scale of a gamma duration")

    @property
    def mean(self) -> float:
        """Expected seconds per gradient."""
        return self.shape * self.scale

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """Gamma draws, in seconds."""
        return generator.gamma(self.shape, self.scale, count)

    def _place(self, k: int, n: int) -> float:
        return self.scale * places.gamma_place(k, n, self.shape)


@dataclass(frozen=True)
class LogNormal(Duration):
    """Half take less than `median` seconds; the logarithm is normal with standard deviation `sigma`.

    >>> round(LogNormal(1.0, 0.5).mean, 4)
    1.1331
    """

    median: float
    sigma: float

    def __post_init__(self) -> None:
        self._keep("median", "the median of a log-normal duration")
        self._keep("sigma", "the sigma of a log-normal duration")

    @property
    def mean(self) -> float:
        """Expected seconds per gradient: median exp(sigma^2 / 2)."""
        return self.median * math.exp(self.sigma**2 / 2)

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """Log-normal draws, in seconds."""
        return self.median * generator.lognormal(0.0, self.sigma, count)

    def _place(self, k: int, n: int) -> float:
        return self.median * places.lognormal_place(k, n, self.sigma)


@dataclass(frozen=True)
class Pareto(Duration):
    """At least `scale` seconds; longer than x with probability (scale / x)^shape: a heavy tail.

    With a shape up to 1 the mean does not exist; with one up to 2, the variance does not.

    >>> Pareto(3, 1.0).mean
    1.5
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        self._keep("shape", "the shape of a Pareto duration")
        self._keep("scale", "the scale of a Pareto duration")

    @property
    def mean(self) -> float:
        """Expected seconds per gradient. Raises ValueError where there is none."""
        if self.shape <= 1:
            raise ValueError(f"a Pareto duration has a mean when its shape is above 1, got shape {self.shape}")
        return self.scale * self.shape / (self.shape - 1)

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """Pareto draws, in seconds."""
        return self.scale * (1 + generator.pareto(self.shape, count))

    def _place(self, k: int, n: int) -> float:
        place = self.scale * places.pareto_place(k, n, self.shape)
        if math.isinf(place):
            raise ValueError(
                f"gradient {k} of {n} has a mean when the Pareto shape is above {1 / (n - k + 1):.4g}, "
                f"got shape {self.shape}"
            )
        return place


@dataclass(frozen=True, eq=False)
class Measured(Duration):
    """Drawn, with replacement, from durations that were measured.

    `source` is a trace, whose gradients took ready_time - read_time (without the
    waiting before the apply), or an array of seconds. What is never drawn is
    the order: measured durations of a busy machine come in runs, these do not.

    >>> Measured([0.1, 0.3]).mean
    0.2
    """

    source: Any

    def __post_init__(self) -> None:
        source = self.source
        if hasattr(source, "ready_time") and hasattr(source, "read_time"):
            spent = source.ready_time - source.read_time
            source = spent[np.isfinite(spent)]  # A cancelled gradient was never ready.
        try:
            seconds = np.array(source, np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"measured durations are a trace or an array of seconds, got {source!r}") from None
        if seconds.ndim != 1 or not len(seconds):
            raise ValueError(f"measured durations need at least one number in one row, got shape {seconds.shape}")
        wrong = np.flatnonzero(~(np.isfinite(seconds) & (seconds >= 0)))
        if len(wrong):
            raise ValueError(
                f"a measured duration must be a finite number not below 0, got {seconds[wrong[0]]} at {wrong[0]}"
            )
        seconds.flags.writeable = False
        object.__setattr__(self, "source", seconds)

    @property
    def mean(self) -> float:
        """Mean of what was measured, in seconds."""
        return float(self.source.mean())

    def draws(self, generator: np.random.Generator, count: int) -> Floats:
        """Measured seconds, any of them alike, with replacement."""
        chosen: Floats = self.source[(generator.random(count) * len(self.source)).astype(np.int64)]
        return chosen

    def describe(self) -> dict[str, object]:
        """How many were measured, and their mean, smallest and largest, for a trace's header."""
        least, most = float(self.source.min()), float(self.source.max())
        return {"law": "Measured", "gradients": len(self.source), "mean": self.mean, "from": least, "to": most}

    def _place(self, k: int, n: int) -> float:
        return places.observed_place(k, n, self.source)
