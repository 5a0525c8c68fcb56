"""A schedule as text: who reads and who applies, in which order.

| token | what happens |
|---|---|
| `0r` | worker 0 reads the parameters |
| `0a` | worker 0 applies its gradient: one update, and the version goes up by one |
| `0+` | its gradient goes into the mean of the next update, which is made by the next `a` |
| `0d` | its gradient is dropped |
| `0r#7` | worker 0 reads, and uses its batch 7; without a number a worker's batches are 0, 1, 2, ... |

`0r 1r 1a 0a` is a race of two workers; in `0r 1r 0+1a` their gradients are averaged. Spaces,
commas and new lines between tokens are free. A worker reads before its gradient can end, and
reads again only after that. A gradient that has not ended with the text is still in flight.

Text and tuples only; nothing here knows a trace, a thread or a clock.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from asyncsgd_edu.rules.arguments import whole_number

Event = tuple[int, str] | tuple[int, str, int]  # Worker, action, and the batch of a read if it is not the next.

ACTIONS = {"r": "read", "a": "apply", "+": "add", "d": "drop"}
LETTERS = {action: letter for letter, action in ACTIONS.items()}
MOST_WORKERS = 10**6
MOST_BATCHES = 10**15

_PIECE = re.compile(r"(?P<gap>[\s,]+)|([0-9]{1,6})([ra+d])(?:(?<=r)#([0-9]{1,15}))?|[^\s,]+")
_FORMS = "an event is a worker's number and r (read), a (apply), + (add to the mean of the next apply) or d (drop)"


def parse(text: str) -> tuple[Event, ...]:
    """The events of a schedule that is written as text, each (worker, action).

    An action is "read", "apply", "add" or "drop". Raises TypeError for what is no text, and ValueError
    for the first token that cannot be where it is: its number (from 0), its place, and what can be there.

    >>> parse("0r 1r 1a 0a")
    ((0, 'read'), (1, 'read'), (1, 'apply'), (0, 'apply'))
    >>> parse("0r 1a")
    Traceback (most recent call last):
    ValueError: event 1 ('1a', line 1, column 4): worker 1 has no gradient, allowed for it here is 1r
    """
    if not isinstance(text, str):
        raise TypeError(f"a schedule is text such as '0r 1r 1a 0a', got {text!r}")

    def tokens() -> Iterator[re.Match[str]]:
        return (piece for piece in _PIECE.finditer(text) if piece["gap"] is None)

    def place(position: int) -> str:
        piece = next(islice(tokens(), position, None))  # Looked for again, as a long text has too many to keep.
        line, before = text.count("\n", 0, piece.start()) + 1, text.rfind("\n", 0, piece.start())
        return f"event {position} ({piece.group()!r}, line {line}, column {piece.start() - before})"

    events: list[Event] = []
    for position, token in enumerate(tokens()):
        _, worker, letter, batch = token.groups()
        if worker is None:
            _check_order(events, place)  # An earlier event that is out of order is the first thing to be told.
            raise ValueError(f"{place(position)}: {_FORMS}")
        named = (int(worker), ACTIONS[letter])
        events.append(named if batch is None else (*named, int(batch)))
    _check_order(events, place)
    return tuple(events)


def as_text(events: Iterable[Sequence[object]]) -> str:
    """Events as text, one space between tokens. Raises as `events_of` does.

    >>> as_text([(0, "read"), (1, "read"), (0, "add"), (1, "apply")])
    '0r 1r 0+ 1a'
    """
    return " ".join(_token(event) for event in events_of(events))


def events_of(schedule: str | Iterable[Sequence[object]]) -> tuple[Event, ...]:
    """The events of a schedule given as text or as events already; checked.

    Raises TypeError for anything else, and ValueError, naming the event, for an order that cannot be.

    >>> events_of([(0, "read"), (0, "read")])
    Traceback (most recent call last):
    ValueError: event 1 (0, 'read'): worker 0 has a gradient since event 0, allowed for it here are 0a, 0+ and 0d
    """
    if isinstance(schedule, str):
        return parse(schedule)
    try:
        given = [tuple(event) for event in schedule]
    except TypeError:
        raise TypeError(
            f"a schedule is text such as '0r 1r 1a 0a' or a sequence of (worker, action), got {schedule!r}"
        ) from None
    events = [_event(position, event) for position, event in enumerate(given)]
    _check_order(events, lambda position: f"event {position} {events[position]!r}")
    return tuple(events)


def for_gate(schedule: str | Iterable[Sequence[object]]) -> tuple[tuple[int, str], ...]:
    """The order of a schedule for `ScriptedGate`, which knows reads and applies only.

    Raises ValueError for an event that no gate can force, and as `events_of` does.

    >>> for_gate("0r 0a")
    ((0, 'read'), (0, 'apply'))
    >>> for_gate("0r 0d")
    Traceback (most recent call last):
    ValueError: event 1 (0d): a gate lets workers read and apply, it cannot drop; replay(Trace.from_schedule(...)) can
    """
    order: list[tuple[int, str]] = []
    for position, event in enumerate(events_of(schedule)):
        if len(event) == 3 or event[1] not in ("read", "apply"):
            what = "choose a batch" if len(event) == 3 else event[1]
            raise ValueError(
                f"event {position} ({_token(event)}): a gate lets workers read and apply, it cannot {what}; "
                f"replay(Trace.from_schedule(...)) can"
            )
        order.append(event)
    return tuple(order)


def _token(event: Event) -> str:
    return f"{event[0]}{LETTERS[event[1]]}" + (f"#{event[2]}" if len(event) == 3 else "")


def _event(position: int, event: tuple[object, ...]) -> Event:
    """One event, its parts checked."""
    if len(event) not in (2, 3):
        raise TypeError(f"event {position}: an event is (worker, action), got {event!r}")
    worker, action, *batch = event
    if not isinstance(action, str) or action not in LETTERS:
        kind = ValueError if isinstance(action, str) else TypeError
        raise kind(f"event {position}: an action is one of {', '.join(map(repr, LETTERS))}, got {action!r}")
    if batch and action != "read":
        raise ValueError(f"event {position}: only a read has a batch, got {event!r}")
    who = whole_number(f"event {position}: a worker", worker, 0, MOST_WORKERS - 1)
    numbers = [whole_number(f"event {position}: a batch", number, 0, MOST_BATCHES - 1) for number in batch]
    return (who, action, numbers[0]) if numbers else (who, action)


def _check_order(events: Sequence[Event], place: Callable[[int], str]) -> None:
    """Raise ValueError for the first event that cannot follow those before it; `place` names one by its position."""
    since: dict[int, int] = {}  # At which event each worker read the gradient that it has.
    for position, event in enumerate(events):
        worker, action = event[0], event[1]
        if action == "read" and worker in since:
            raise ValueError(
                f"{place(position)}: worker {worker} has a gradient since event {since[worker]}, "
                f"allowed for it here are {worker}a, {worker}+ and {worker}d"
            )
        if action != "read" and worker not in since:
            raise ValueError(f"{place(position)}: worker {worker} has no gradient, allowed for it here is {worker}r")
        if action == "read":
            since[worker] = position
        else:
            del since[worker]
