"""The life of a run: start, pause, stop, fail, end; the same for every trainer.

What a worker does is the business of the subclasses. Here are the threads that do it, the state they are in, and the
promise that a run always ends: exactly at its limit, within two seconds of a stop, or with the error of a worker.
"""

import os
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from asyncsgd_edu.engines.clock import RunClock
from asyncsgd_edu.engines.crew import PATIENCE, Crew, WorkerError
from asyncsgd_edu.engines.gates import OpenGate, Stopped
from asyncsgd_edu.engines.log import AT, Call, VersionLog, rows_of, sorted_out
from asyncsgd_edu.engines.parameters import SharedParameters
from asyncsgd_edu.engines.recorder import Recorder
from asyncsgd_edu.header import Ended, Header, packages
from asyncsgd_edu.problems.problem import Problem
from asyncsgd_edu.rules.arguments import MAX_UPDATES, positive_number, whole_number
from asyncsgd_edu.trace import Trace


class Trainer(ABC):
    """A run that can be watched: `threads` threads around one set of shared parameters.

    A second `fit` or `start` goes on from the present parameters, in the same trace;
    `reset` returns to the initial ones.
    """

    def __init__(
        self, problem: Problem, parameters: SharedParameters, header: Header, threads: int, gate: OpenGate | None
    ) -> None:
        self.problem = problem
        self.header = replace(header, packages=packages())
        self.gate = gate if gate is not None else OpenGate()
        if not isinstance(self.gate, OpenGate):
            raise TypeError(f"gate must be None, an OpenGate or a ScriptedGate, got {gate!r}")
        self._shared = parameters
        self._changing = threading.RLock()
        self._thread_count = threads
        self._fresh()

    def _fresh(self) -> None:
        self._clock = RunClock()
        self._log = VersionLog(self._thread_count, self._clock)
        self._next_batch = [0] * self._thread_count
        self._state, self._ended = "ready", Ended()
        self._failure: tuple[int, BaseException] | None = None
        self._diverged_at: int | None = None
        self._limit = 0
        self._crew = Crew(0, self._live, self._end)  # Of no run yet.
        self._crew.over.set()
        self._recorder: Recorder | None = None

    @abstractmethod
    def _round(self, thread: int, number: int) -> Call | np.ndarray | None:
        """Read, compute, apply; return the gradients that ended with it, in log rows. Raises Stopped at a gate."""

    @abstractmethod
    def _get_ready(self) -> None:
        """Prepare what the workers of one start share, before there are any."""

    # --- what a user calls -------------------------------------------------

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.header.workers

    @property
    def state(self) -> str:
        """ready, running, paused, finished, stopped, diverged or failed."""
        return self._state

    @property
    def version(self) -> int:
        """Updates that are in the parameters now."""
        return self._shared.version

    @property
    def trace(self) -> Trace:
        """The version log so far; may be read at any time, and is a consistent prefix."""
        ended = self._ended  # Before the columns: an ended run must not lack its last rows.
        columns = self._log.columns()
        parameters = None if ended.how == "running" or self._unlogged() else self._shared.values()
        return Trace(replace(self.header, ended=ended), columns, parameters)

    @property
    def parameters(self) -> list[np.ndarray]:
        """Copies of the parameters as they are now."""
        return self._shared.values()

    def evaluate(self) -> dict[str, float]:
        """The problem's evaluation of the present parameters."""
        return self.problem.evaluate(self.parameters)

    def fit(self, updates: int, record: str | os.PathLike[str] | None = None) -> Trace:
        """Do `updates` updates and return the trace. An interrupt stops the run, then is passed on."""
        self.start(updates, record)
        try:
            return self.wait()
        except KeyboardInterrupt:
            self.stop()
            raise

    def start(self, updates: int, record: str | os.PathLike[str] | None = None) -> None:
        """Begin `updates` updates and return at once. With `record`, write the trace there as it grows."""
        updates = whole_number("updates", updates, 1, MAX_UPDATES)
        self._must_have_ended()
        self._crew.await_late()  # Outside the lock, which a late worker needs on its way out.
        self._recorded()
        with self._changing:
            self._must_have_ended()
            if self._failure is not None and self._unlogged():
                raise RuntimeError(f"{self._unlogged()} updates of a failed call are not in the log: reset() first")
            limit = self.version + updates
            self._shared.allow(limit)
            self.gate.hurry = self._shared.hurry  # Only now: a gate may have served another trainer.
            self.gate.open(self._thread_count, updates)
            recorder = Recorder(record, self) if record is not None else None
            self._log.drop_in_flight(self.version, time.time())
            self._get_ready()
            self._limit, self._failure, self._diverged_at, self._ended = limit, None, None, Ended()
            self._state, self._recorder = "running", recorder
            self._crew = Crew(self._thread_count, self._live, self._end)
            self._clock.go()
            if recorder is not None:
                recorder.begin(self._crew.over)  # First, so that an interrupt from here on leaves a whole file.
            self._crew.start()

    def wait(self, timeout: float | None = None) -> Trace:
        """Wait for the run to end and return its trace.

        Raises WorkerError if a worker failed, OSError if the run could not be recorded, TimeoutError after `timeout` s.
        """
        limit = None if timeout is None else min(positive_number("timeout", timeout, zero=True), threading.TIMEOUT_MAX)
        if self._state == "ready":
            raise RuntimeError("nothing to wait for: start the trainer first")
        if not self._crew.over.wait(limit):
            raise TimeoutError(f"still {self._state} at version {self.version} after {timeout} s")
        self._recorded()
        if self._recorder is not None and self._recorder.error is not None:
            raise self._recorder.error
        if self._failure is not None:
            raise WorkerError(*self._failure) from self._failure[1]
        return self.trace

    def stop(self) -> None:
        """End the run now; returns within 2 s, whatever a worker is doing. No effect on a run that has ended."""
        crew = self._crew
        self.gate.stop()
        if not crew.over.wait(PATIENCE):
            self._end(crew)  # A worker is deep in a gradient: it is refused when it comes back.
        self._recorded(0.3)

    def pause(self) -> None:
        """Let no update through; gradients in flight stay in flight. Raises RuntimeError unless running."""
        with self._changing:
            self._must_be("running", "pause")
        self.gate.pause()
        self._caught_up()
        with self._changing:
            if self._state == "running" and not self.gate.stopped:
                self._clock.halt()
                self._state = "paused"

    def resume(self) -> None:
        """Go on after a pause. Raises RuntimeError unless paused."""
        with self._changing:
            self._must_be("paused", "resume")
            self._clock.go()
            self._state = "running"
            self.gate.resume()

    def step(self) -> None:
        """While paused, let exactly one update through and wait until it is in (or the run has ended)."""
        with self._changing:
            self._must_be("paused", "step")
            before = self.version
            self._clock.go()
            self.gate.permit_one()
        # A gradient that was let through may have been dropped, or wait for others of its update: then one more goes.
        while self.version == before and not self._crew.over.wait(0.002):
            if self.gate.idle and self.version == before:  # In this order: an update may land in between.
                self.gate.permit_one()
        self._caught_up()
        with self._changing:
            if self._state == "paused":
                self._clock.halt()

    def reset(self) -> None:
        """Return to the initial parameters and an empty trace, stopping a run first: same seed, same start."""
        self.stop()
        self._crew.await_late()
        self._recorded()
        with self._changing:
            self.gate.rewind()
            self._shared.reset()
            self._fresh()

    # --- what happens in the threads --------------------------------------

    def _live(self, thread: int) -> None:
        """One thread's whole life: rounds until the run is over."""
        try:
            while not self.gate.stopped:
                number = self._next_batch[thread]
                self._next_batch[thread] += 1
                self._note(thread, self._round(thread, number))
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - a thread's error is the run's error, whatever it is.
            self._fail(thread, error)

    def _note(self, thread: int, ended: Call | np.ndarray | None) -> None:
        """Log what a round did, and end the run if it was the last or went wrong."""
        if ended is None:
            return
        if isinstance(ended, Call) and ended.ends_below(self._limit):
            self._log.append(thread, ended)
            return
        rows = rows_of([ended]) if isinstance(ended, Call) else ended
        kept, rest, last = sorted_out(rows, self._limit, self._crew.over.is_set())
        self._log.append(thread, kept)
        if last:
            self._send_home()
        finite = np.isfinite(rest[:, AT["loss"]])
        if not finite.all():
            self._log.append(thread, rest)
            with self._changing:
                if self._diverged_at is None:
                    self._diverged_at = int(rest[~finite, AT["read_version"]][0])
            self._send_home()
        elif len(rest):
            self._log.in_flight(rest)  # It came too late to be let in.
            self._send_home()
        with self._changing:
            if self._crew.over.is_set():  # The run ended without this one: say so after all.
                self._ended = replace(self._ended, in_flight=self._log.left_in_flight())

    def _fail(self, thread: int, error: BaseException) -> None:
        with self._changing:
            if self._state not in ("running", "paused"):
                return  # A worker that was given up: its run has ended without it.
            self._failure = self._failure or (self._name_worker(thread, error), error)
        self._send_home()

    def _send_home(self) -> None:
        """The run is over, but others may be deep in a gradient: it ends without them if they take long."""
        self.gate.stop()
        self._crew.end_soon()

    def _name_worker(self, thread: int, error: BaseException) -> int:
        """Number of the worker whose error this is."""
        return thread

    def _end(self, crew: Crew) -> None:
        """Say how that crew's run ended. The first to call this decides; later calls change nothing."""
        with self._changing:
            if crew.over.is_set():
                return
            self._shared.close()
            self._clock.halt()
            if self._failure is not None:
                (worker, error), lacks = self._failure, self._unlogged()
                more = f" ({lacks} updates of its last call are not in the log)" if lacks else ""
                ended = Ended("failed", worker=worker, error=f"{type(error).__name__}: {error}{more}")
            elif self._diverged_at is not None:
                ended = Ended("diverged", version=self._diverged_at)
            else:
                ended = Ended("finished" if self.version >= self._limit else "stopped")
            self._ended = replace(ended, in_flight=self._log.left_in_flight(), lost=self._shared.lost())
            self._state = ended.how
            crew.over.set()

    def _caught_up(self) -> None:
        """Wait until what has landed is in the log as well (or the run has ended): a caller may look there next."""
        while self._unlogged() and not self._crew.over.wait(0.002):
            pass

    def _unlogged(self) -> int:
        """Updates that the log does not have: those of a call that failed after some of its steps."""
        return max(0, self.version - self._log.version)

    def _recorded(self, timeout: float | None = None) -> None:
        """Wait until what is recorded of an ended run is in its file, at most `timeout` seconds."""
        if self._recorder is not None and self._recorder.is_alive():
            self._recorder.join(timeout)

    def _must_have_ended(self) -> None:
        if self._state in ("running", "paused"):
            raise RuntimeError(f"this trainer is {self._state}: wait for it or stop it before starting again")

    def _must_be(self, state: str, action: str) -> None:
        if self._state != state:
            raise RuntimeError(f"{action} needs a trainer that is {state}, this one is {self._state}")
