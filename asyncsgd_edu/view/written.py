"""A schedule as somebody writes it: checked, and what a run of it does before it is run.

Text in, a trace without losses out, and back. No arithmetic is done here, so nothing
here loads TensorFlow.
"""

from dataclasses import replace

from asyncsgd_edu.engines.counterfactual import drop
from asyncsgd_edu.rules.arguments import whole_number
from asyncsgd_edu.rules.events import parse
from asyncsgd_edu.rules.remedies import Remedy
from asyncsgd_edu.trace import Trace

# The policy of such a run. Not "asynchronous", even if each gradient is an update: workers that read when somebody
# says so do not keep the laws of workers that read again at once.
WRITTEN = "written by hand"
EXAMPLE = "0r 1r 1a 0a\n0r 0a 1r 1a"  # A race of two workers, and the same two in turn.
MOST_EVENTS = 10_000
MOST_WRITING = 1000  # Workers.
WRITTEN_DOWN = 40  # Gradients.


def schedule_from(text: str, seed: int = 0, remedy: Remedy | None = None) -> Trace:
    """The schedule that is written in `text` (see `rules.events`), with what `remedy` drops of it.

    Raises TypeError for what is no text, and ValueError naming the event that cannot be there, for a schedule
    without an update, and for one that is too long or has too many workers.

    >>> schedule_from("0r 1r 1a 0a").staleness.tolist()
    [0, 1]
    >>> schedule_from("0r 1r")
    Traceback (most recent call last):
    ValueError: a schedule to run has at least one update, as in '0r 0a'; got 2 events and no update
    """
    events = parse(text)
    if len(events) > MOST_EVENTS:
        raise ValueError(f"a schedule here has at most {MOST_EVENTS} events, got {len(events)}")
    if not any(event[1] == "apply" for event in events):
        raise ValueError(
            f"a schedule to run has at least one update, as in '0r 0a'; got {len(events)} events and no update"
        )
    whole_number("a worker's number here", max(event[0] for event in events), 0, MOST_WRITING - 1)
    made = Trace.from_schedule(events, seed=seed)
    made = drop(made, remedy)
    return Trace(replace(made.header, policy=WRITTEN), made.columns)


def written_down(trace: Trace, gradients: int = WRITTEN_DOWN) -> tuple[str, int]:
    """The schedule of the first gradients of a run as text, and how many they are.

    They are as many as asked for, and those that are averaged with the last of them. Raises ValueError for a
    trace without updates, and one of which no schedule can be written.

    >>> written_down(Trace.from_schedule("0r 1r 1a 0a 0r 0a"), 2)
    ('0r 1r 1a 0a', 2)
    """
    if not trace.updates:
        raise ValueError("there is no update to write down yet: run something first")
    last = int(trace.apply_version[:gradients].max())
    part = up_to(trace, last + 1) if last >= 0 else up_to(trace, 1)
    return part.schedule(), len(part)


def up_to(trace: Trace, version: int) -> Trace:
    """The rows of a trace before those of the update that follows `version`; all, if it ends there.

    Raises ValueError for a version that it does not reach.

    >>> len(up_to(Trace.from_schedule("0r 1r 1a 0a"), 1))
    1
    """
    if version > trace.version:
        raise ValueError(f"the schedule ends at version {trace.version}, got {version}")
    if version == trace.version:
        return trace
    return trace[: int((trace.apply_version >= version).argmax())]
