"""What TensorFlow really loses when threads update the same variable, counted.

Threads start together and do steps, each of which adds exactly 1 to every element of what is
counted. So the steps done less an element's value is the number of updates that it lost, as a whole
number. Nothing here knows how an update is made (`race_ways`) or lays out what came of it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsgd_edu.engines import race_counters, race_session, race_ways
from asyncsgd_edu.engines.devices import prepare
from asyncsgd_edu.engines.race_ways import Way, probes
from asyncsgd_edu.rules.arguments import one_of, positive_number, whole_number
from asyncsgd_edu.rules.intervals import Count

WAYS = {way.name: way for way in (*race_ways.WAYS, *race_session.WAYS, *race_counters.WAYS)}
THREADS = (4,)
ELEMENTS = (1_000, 200_000)
SECONDS = 40.0
MOST_THREADS = 64
MOST_ELEMENTS = 10**7
MOST_UPDATES = 10**7
# Steps of a round, of all threads together; then everything goes back to 0. Few enough for float32 to count
# (whole numbers below 2^24; a variable under momentum 1 grows with their square), and for the lasting loss of
# an element to spoil few reads.
ROUND = 2_000
DAMAGE = ("none seen", "mixed versions", "torn reads", "lost elements", "lost updates", "duplicate tickets")


class RaceError(RuntimeError):
    """A thread raised: the message names the row, the race and the thread; the cause is the thread's error."""


@dataclass(frozen=True)
class Race:
    """What came of one way to update, with so many threads and elements.

    `steps` were done, each of them an update of two variables (one for a counter or ticket): `updates` in all,
    in `seconds` of racing. `lost` counts the updates that every element of their variable is short of,
    `parts` the elements' shares of updates that are missing, those included, and `worst` is the most steps that
    one element lost. `torn` counts the reads of one variable whose elements are of different versions, `mixed`
    the looks at two variables, neither read torn, that found one of a later version than the other: staleness,
    legitimate, of a part of the parameters. `duplicates` counts the tickets that somebody else has drawn before.
    None is what cannot be counted: no read is torn in one element, and after a lost update two variables have no
    common version.
    """

    way: str
    title: str
    threads: int
    elements: int
    steps: int
    updates: int
    seconds: float
    lost: Count
    parts: Count
    worst: int
    torn: Count | None = None
    mixed: Count | None = None
    duplicates: Count | None = None

    @property
    def updates_per_second(self) -> float:
        """Updates of one variable a second, all threads together, their reads included."""
        return self.updates / self.seconds

    @property
    def damage(self) -> str:
        """The worst of DAMAGE, which goes from bad to worse, that was seen.

        None seen is not none possible: ask the interval.
        """
        seen = (self.mixed, self.torn, self.parts, self.lost, self.duplicates)
        return DAMAGE[max((n for n, count in enumerate(seen, 1) if count and count.count), default=0)]


def races(
    rows: Sequence[str] | None = None,
    threads: Sequence[int] = THREADS,
    elements: Sequence[int] | None = None,
    updates: int | None = None,
    seconds: float = SECONDS,
    watch: Callable[[Race], None] | None = None,
) -> list[Race]:
    """Race every way to update, or those named in `rows`, at each number of threads and elements.

    Counters and tickets are one number, whatever `elements` (1,000 and 200,000 if not given). Each thread does
    `updates` steps, or as many as the time allows: `seconds` are those of all races together, shared out evenly,
    but every thread does at least one step. `watch` is called with each race when it is done.
    The counts are what chance made of this run, the speeds those of this machine at this hour.
    Raises RaceError if a thread fails, ValueError or TypeError for arguments that are not allowed.

    >>> (race,) = races(["assign_sub"], threads=[2], elements=[10], updates=20)
    >>> race.steps, race.updates, str(race.lost)
    (40, 80, '0 of 80')
    """
    rows = list(dict.fromkeys([one_of("row", row, WAYS) for row in rows])) if rows is not None else list(WAYS)
    counts = [whole_number("threads", count, 1, MOST_THREADS) for count in threads]
    if elements is not None and all(WAYS[row].kind != "ladder" for row in rows):
        raise ValueError(f"elements does nothing for {', '.join(rows)}: they count with one number")
    sizes = [whole_number("elements", size, 2, MOST_ELEMENTS) for size in (ELEMENTS if elements is None else elements)]
    limit = whole_number("updates", MOST_UPDATES if updates is None else updates, 1, MOST_UPDATES)
    end = time.perf_counter() + positive_number("seconds", seconds)
    prepare()  # TensorFlow starts here, and whoever wants several devices later must find them.
    cells = [(WAYS[row], count, size) for count in counts for row, size in _sized(rows, sizes)]
    found = []
    for done, (way, count, size) in enumerate(cells):
        now = time.perf_counter()
        found.append(_race(way, count, size, limit, now + (end - now) / (len(cells) - done)))
        if watch is not None:
            watch(found[-1])
    return found


def _sized(rows: Sequence[str], sizes: Sequence[int]) -> Iterator[tuple[str, int]]:
    for size in sizes:
        yield from ((row, size) for row in rows if WAYS[row].kind == "ladder")
    yield from ((row, 1) for row in rows if WAYS[row].kind != "ladder")


def ladder(races: Sequence[Race]) -> list[Race]:
    """The races from the safest to the fastest: by the worst damage seen, then by speed, the slowest first."""
    return sorted(races, key=lambda race: (DAMAGE.index(race.damage), race.updates_per_second))


# --- one race


def _race(way: Way, threads: int, elements: int, updates: int, end: float) -> Race:
    """Race in rounds until each thread has done its `updates` or the clock shows `end`."""
    built = way.build(elements)
    built.step()  # The first call of a graph does more than the others.
    tally = _Tally(way.kind, len(built.values()), elements)
    each = max(1, ROUND // threads)
    for first in range(0, updates, each):
        built.reset()
        try:
            seen, seconds = _together(threads, built.step, min(each, updates - first), end)
        except _Failed as failed:
            what = f"{type(failed.__cause__).__name__}: {failed.__cause__}"
            where = f"{way.name}, {threads} threads, {elements} elements"
            raise RaceError(f"{where}: thread {failed.number} failed: {what}") from failed.__cause__
        tally.add(seen, built.values(), seconds)
        if time.perf_counter() >= end:
            break
    return tally.race(way, threads)


class _Failed(Exception):
    """Thread `number` raised the cause."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _together(threads: int, step: Callable[[], Any], each: int, end: float) -> tuple[list[Any], float]:
    """Have `threads` threads do `each` steps, started together; at least one each, no more at `end`.

    Returns what the steps saw and the seconds until the last thread was done. Raises _Failed for the
    first thread that did.
    """
    start, stop = threading.Barrier(threads + 1), threading.Event()
    seen: list[list[Any]] = [[] for _ in range(threads)]
    errors: list[tuple[int, BaseException]] = []

    def work(number: int) -> None:
        try:
            start.wait()
            for done in range(each):
                if done and (stop.is_set() or time.perf_counter() >= end):
                    break
                seen[number].append(step())
        except Exception as error:  # noqa: BLE001  # A thread's error is the run's error: raised below.
            stop.set()
            errors.append((number, error))

    crew = [threading.Thread(target=work, args=(n,), name=f"asyncsgd-race-{n}", daemon=True) for n in range(threads)]
    for thread in crew:
        thread.start()
    start.wait()
    began = time.perf_counter()
    try:
        for thread in crew:
            thread.join()
    finally:
        stop.set()  # An interrupt ends the race too.
    seconds = time.perf_counter() - began
    if errors:
        raise _Failed(errors[0][0]) from errors[0][1]
    return [one for some in seen for one in some], seconds


class _Tally:
    """Adds up rounds. A round's losses are `steps` less the values; what its steps saw is judged by them."""

    def __init__(self, kind: str, variables: int, elements: int) -> None:
        self._kind, self._probes = kind, probes(elements)
        self._per_element = np.zeros([variables, elements], np.int64)
        self._steps = self._whole = 0
        self._seconds = 0.0
        self._torn, self._mixed, self._duplicates = ([0, 0] for _ in range(3))  # Each a count and its trials.

    def add(self, seen: Sequence[Any], values: Sequence[np.ndarray], seconds: float) -> None:
        """Add a round: what each step returned, and the values in the end."""
        steps = len(seen)
        loss = steps - np.array(values).astype(np.int64).reshape(self._per_element.shape)
        self._per_element += loss
        self._steps += steps
        self._seconds += seconds
        whole = loss.min(axis=1)
        self._whole += int(whole.sum())
        if self._kind == "ticket":
            self._count(self._duplicates, steps - len({int(ticket) for ticket in seen}), steps)
        elif self._kind == "ladder":
            self._judge(np.array([np.asarray(one) for one in seen]), loss[:, self._probes] == whole[:, None])

    def _judge(self, seen: np.ndarray, intact: np.ndarray) -> None:
        """Count torn and mixed reads of a round, by the elements that lost no more than all others.

        `seen` is [steps, variables, probes]; `intact` is [variables, probes]. An element that lost an
        update of its own differs in every read from then on, which is no tear.
        """
        apart, version = [], []
        for variable, kept in enumerate(intact):
            read = seen[:, variable, kept]
            if read.shape[1] > 1:
                torn = read.min(axis=1) != read.max(axis=1)
                self._count(self._torn, int(torn.sum()), len(torn))
            else:
                torn = np.zeros(len(read), bool)
            apart.append(torn)
            version.append(read[:, 0])
        whole = ~np.any(apart, axis=0)
        self._count(self._mixed, int((version[0] != version[1])[whole].sum()), int(whole.sum()))

    @staticmethod
    def _count(into: list[int], count: int, trials: int) -> None:
        into[0] += count
        into[1] += trials

    def race(self, way: Way, threads: int) -> Race:
        """All rounds as one race."""
        variables, elements = self._per_element.shape
        updates = variables * self._steps
        return Race(
            way=way.name, title=way.title, threads=threads, elements=elements, steps=self._steps, updates=updates,
            seconds=self._seconds, lost=Count(self._whole, updates),
            parts=Count(int(self._per_element.sum()), updates * elements), worst=int(self._per_element.max()),
            torn=self._counted(self._torn), mixed=None if self._whole else self._counted(self._mixed),
            duplicates=self._counted(self._duplicates),
        )  # fmt: skip

    @staticmethod
    def _counted(pair: list[int]) -> Count | None:
        return Count(*pair) if pair[1] else None
