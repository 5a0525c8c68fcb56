"""What the conductor says: a report while something is going on, a run when it has ended.

Frozen values and words about them. Nothing here knows a thread or a widget.
"""

from dataclasses import dataclass

import numpy as np

from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view import panels
from asyncsgd_edu.view.configuration import Configuration
from asyncsgd_edu.view.live_figure import Finished
from asyncsgd_edu.view.written import WRITTEN

REPLAYING = ("replaying", "replay paused")  # What a simulated run is while its arithmetic is done.


@dataclass(frozen=True)
class Run:
    """A run that has ended. `after` is the number of the run that it went on from, None for a fresh start."""

    number: int
    after: int | None
    configuration: Configuration
    how: str
    updates: int
    seconds: float
    mean_staleness: float
    loss: float
    accuracy: float | None
    curve: Finished


@dataclass(frozen=True)
class Report:
    """What the status line says.

    `state` is a trainer's, or `building`, `replaying`, `replay paused` or `evaluating`.
    """

    state: str = "ready"
    version: int = 0
    first: int = 0
    target: int = 0
    staleness: str = ""
    loss: str = ""
    accuracy: float | None = None
    pace: str = ""
    conditions: str = ""
    problem: str = ""  # What went wrong, in words; empty while nothing has.


def conditions(trace: Trace) -> str:
    """How the numbers of a run came about, in a phrase: its times, its access, its remedy.

    Where access is not consistent it says which share of the reads was torn (read_spread counts every update that
    some variables have and others have not, so also one that some have lost for good), and, once the run
    has ended, how many updates the variable that lost most has lost.

    >>> from asyncsgd_edu.trace import Header
    >>> conditions(Trace.from_schedule("0r 0a"))
    'virtual time'
    """
    header = trace.header
    parts = [WRITTEN] if header.policy == WRITTEN else []
    parts.append(panels.timing(header) or "real durations, nothing injected")
    if header.remedy:
        constants = [f"{k} {v}" for k, v in header.remedy.items() if k != "name" and v not in (None, False)]
        parts.append(f"{header.remedy['name']}" + (f" ({', '.join(constants)})" if constants else ""))
    if header.access != "consistent":
        parts.append(f"{header.access}{_damage(trace)}")
    return " · ".join(parts)


def _damage(trace: Trace) -> str:
    """What came of access that is not consistent, as far as it has been counted."""
    said = []
    if trace.header.ended.lost:
        lost = max(trace.header.ended.lost)
        said.append(f"lost {lost} of {trace.version}")
    if len(trace):
        share = np.count_nonzero(trace.read_spread) / len(trace)
        said.append(f"{share:.1%} of reads torn")
    return f": {', '.join(said)}" if said else ""
