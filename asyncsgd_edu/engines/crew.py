"""The threads of one run: they start together, and the run does not wait for a late one.

What they do is the business of the trainer; here is only who is still about.
"""

import threading
from collections.abc import Callable

PATIENCE = 1.5  # Seconds that an ending run waits for its workers; with the rest, within 2.


class WorkerError(RuntimeError):
    """A worker raised: `worker` is its number, the cause is its error."""

    def __init__(self, worker: int, error: BaseException) -> None:
        super().__init__(f"worker {worker} failed: {type(error).__name__}: {error}")
        self.worker = worker


class Crew:
    """`count` daemon threads that each call `work(number)`; the last to leave calls `ended` with this crew.

    `over` is set when the run has ended, by whoever decides that.
    """

    def __init__(self, count: int, work: Callable[[int], None], ended: Callable[["Crew"], None]) -> None:
        self.over = threading.Event()
        self._work, self._ended = work, ended
        self._alive, self._ending, self._leaving = count, False, threading.Lock()
        self._threads = [
            threading.Thread(target=self._live, args=(n,), name=f"asyncsgd-worker-{n}", daemon=True)
            for n in range(count)
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def end_soon(self) -> None:
        """End the run within `PATIENCE` seconds, without those who are deep in a gradient; returns at once.

        The first call counts, however many threads find that the run is over.
        """

        def give_up_waiting() -> None:
            if not self.over.wait(PATIENCE):
                self._ended(self)

        with self._leaving:
            if self._ending or self.over.is_set():
                return
            self._ending = True
        threading.Thread(target=give_up_waiting, name="asyncsgd-patience", daemon=True).start()

    def await_late(self) -> None:
        """Give those whom an ended run did not wait for a moment more. Raises RuntimeError if that is not enough."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(PATIENCE)
            if thread.is_alive():
                raise RuntimeError(f"{thread.name} still computes its last gradient: try again when it is done")

    def _live(self, number: int) -> None:
        try:
            self._work(number)
        finally:
            with self._leaving:
                self._alive -= 1
                last = self._alive == 0
            if last:
                self._ended(self)
