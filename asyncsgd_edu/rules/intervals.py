"""What a count of trials says about chance, and what it leaves open.

Something that was seen 0 times in 40,000 trials may still happen: an interval says
how often at most. Plain functions of numbers; SciPy is loaded only when one is asked for.
"""

from dataclasses import dataclass

from asyncsgd_edu.rules.arguments import positive_number, whole_number

CONFIDENCE = 0.95
MOST_TRIALS = 2**53  # Beyond, a count is no longer exact as a float.


def binomial_interval(count: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Lowest and highest probability that `count` of `trials` leaves open (Clopper & Pearson 1934).

    Exact: with independent trials of one probability, the interval covers it in at least
    `confidence` of all cases, whatever it is. The ends are quantiles of beta distributions,
    those probabilities at which a count as high, or as low, has probability (1 - confidence)/2;
    nothing seen gives the lower end 0, everything seen the upper end 1. No trials leave (0, 1).
    Raises ValueError for a count above the trials or a confidence that is not between 0 and 1.

    >>> low, high = binomial_interval(0, 40_000)
    >>> low, round(high, 7)
    (0.0, 9.22e-05)
    """
    trials = whole_number("trials", trials, 0, MOST_TRIALS)
    count = whole_number("count", count, 0, trials)
    if positive_number("confidence", confidence) >= 1:
        raise ValueError(f"confidence must be a number between 0 and 1, got {confidence!r}")
    from scipy import special  # type: ignore[import-untyped]  # Here: importing the rules must stay quick.

    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else float(special.betaincinv(count, trials - count + 1, tail))
    high = 1.0 if count == trials else float(special.betainccinv(count + 1, trials - count, tail))
    return low, high


@dataclass(frozen=True)
class Count:
    """So many of so many trials.

    >>> str(Count(3, 1500))
    '3 of 1,500'
    """

    count: int
    trials: int

    def __post_init__(self) -> None:
        whole_number("count", self.count, 0, whole_number("trials", self.trials, 0, MOST_TRIALS))

    def __str__(self) -> str:
        return f"{self.count:,} of {self.trials:,}"

    @property
    def share(self) -> float:
        """Count over trials; 0 where nothing was tried."""
        return self.count / self.trials if self.trials else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """`binomial_interval` of it, at 95 %."""
        return binomial_interval(self.count, self.trials)
