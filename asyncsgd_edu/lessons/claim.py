"""One claim: what a law says, what a run showed, and whether the law spoke of such a run.

The verdict is worked out from the numbers, and from what `assumptions` found in the
run's trace; nobody declares it.
"""

import math
from dataclasses import dataclass, fields

from asyncsgd_edu.rules.arguments import MAX_SEED, one_of, positive_number
from asyncsgd_edu.rules.durations import Duration

RELATIONS = ("=", "<=", ">=")


@dataclass(frozen=True)
class Claim:
    """A line of the claims page.

    `prediction` is what the law says and `measured` what came out, which should be
    equal, at most or at least that (`relation`), but for `tolerance`, in the same units.
    `outside` says which assumption of the law the run breaks, empty for none.
    """

    what: str
    prediction: float
    measured: float
    tolerance: float = 0.0
    relation: str = "="
    outside: str = ""
    law: int = 0
    seed: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        one_of("relation", self.relation, RELATIONS)
        positive_number("tolerance", self.tolerance, zero=True)

    @property
    def verdict(self) -> str:
        """`holds`, `fails` or `outside its assumptions`.

        >>> Claim("mean staleness of 8 workers", 7, 7.02, tolerance=0.1).verdict
        'holds'
        >>> Claim("mean staleness of 8 workers", 7, 6.2, tolerance=0.1).verdict
        'fails'
        >>> Claim("mean staleness of 8 workers", 7, 6.2, outside="workers wait").verdict
        'outside its assumptions'
        """
        if self.outside:
            return "outside its assumptions"
        above = self.measured - self.prediction
        low = -math.inf if self.relation == "<=" else -self.tolerance
        high = math.inf if self.relation == ">=" else self.tolerance
        # NaN is neither: it fails.
        return "holds" if low <= above <= high else "fails"


def within(share: float, prediction: float) -> float:
    """A tolerance of that share of a prediction.

    >>> within(0.03, -2.0)
    0.06
    """
    return abs(share * prediction)


def another(seed: int, number: int) -> int:
    """The seed of a further run; number 0 is the seed itself.

    >>> another(3, 0), another(2**31 - 1, 1)
    (3, 0)
    """
    return (seed + number) % (MAX_SEED + 1)


def named(durations: Duration) -> str:
    """A duration law in few characters.

    >>> from asyncsgd_edu.rules.durations import Exponential, Straggler
    >>> named(Straggler(Exponential(1.0), worker=0, factor=100))
    'Straggler(Exponential(1), 0, 100)'
    """
    constants = (getattr(durations, field.name) for field in fields(durations))
    shown = (named(value) if isinstance(value, Duration) else f"{value:g}" for value in constants)
    return f"{type(durations).__name__}({', '.join(shown)})"
