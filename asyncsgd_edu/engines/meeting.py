"""Where workers meet: a delivered gradient is applied, kept for later or thrown away.

The policy decides, and it is asked here just as the simulator asks it. A thread
cannot be interrupted in the middle of a gradient: one that is thrown away meanwhile is
logged as dropped when it arrives.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asyncsgd_edu.engines.log import AT, landed
from asyncsgd_edu.engines.parameters import average_gradients
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.policies import Policy

if TYPE_CHECKING:
    from asyncsgd_edu.engines.async_trainer import Tower


class Late(NamedTuple):
    """A gradient whose turn comes later: its log row, and what `Tower.compute` gave beside that."""

    row: np.ndarray
    rest: Sequence[Any]


class NoMeeting:
    """Nobody waits for anybody: a gradient is applied when it is there, by `land` of a tower."""

    def __init__(self, towers: Sequence["Tower"]) -> None:
        self._towers = towers

    def may_read(self, worker: int) -> bool:
        """Yes."""
        return True

    def reads(self, worker: int) -> None:
        """Nothing to remember."""

    def deliver(self, worker: int, late: Late) -> np.ndarray | None:
        """Apply a gradient; returns its log row."""
        return landed(late.row, self._towers[worker].land(*named(worker, late)))


class Meeting:
    """The gradients of one run that wait for their update, and who may read.

    `tower` applies them and, with a remedy, corrects each by itself; `version` tells the present version.
    """

    def __init__(self, policy: Policy[Any], workers: int, tower: "Tower", version: Callable[[], int]) -> None:
        self._policy, self._state = policy, policy.begin(workers)
        assert tower.apply is not None, "a tower that averages"
        self._tower, self._apply, self._version = tower, tower.apply, version
        self._lock = threading.Lock()
        self._ready: list[deque[Late]] = [deque() for _ in range(workers)]
        self._may_read = set(range(workers))
        self._thrown_away: set[int] = set()

    def may_read(self, worker: int) -> bool:
        """Whether the policy lets `worker` read now."""
        return worker in self._may_read

    def reads(self, worker: int) -> None:
        """`worker` reads: it needs the policy's word before it does so again."""
        self._may_read.discard(worker)

    def deliver(self, worker: int, late: Late) -> np.ndarray | None:
        """Hand in a gradient.

        Returns the rows of all gradients that have ended with this, None if it has to wait.
        """
        with self._lock:
            if worker in self._thrown_away:
                self._thrown_away.discard(worker)
                self._may_read.add(worker)
                late.row[:, AT["end_version"] :] = self._version(), -1, late.row[0, AT["ready_time"]]
                return late.row
            self._ready[worker].append(late)
            self._state, decision = self._policy.ready(self._state, worker)
            rows = self._update(decision.apply) if decision.apply else None
            self._thrown_away.update(decision.drop)
            self._may_read.update(w for w in decision.read if w not in decision.drop)
            return rows

    def _update(self, workers: Sequence[int]) -> np.ndarray:
        """Average the oldest ready gradient of each of `workers`, and apply it once."""
        parts = [self._ready[worker].popleft() for worker in workers]
        correct = self._tower.correct or (lambda _, *rest: [True, *rest])
        corrected = [(part.row, *correct(*named(worker, part))) for worker, part in zip(workers, parts, strict=True)]
        used = [(row, rest) for row, keep, *rest in corrected if keep]
        dropped = [row for row, keep, *_ in corrected if not keep]
        for row in dropped:
            row[:, AT["end_version"] :] = self._version(), -1, row[0, AT["ready_time"]]
        if not used:
            return np.concatenate(dropped)
        mean = average_gradients([rest for _, rest in used]) if len(used) > 1 else used[0][1]
        rows = np.concatenate([row for row, _ in used])
        return np.concatenate([landed(rows, self._apply(tf.constant(workers[-1], tf.int64), *mean)), *dropped])


def named(worker: int, late: Late) -> list[Any]:
    """What a tower is told of a gradient: whose it is and the version it was read at, its loss, and the rest."""
    return [tf.constant([worker, int(late.row[0, AT["read_version"]])], tf.int64), *late.rest]
