"""The run's clock: seconds from its start, standing still while nothing may be applied."""

import time
from typing import Any

import numpy as np


class RunClock:
    """Turns wall-clock seconds into seconds of the run.

    Wall-clock time, not a monotonic counter, because a graph can stamp only that.
    """

    def __init__(self) -> None:
        self._origin: float | None = None
        self._halts: list[list[float]] = []  # [from, to] in wall-clock seconds; the last may be open.

    def go(self) -> None:
        """Start, or go on after a halt."""
        now = time.time()
        if self._origin is None:
            self._origin = now
        elif self._halts and self._halts[-1][1] == np.inf:
            self._halts[-1][1] = now

    def halt(self) -> None:
        """Stand still until `go`."""
        if self._origin is not None and not (self._halts and self._halts[-1][1] == np.inf):
            self._halts.append([time.time(), np.inf])

    def seconds(self, wall: Any) -> Any:
        """Seconds of the run at wall-clock times `wall` (a number or an array)."""
        halts = np.array(self._halts).reshape(-1, 2)
        if not len(halts):
            return wall - (self._origin or 0.0)
        begin, length = halts[:, 0], halts[:, 1] - halts[:, 0]
        # Halts that began before each time: the last of them may still go on, the others are over.
        last = np.searchsorted(begin, wall) - 1
        over = np.concatenate([[0.0], np.cumsum(length[:-1])])[last]
        spent = np.where(last < 0, 0.0, over + np.minimum(wall - begin[last], length[last]))
        return wall - (self._origin or 0.0) - spent
