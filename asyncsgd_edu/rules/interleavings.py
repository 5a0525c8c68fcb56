"""Every order in which a few workers can read and apply, and which orders come to the same.

Each worker does so many times (read, apply). What a run computes depends only on who applied in which
order and which version each had read. Orders that differ in nothing else are one class: those in
which reads with no apply between them have changed places. All are counted before the first is made.
"""

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from asyncsgd_edu.rules.arguments import MAX_WORKERS, whole_number
from asyncsgd_edu.rules.events import Event

MOST = 20_000
CEILING = 10**7  # Nobody waits for more.
MOST_STEPS = 100


class Interleaving(NamedTuple):
    """One order of a class with equal arithmetic, and how many orders there are in the class."""

    events: tuple[Event, ...]
    multiplicity: int


def interleavings(workers: int = 2, steps: int = 3, most: int = MOST) -> Iterator[tuple[Event, ...]]:
    """Every order in which each of `workers` workers can do `steps` times (read, apply), one by one.

    Raises ValueError, before the first is made, if there are more than `most`.

    >>> from asyncsgd_edu.rules.events import as_text
    >>> [as_text(events) for events in interleavings(workers=2, steps=1)][:3]
    ['0r 0a 1r 1a', '0r 1r 0a 1a', '0r 1r 1a 0a']
    """
    most = whole_number("most", most, 1, CEILING)
    count = count_interleavings(workers, steps)
    if count > most:
        raise ValueError(
            f"{workers} workers with {steps} steps have {_short(count)} interleavings, most is {most}: take fewer "
            f"workers or steps, a larger most, or distinct_interleavings, which makes one of each class"
        )
    return (order.events for order in _orders(workers, steps, every=True))


def distinct_interleavings(workers: int = 2, steps: int = 3, most: int = MOST) -> Iterator[Interleaving]:
    """One order of each class of equal arithmetic, and how many there are in it; one by one.

    It is the order in which reads with no apply between them go by worker. Raises ValueError,
    before the first is made, if there are more than `most` classes.

    >>> [order.multiplicity for order in distinct_interleavings(workers=2, steps=1)]
    [1, 2, 2, 1]
    """
    most = whole_number("most", most, 1, CEILING)
    applies = _apply_orders(workers, steps)  # Fewer than classes, and at once: too many must not even be counted.
    count = applies if applies > most else count_classes(workers, steps)
    if count > most:
        least = "at least " if applies > most else ""
        raise ValueError(
            f"{workers} workers with {steps} steps have {least}{_short(count)} classes of interleavings, "
            f"most is {most}: take fewer workers or steps, or a larger most"
        )
    return _orders(workers, steps, every=False)


def count_interleavings(workers: int, steps: int) -> int:
    """Number of orders of 2 s events of each of N workers: (2 s N)! / (2 s)!^N.

    >>> count_interleavings(2, 3), count_interleavings(3, 2)
    (924, 34650)
    """
    workers, steps = _checked(workers, steps)
    return int(math.factorial(2 * steps * workers) // math.factorial(2 * steps) ** workers)


def count_classes(workers: int, steps: int) -> int:
    """Number of classes of equal arithmetic. Raises ValueError where they are too many to be counted.

    >>> count_classes(2, 1), count_classes(1, 5)
    (4, 1)
    """
    applies = _apply_orders(workers, steps)
    if applies > CEILING:
        raise ValueError(
            f"{workers} workers with {steps} steps have at least {_short(applies)} classes of interleavings, "
            f"more than {CEILING} are not counted: take fewer workers or steps"
        )

    @cache
    def ways(last: int, done: tuple[int, ...]) -> int:
        """Ways to go on for workers that have done so many events each, `last` being the last in a row of readers."""
        if all(events == 2 * steps for events in done):
            return 1
        total = 0
        for worker in _next(last, done, steps):
            reads = done[worker] % 2 == 0
            total += ways(worker if reads else -1, (*done[:worker], done[worker] + 1, *done[worker + 1 :]))
        return total

    return ways(-1, (0,) * workers)


def _next(last: int, done: tuple[int, ...] | list[int], steps: int) -> Iterator[int]:
    """Who may have the next event: whoever has steps left, but after a read by `last` only higher numbers read."""
    return (w for w, events in enumerate(done) if events < 2 * steps and (events % 2 == 1 or w > last))


def _orders(workers: int, steps: int, *, every: bool) -> Iterator[Interleaving]:
    """All orders, or one of each class, in the order of a dictionary."""
    events: list[Event] = []
    done = [0] * workers

    def go_on(last: int, row: int, ways: int) -> Iterator[Interleaving]:
        """All ends of a beginning that closes with `row` reads, the last by `last`, and stands for `ways` others."""
        if len(events) == 2 * steps * workers:
            yield Interleaving(tuple(events), ways)
        for worker in _next(-1 if every else last, done, steps):
            reads = done[worker] % 2 == 0
            events.append((worker, "read" if reads else "apply"))
            done[worker] += 1
            yield from go_on(worker, row + 1, ways * (row + 1)) if reads else go_on(-1, 0, ways)
            done[worker] -= 1
            events.pop()

    return go_on(-1, 0, 1)


def _apply_orders(workers: int, steps: int) -> int:
    """Number of orders of the applies alone."""
    workers, steps = _checked(workers, steps)
    return int(math.factorial(steps * workers) // math.factorial(steps) ** workers)


def _checked(workers: int, steps: int) -> tuple[int, int]:
    return whole_number("workers", workers, 1, MAX_WORKERS), whole_number("steps", steps, 1, MOST_STEPS)


def _short(count: int) -> str:
    """A count that may have more digits than anyone reads."""
    return str(count) if count < 10**15 else f"about 10^{math.log10(count):.0f}"
