"""A schedule laid out for its arithmetic: which old parameters each gradient needs, and for how long.

Integers only. Parameters of old versions lie in slots; a version has one from when it
comes about until the last gradient that was read from it, so there are about as many
slots as workers, however stale a gradient is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu.trace import Trace

Ints = NDArray[np.int64]

NOWHERE = 0  # The slot for versions that nobody reads.
ROW = ("worker", "batch", "slot_read", "slot_made", "closes", "staleness")


@dataclass(frozen=True)
class Plan:
    """What replay does with each row.

    `rows` is int64 of shape [gradients, len(ROW)]: slot_read holds the version read, slot_made
    takes the one that comes about if the row `closes` an update. `size` is float32 of shape
    [gradients], how many gradients its update is the mean of, 0 if it is dropped. `slots` is how many there are;
    `single` whether every row is an update of its own.
    """

    rows: Ints
    size: NDArray[np.float32]
    slots: int
    single: bool

    @classmethod
    def of(cls, trace: Trace) -> "Plan":
        """Lay out a sound trace from version 0 on."""
        end, applied = trace.flights.end[: len(trace)], trace.applied
        size = np.bincount(end[applied], minlength=trace.version + 1)
        # The last gradient of an update closes it: the mean is applied there.
        closes = np.zeros(len(trace), bool)
        closes[np.flatnonzero(applied)[np.cumsum(size[size > 0]) - 1]] = True
        slot_read, slot_made, slots = _slots(trace.read_version, closes)
        columns: list[np.ndarray] = [trace.worker, trace.batch, slot_read, slot_made, closes, end - trace.read_version]
        single = bool(applied.all() and size.max(initial=1) == 1)
        rows = np.stack(columns, axis=1).astype(np.int64)
        return cls(rows, np.where(applied, size[end], 0).astype(np.float32), slots, single)

    def whole(self, rows: int) -> int:
        """How many of the first `rows` rows make whole updates, those dropped after the last one included."""
        closing = np.flatnonzero(self.rows[:rows, ROW.index("closes")])
        whole = int(closing[-1]) + 1 if len(closing) else 0
        waiting = np.flatnonzero(self.size[whole:rows])
        return whole + int(waiting[0]) if len(waiting) else rows


def _slots(read_version: Ints, closes: NDArray[np.bool_]) -> tuple[Ints, Ints, int]:
    """Slot that each row reads from and slot of the version that it makes, shape [rows], and how many there are."""
    rows = len(read_version)
    last_use = np.full(int(closes.sum()) + 1, -1)
    last_use[read_version] = np.arange(rows)  # The last assignment to an index is what stays.
    slot_of, slots = np.full(len(last_use), NOWHERE), 1
    free: list[int] = []
    slot_made = np.full(rows, NOWHERE)
    versions = np.concatenate([[0], np.cumsum(closes)])

    def take(version: int) -> int:
        nonlocal slots
        if last_use[version] < 0:
            return NOWHERE
        if not free:
            free.append(slots)
            slots += 1
        slot_of[version] = free.pop()
        return int(slot_of[version])

    take(0)
    uses = last_use[read_version] == np.arange(rows)
    for row in np.flatnonzero(uses | closes).tolist():
        if closes[row]:  # The new version comes about while the old ones are still there.
            slot_made[row] = take(int(versions[row + 1]))
        if uses[row]:
            free.append(int(slot_of[read_version[row]]))
    return slot_of[read_version], slot_made, slots
