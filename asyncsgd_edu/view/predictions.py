"""What the laws say of a run before it: mean staleness, and seconds per update.

Which law holds for which choice, and why none does. Every number is from `rules`; nothing
here knows a run, a widget or TensorFlow.
"""

import math
import re
from dataclasses import dataclass

from asyncsgd_edu.rules import laws, stragglers
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential, ShiftedExponential, Straggler, Uniform
from asyncsgd_edu.rules.remedies import DropAbove
from asyncsgd_edu.trace import Header, Trace
from asyncsgd_edu.view.written import WRITTEN

NOT_STALE = ("synchronous", "k-sync", "k-batch-sync", "backup-workers")
DROPPING = "gradients are dropped"
TIMED = ("asynchronous", "synchronous", *laws.ORDERED, *laws.STREAMED)
# What is under way is expected to end sooner than what begins.
NEW_LONGER_THAN_USED = (Constant, Uniform, ShiftedExponential)


@dataclass(frozen=True)
class Law:
    """One predicted number: `value`, None where no law holds; then `why` says why, unless there is none at all.

    `bound` says that the number is the most that there can be. `formula` is how it comes about.
    """

    value: float | None = None
    bound: bool = False
    formula: str = ""
    why: str = ""


@dataclass(frozen=True)
class Prediction:
    """What is expected of a run: `staleness` in updates, and `seconds` per update, in `virtual` time or real.

    A run that is not `timed` has seconds that only number its events.
    """

    staleness: Law
    seconds: Law
    virtual: bool
    timed: bool = True

    @property
    def words(self) -> str:
        """Both, in a sentence."""
        law = self.seconds
        if law.value is None and law.why and law.why == self.staleness.why:
            return f"no law for staleness and time: {law.why}"
        none = _without("the time per update", law)
        time = none if law.value is None else f"{self._time} per update{self._more}"
        return f"{expected_staleness(self.staleness)} · {time}"

    def pace(self, seconds: float, updates: int) -> str:
        """Measured time per update in a phrase, beside the predicted one; empty before the first update.

        >>> predict("asynchronous", None, 8, Exponential(0.01), virtual=False).pace(3.0, 1000)
        '3 ms per update (predicted 1.25 ms + arithmetic)'
        """
        if not updates or not self.timed:
            return ""
        beside = "" if self.seconds.value is None else f" (predicted {self._time}{self._more})"
        return f"{milliseconds(seconds / updates)} per update{beside}"

    @property
    def _time(self) -> str:
        assert self.seconds.value is not None
        return f"{'at most ' * self.seconds.bound}{milliseconds(self.seconds.value)}"

    @property
    def _more(self) -> str:
        # The laws know durations only. Threads and towers compute in addition.
        return "" if self.virtual else " + arithmetic"


def predict(
    policy: str,
    constant: int | None,
    workers: int,
    durations: Duration | None,
    *,
    virtual: bool,
    dropping: bool = False,
) -> Prediction:
    """What the laws say of `workers` workers under the policy of that name and constant (k, bound or spare).

    `virtual` says that the workers are simulated: a thread cannot be interrupted, which
    some laws of time assume. `dropping` says that a remedy drops gradients for their staleness. How the variables are
    accessed does not matter: versions are counted, and what holds of the count holds whatever has become of an update.

    >>> predict("asynchronous", None, 8, Exponential(0.01), virtual=True).words
    'mean staleness N - 1 = 7 · 1.25 ms per update'
    """
    if dropping and policy not in NOT_STALE:
        none = Law(why=DROPPING)
        return Prediction(none, none, virtual)
    time = seconds(policy, constant, workers, durations, virtual=virtual)
    return Prediction(staleness(policy, constant, workers), time, virtual)


def read_off(schedule: Trace) -> Prediction:
    """What a schedule that was written says itself.

    >>> read_off(Trace.from_schedule("0r 1r 1a 0a")).staleness
    Law(value=0.5, bound=False, formula='of the schedule', why='')
    """
    law = Law(schedule.mean_staleness, formula="of the schedule")
    return Prediction(law, Law(why="each event is one virtual second"), virtual=True, timed=False)


def staleness(policy: str, constant: int | None, workers: int) -> Law:
    """Mean staleness of a long run, or the most that a gradient's can be (stale-synchronous).

    From the conservation of staleness: the sum over the applied gradients is that over updates of the
    other gradients under way. That is N - 1 for each update where workers read again at once; a worker of
    k-async that has delivered waits for the update, so there N - k are left, as if there were fewer
    workers. A run's own mean is lower where workers idle otherwise.

    >>> staleness("k-batch-async", 10, 100)
    Law(value=9.9, bound=False, formula='(N - 1)/k', why='')
    >>> staleness("stale-synchronous", 2, 8)
    Law(value=35, bound=True, formula='(2 bound + 1)(N - 1)', why='')
    """
    if policy in NOT_STALE:
        return Law(0.0)
    if policy == "asynchronous":
        return Law(laws.mean_staleness(workers), formula="N - 1")
    if constant is not None and policy == "k-batch-async":
        return Law(laws.mean_staleness(workers, constant), formula="(N - 1)/k")
    if constant is not None and policy == "k-async":
        return Law(laws.mean_staleness(workers - constant + 1, constant), formula="(N - k)/k")
    if constant is not None and policy == "stale-synchronous":
        return Law(laws.stale_synchronous_bound(workers, constant), bound=True, formula="(2 bound + 1)(N - 1)")
    return Law()


def seconds(policy: str, constant: int | None, workers: int, durations: Duration | None, *, virtual: bool) -> Law:
    """Seconds between two updates of a long run, where `laws.time_per_update` says something of it.

    The durations alone: arithmetic, where a run does any, takes its time in addition.

    >>> round(seconds("k-sync", 4, 8, Exponential(1.0), virtual=True).value, 3)
    0.635
    >>> seconds("k-sync", 4, 8, Exponential(1.0), virtual=False).why
    'a thread that is not waited for cannot be interrupted'
    """
    name, k = _plainest(policy, constant, workers)
    if name not in TIMED:
        return Law()
    if durations is None:
        return Law(why="real durations are not known before")
    if isinstance(durations, Straggler):
        if name not in ("asynchronous", "k-batch-async"):
            return Law(why="a straggler is not like the others")
        # Nobody waits, so rates add up, whatever the durations.
        return Law((k or 1) / stragglers.updates_per_second(workers, durations.factor, durations.mean))
    memoryless = isinstance(durations, Exponential)
    if name in ("k-sync", "k-batch-sync") and not virtual:
        return Law(why="a thread that is not waited for cannot be interrupted")
    if name == "k-batch-sync" and not memoryless:
        return Law(why=f"{name} has one for exponential durations only")
    if name == "k-async" and not memoryless and not isinstance(durations, NEW_LONGER_THAN_USED):
        return Law(why=f"{name} has none for durations with a long tail")
    place = workers if name == "synchronous" else k
    ordered = name in ("synchronous", *laws.ORDERED) and not memoryless
    statistic = durations.order_statistic(place or 1, workers) if ordered else None
    value = laws.time_per_update(name, workers, k, mean=durations.mean, order_statistic=statistic)
    return Law(value, bound=name == "k-async" and not memoryless)


def _plainest(policy: str, constant: int | None, workers: int) -> tuple[str, int | None]:
    """The policy as the plainest one that does the same, and its k: every law of that one holds."""
    k = workers - (constant or 0) if policy == "backup-workers" else constant
    name = "k-sync" if policy == "backup-workers" else policy
    if constant is None or name in ("asynchronous", "synchronous"):
        return name, None
    if k == 1 and name in ("k-async", "k-batch-async"):
        return "asynchronous", None
    if k == 1 and name == "k-batch-sync":
        name = "k-sync"
    return ("synchronous", None) if k == workers and name in ("k-sync", "k-async") else (name, k)


def of_header(header: Header) -> Law:
    """The law of the staleness of a run with that header, from the policy's words there."""
    policy, constant = _named(header.policy)
    if header.counterfactual:
        return Law(why="gradients were left out")
    if (header.remedy or {}).get("name") == DropAbove.name and policy not in NOT_STALE:
        return Law(why=DROPPING)
    if policy == WRITTEN:
        return Law(why="it stands in the schedule")
    try:
        return staleness(policy, constant, header.workers)
    except ValueError:  # A file may say k 9 of 4 workers.
        return Law(why="the policy does not fit so many workers")


def _named(policy: str) -> tuple[str, int | None]:
    """Name and constant of a policy as a header has them: "k-sync (k 4)"."""
    found = re.fullmatch(r"(\S+) \(\w+ (\d+)\)", policy)
    return (found[1], int(found[2])) if found else (policy, None)


# --- words


def milliseconds(seconds: float) -> str:
    """Seconds, written as milliseconds with three digits.

    >>> milliseconds(0.00125), milliseconds(12.3456)
    ('1.25 ms', '12300 ms')
    """
    value = 1000 * seconds
    digits = 2 - math.floor(math.log10(value)) if value > 0 and math.isfinite(value) else 0
    rounded = round(value, digits)
    return f"{int(rounded)} ms" if rounded >= 100 else f"{rounded:g} ms"


def expected_staleness(law: Law) -> str:
    """What is expected of the staleness, in a phrase."""
    if law.value is None:
        return _without("the staleness", law)
    if law.bound:
        return f"each staleness at most {law.value:g}"
    return f"mean staleness {equation(law)}" if law.formula else "every staleness 0"


def _without(what: str, law: Law) -> str:
    return f"no law for {what}: {law.why}" if law.why else f"no law for {what} under this policy"


def equation(law: Law) -> str:
    """A law's formula with its value.

    >>> equation(staleness("asynchronous", None, 8))
    'N - 1 = 7'
    """
    assert law.value is not None
    return f"{law.formula} = {law.value:.4g}" if law.value < 1000 else f"{law.formula} = {law.value:.0f}"
