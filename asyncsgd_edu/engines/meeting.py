"""Where workers meet: a delivered gradient is applied, kept for later or thrown away.

The policy decides, and it is asked here just as the simulator asks it. A thread
cannot be interrupted in the middle of a gradient: one that is thrown away meanwhile is
logged as dropped when it arrives.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.engines.log import AT, landed
from asyncsgd_edu.engines.parameters import average_gradients
from asyncsgd_edu.rules.policies import Policy


class Meeting:
    """The gradients of one run that wait for their update, and who may read.

    `apply` is a graph function of (loss, gradient of each parameter) that reports a row's
    TAIL; `version` tells the present version.
    """

    def __init__(
        self, policy: Policy[Any], workers: int, apply: Callable[..., Any], version: Callable[[], int]
    ) -> None:
        self._policy, self._state = policy, policy.begin(workers)
        self._apply, self._version = apply, version
        self._lock = threading.Lock()
        self._ready: list[deque[tuple[np.ndarray, list[Any]]]] = [deque() for _ in range(workers)]
        self._may_read = set(range(workers))
        self._thrown_away: set[int] = set()

    def may_read(self, worker: int) -> bool:
        """Whether the policy lets `worker` read now."""
        return worker in self._may_read

    def reads(self, worker: int) -> None:
        """`worker` reads: it needs the policy's word before it does so again."""
        self._may_read.discard(worker)

    def deliver(self, worker: int, row: np.ndarray, gradient: Sequence[Any]) -> np.ndarray | None:
        """Hand in the loss and gradients behind a log row.

        Returns the rows of all gradients that have ended with this, None if it has to wait.
        """
        with self._lock:
            if worker in self._thrown_away:
                self._thrown_away.discard(worker)
                self._may_read.add(worker)
                row[:, AT["end_version"] :] = self._version(), 0, row[0, AT["ready_time"]]
                return row
            self._ready[worker].append((row, list(gradient)))
            self._state, decision = self._policy.ready(self._state, worker)
            rows = self._update(decision.apply) if decision.apply else None
            self._thrown_away.update(decision.drop)
            self._may_read.update(w for w in decision.read if w not in decision.drop)
            return rows

    def _update(self, workers: Sequence[int]) -> np.ndarray:
        """Average the oldest ready gradient of each of `workers`, and apply it once."""
        parts = [self._ready[worker].popleft() for worker in workers]
        mean = average_gradients([gradient for _, gradient in parts]) if len(parts) > 1 else parts[0][1]
        return landed(np.concatenate([row for row, _ in parts]), self._apply(*mean))
