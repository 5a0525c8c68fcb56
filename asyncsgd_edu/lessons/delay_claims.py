"""Law 6: delays that real machines logged, and the law of memoryless workers, which does not speak of them.

The logs belong to others and are not in the package: whoever has them says where.
"""

import math
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

from asyncsgd_edu.lessons import assumptions
from asyncsgd_edu.lessons.claim import Claim, within
from asyncsgd_edu.rules import laws
from asyncsgd_edu.trace import Trace

LAW = 6
# Shared memory, one delay an update. A master with workers logs several an update, which are something else.
LOGS = "BCD_*.csv"
NOT_RUN = (
    f"law {LAW} was not run: it speaks of delays that real machines logged, which are not in the package; "
    f"--delays FOLDER says where they are ({LOGS}, one delay a line)"
)


def read(folder: str | PathLike[str]) -> dict[str, Trace]:
    """The logs in a folder as traces, by file name, in order.

    Raises ValueError for a folder without logs, and for a log that is none, naming its line or delay.
    """
    place = Path(folder)
    found = sorted(place.glob(LOGS)) if place.is_dir() else []
    if not found:
        raise ValueError(f"delays must be a folder that holds {LOGS}, one delay a line, got {str(folder)!r}")
    return {path.name: _read(path) for path in found}


def _read(path: Path) -> Trace:
    delays = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                delays.append(float(line))
            except ValueError:
                raise ValueError(f"line {number} must be one number, got {line[:40]!r}") from None
        return Trace.from_delays(delays)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def law_6(logs: Mapping[str, Trace]) -> Iterator[Claim]:
    """The mean is that of every law; the deviation would be geometric, were machines memoryless."""
    for name, trace in logs.items():
        workers = trace.header.workers
        what = f"{name}, {len(trace)} updates of {workers} workers"
        mean, deviation = laws.mean_staleness(workers), math.sqrt(workers * (workers - 1))
        outside = assumptions.idle_workers(trace)
        yield Claim(f"mean delay, {what}", mean, trace.mean_staleness, within(0.01, mean), outside=outside)
        measured, outside = float(trace.staleness.std()), assumptions.aging(trace)
        yield Claim(f"deviation of delays, {what}", deviation, measured, within(0.1, deviation), outside=outside)
