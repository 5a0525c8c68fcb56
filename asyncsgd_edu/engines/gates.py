"""Who may go now: where workers wait for a pause, a stop, or their turn in a script.

A worker passes a gate before it reads and before it applies. An open gate lets
everyone through; a scripted gate forces one order, which is how a race is made
to happen on purpose.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from asyncsgd_edu.rules.events import for_gate


class Stopped(Exception):
    """Raised in a worker at a gate once the run is over."""


class OpenGate:
    """Lets every worker through at once, except while paused or stopped.

    While paused no update is applied, so the version stands still. Gradients that
    are in flight stay in flight: their workers wait at the gate with them.
    """

    def __init__(self) -> None:
        # Of the trainer whose run this is: told whether calls of several steps end early, as a stop or a pause waits.
        self.hurry: Callable[[bool], object] = lambda _: None
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._paused = False
        self._permits = 0
        self._inside: set[int] = set()

    @property
    def stopped(self) -> bool:
        """Whether the run is over."""
        return self._stop.is_set()

    @contextmanager
    def turn(self, worker: int, action: str, when: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Wait until `worker` may do `action` (read or apply) and `when` holds, then hold the turn meanwhile.

        `when` is asked again after each turn of anybody. Raises Stopped when the run is over.
        """
        with self._changed:
            while not (self._stop.is_set() or (self._may_pass(worker, action) and when())):
                self._changed.wait()
            if self._stop.is_set():
                raise Stopped
            if action == "apply":
                self._permits -= self._paused
                self._inside.add(worker)
        try:
            yield
        finally:
            self._inside.discard(worker)
        with self._changed:
            self._passed()
            self._changed.notify_all()

    @contextmanager
    def free_pass(self, worker: int) -> Iterator[bool]:
        """Whether `worker` may read, compute and apply in one go, without a turn for each.

        A pause waits for those who got one.
        """
        self._inside.add(worker)  # Before the look at the pause, so that a pause sees who got in.
        try:
            yield self._free()
        finally:
            self._inside.discard(worker)
            if self._paused:
                with self._changed:
                    self._changed.notify_all()

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass; a stop ends them at once and raises Stopped."""
        if self._stop.wait(min(seconds, threading.TIMEOUT_MAX)):
            raise Stopped

    def open(self, workers: int, updates: int) -> None:
        """Make ready for a run of so many updates."""
        self.hurry(False)
        with self._changed:
            self._stop.clear()
            self._paused, self._permits = False, 0

    def rewind(self) -> None:
        """Return to the beginning, for a run that starts over; an open gate has none."""

    def stop(self) -> None:
        """Send every worker home, now and when it next comes to the gate."""
        with self._changed:
            self._stop.set()
            self.hurry(True)  # Once the gate is shut, so that who comes back early does not begin another call.
            self._changed.notify_all()

    def pause(self) -> None:
        """Let no update through from now on; waits for those that are being made, or for a stop."""
        with self._changed:
            self._paused, self._permits = True, 0
            self.hurry(True)
            self._changed.wait_for(lambda: not self._inside or self._stop.is_set())

    def resume(self) -> None:
        """End a pause."""
        with self._changed:
            self.hurry(self.stopped)
            self._paused = False
            self._changed.notify_all()

    def permit_one(self) -> None:
        """Let a single update through although paused."""
        with self._changed:
            self._permits += 1
            self._changed.notify_all()

    @property
    def idle(self) -> bool:
        """Whether nobody is making an update and no permit is left for one."""
        with self._changed:
            return self._permits <= 0 and not self._inside

    def _free(self) -> bool:
        return not self._paused and not self._stop.is_set()

    def _may_pass(self, worker: int, action: str) -> bool:
        return not self._paused or action == "read" or self._permits > 0

    def _passed(self) -> None:
        """What changes when a turn is over; for subclasses."""


class ScriptedGate(OpenGate):
    """Forces one order of reads and applies.

    `order` is a sequence of (worker, "read" | "apply"), or a text such as "0r 1r 1a 0a". Each worker
    reads before it applies, and reads again only after that.

    >>> ScriptedGate("0r 0a").order
    ((0, 'read'), (0, 'apply'))
    """

    def __init__(self, order: str | Sequence[tuple[int, str]]) -> None:
        super().__init__()
        if isinstance(order, str):
            order = for_gate(order)
        try:
            self.order = tuple((worker, action) for worker, action in order)
        except (TypeError, ValueError):
            raise TypeError(f"a script is a sequence of (worker, 'read' or 'apply'), got {order!r}") from None
        self._next = 0
        holding: set[int] = set()
        for position, (worker, action) in enumerate(self.order):
            if action not in ("read", "apply"):
                raise ValueError(f"event {position}: an action is 'read' or 'apply', got {action!r}")
            if (action == "apply") != (worker in holding):
                need = "apply the gradient it has" if action == "read" else "read"
                raise ValueError(f"event {position}: worker {worker} cannot {action}, it must first {need}")
            holding ^= {worker}

    def open(self, workers: int, updates: int) -> None:
        """Make ready for a run; raises ValueError if the rest of the script does not fit it."""
        rest = self.order[self._next :]
        strangers = sorted({worker for worker, _ in rest} - set(range(workers)))
        if strangers:
            raise ValueError(f"the script names worker {strangers[0]}, the run has workers 0 to {workers - 1}")
        applies = sum(action == "apply" for _, action in rest)
        if applies < updates:
            raise ValueError(f"the script has {applies} applies left, the run asks for {updates} updates")
        super().open(workers, updates)

    def rewind(self) -> None:
        """Return to the first event."""
        self._next = 0

    def _may_pass(self, worker: int, action: str) -> bool:
        if self._next == len(self.order) and self.order[-1][0] == worker:
            # Who made the last move is back and the run is not over. (The others may be waiting for it to end the run.)
            raise RuntimeError(f"the script ended after {len(self.order)} events, before the run did")
        mine = self._next < len(self.order) and self.order[self._next] == (worker, action)
        return mine and super()._may_pass(worker, action)

    def _free(self) -> bool:
        return False  # Each read and each apply waits for its place in the script.

    def _passed(self) -> None:
        self._next += 1
