"""The one thread behind the dashboard: it builds, starts, watches and evaluates runs.

A callback only posts what is wanted and returns, on whichever thread it was called.
Everything slow, and every frame, happens here, one after the other. Nothing here
knows a control or a button.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from asyncsgd_edu.view import panels
from asyncsgd_edu.view.configuration import Configuration
from asyncsgd_edu.view.live import GOING, INTERVAL, SOON, LiveView
from asyncsgd_edu.view.live_figure import MOST_FINISHED, NO_RUN, Finished, wrapped
from asyncsgd_edu.view.reports import REPLAYING, Report, Run, conditions
from asyncsgd_edu.view.series import Digest
from asyncsgd_edu.view.virtual import VirtualRun

if TYPE_CHECKING:
    from asyncsgd_edu.engines.trainer import Trainer
    from asyncsgd_edu.trace import Header, Trace


class Conductor:
    """Runs configurations one after the other and keeps `runs`, those that have ended.

    `report` is called on this thread with what there is to say. The thread,
    `asyncsgd-lab`, lives while there is something to do.
    """

    def __init__(self, view: LiveView, report: Callable[[Report], None]) -> None:
        if not isinstance(view, LiveView) or not callable(report):
            raise TypeError(f"a conductor needs a LiveView and what takes a Report, got {view!r} and {report!r}")
        self.view = view
        self.trainer: Trainer | VirtualRun | None = None
        self.runs: tuple[Run, ...] = ()
        self.error: Exception | None = None
        self._tell = report
        self._report = Report()
        self._made_of: Configuration | None = None
        self._running: Configuration | None = None
        self._after: int | None = None
        self._watching, self._looked, self._frames = False, 0.0, 0
        self._coming: Header | None = None
        self._cancel = threading.Event()
        self._wake = threading.Condition()
        self._commands: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None

    # --- what callbacks call: each returns at once -------------------------

    @property
    def busy(self) -> bool:
        """Whether there is a run under way, or anything else still to do."""
        return self._thread is not None

    @property
    def trace(self) -> "Trace | None":
        """The present trainer's trace, None before the first run."""
        trainer = self.trainer  # Once: the thread may replace it between two looks.
        return trainer.trace if trainer is not None else None

    def run(self, configuration: Configuration) -> None:
        """Run it, going on from the present parameters where the trainer would be the same.

        Raises RuntimeError while a run is under way.
        """
        with self._wake:
            if self._running is not None:
                raise RuntimeError("a run is under way: wait for it or stop it before starting another")
            self._running, self.error, self._cancel = configuration, None, threading.Event()
            self.post(partial(self._begin, configuration, self._cancel))

    def stop(self) -> None:
        """End the run under way, also one that is still being built. No effect where there is none."""
        self._cancel.set()
        if self.busy:
            self.post(self._halt)

    def pause(self) -> None:
        """Pause a run that is running, resume one that is paused."""
        self.post(self._toggle)

    def step(self) -> None:
        """Let one update of a paused run through."""
        self.post(self._step)

    def reset(self) -> None:
        """Stop, and return to the initial parameters: same seed, same start."""
        self._cancel.set()
        self.post(self._reset)

    def expect(self, configuration: Configuration | None) -> None:
        """Show, while there is no run, what the laws say of this one; None for controls that cannot be run."""
        with self._wake:
            self._coming = NO_RUN if configuration is None else configuration.header
            self.post(self._expect)

    def post(self, command: Callable[[], None]) -> None:
        """Have `command` called on this thread."""
        with self._wake:
            self._commands.append(command)
            self._wake.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="asyncsgd-lab", daemon=True)
                self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing left to do; False if that takes longer than `timeout` seconds."""
        with self._wake:
            return self._wake.wait_for(lambda: self._thread is None, timeout)

    # --- what happens on the thread ----------------------------------------

    def _work(self) -> None:
        while True:
            with self._wake:
                if not (self._commands or self._watching or self._coming):
                    self._thread = None
                    self._wake.notify_all()
                    return
                if not self._commands:
                    beginning = self.view.frames == self._frames
                    self._wake.wait(SOON if beginning or not self._watching else INTERVAL)
                command = self._commands.popleft() if self._commands else None
            try:
                if command is not None:
                    command()
                if self._watching:
                    self._look()
                elif self._coming:
                    self._expect()
            except Exception as error:  # noqa: BLE001 - a thread has nobody to raise to: the status line tells.
                self._failed(error)

    def _begin(self, configuration: Configuration, cancel: threading.Event) -> None:
        self._running = configuration  # What failed meanwhile, as a last frame may, has said that there is none.
        goes_on = self.trainer is not None and configuration.goes_on_from(self._made_of)
        self._say(Report("building"))
        if not goes_on:
            self.trainer, self._made_of, self._after = None, None, None
            self._show_finished()
            self.view.clear(configuration.header)
            self.trainer = configuration.trainer()
            self._made_of = configuration
        assert self.trainer is not None
        first = self.trainer.trace.version
        target = first + configuration.target
        if cancel.is_set():
            self._running = None
            self._say(Report("stopped", first, first, target))
            return
        self._report, self._frames = Report("running", first, first, target), self.view.frames
        self.trainer.start(updates=configuration.target)
        self._watching = True
        if isinstance(self.trainer, VirtualRun):
            self.post(self._advance)  # After what was posted meanwhile: a Stop comes first.

    def _expect(self) -> None:
        """Show what is expected once the page is ready: of a slider that is dragged, only where it has come to."""
        if self._watching or not self.view.figure.free:
            return
        with self._wake:
            coming, self._coming = self._coming, None
        if coming is not None:
            self.view.expect(coming)

    def _advance(self) -> None:
        """Do the arithmetic of a simulated schedule, unless it was stopped."""
        if self._watching and isinstance(self.trainer, VirtualRun):
            self.trainer.advance(self._between)

    def _between(self) -> bool:
        """Asked a few times a second by a replay: look, do what was posted, wait in a pause; whether to end it."""
        assert self.trainer is not None
        if time.monotonic() - self._looked > INTERVAL:
            self._look()
        while not self._cancel.is_set():
            with self._wake:
                if not self._commands:
                    if self.trainer.state != "paused":
                        return False
                    self._wake.wait(INTERVAL)  # What is posted wakes it, a Stop included.
                if self._cancel.is_set():
                    break  # What came with that, a Reset perhaps, is done once the replay has ended.
                command = self._commands.popleft() if self._commands else self._look
            command()
        return True

    def _look(self) -> None:
        assert self.trainer is not None
        state = self.view.look(self.trainer)
        shown, numbers = self.view.shown, self.view.digest
        going = REPLAYING[state == "paused"] if isinstance(self.trainer, VirtualRun) else state
        report = replace(self._report, state=going if state in GOING else "evaluating")
        if shown is not None:  # The words say what the picture shows.
            header = shown.header
            report = replace(
                report, version=numbers.version,
                staleness=panels.staleness_words(header, numbers), loss=panels.loss_words(header, numbers),
                pace=self._running.prediction.pace(numbers.seconds, numbers.version) if self._running else "",
                conditions=conditions(shown), accuracy=None,
            )  # fmt: skip
        self._say(report)
        self._looked = time.monotonic()
        if state not in GOING:
            self._watching = False
            self._finish(state, numbers)

    def _finish(self, state: str, numbers: Digest) -> None:
        """Evaluate the run that has just ended and put it among the finished ones."""
        trainer, configuration = self.trainer, self._running
        assert trainer is not None
        assert configuration is not None
        problem = ""
        try:
            trace = trainer.wait()
        except Exception as error:  # noqa: BLE001 - the worker's error is the run's: said, and kept for whoever waits.
            self.error, problem, trace = error, str(error), trainer.trace
        if state == "diverged":
            problem = f"the loss was not finite at version {trace.header.ended.version}: try a smaller learning rate"
        scores = trainer.evaluate()
        number = len(self.runs) + 1
        label = wrapped(f"run {number}: {configuration.label}")
        run = Run(
            number, self._after, configuration, state, numbers.version, numbers.seconds, numbers.mean_staleness,
            scores["loss"], scores.get("accuracy"),
            Finished(number, label, numbers.curve, trace.header.batch_size),
        )  # fmt: skip
        self.runs = (*self.runs, run)
        self._after, self._running = number, None
        self._say(replace(self._report, state=state, accuracy=run.accuracy, problem=problem))
        self.view.finish()  # After the words: a page takes long to draw, and whoever has pressed Stop waits for them.

    def _halt(self) -> None:
        if self.trainer is not None and self.trainer.state in GOING:
            self.trainer.stop()

    def _toggle(self) -> None:
        trainer = self.trainer
        if trainer is None:
            return
        if trainer.state == "paused":
            self._while("paused", trainer.resume)
        elif trainer.state == "running":
            self._while("running", trainer.pause)
        if isinstance(trainer, VirtualRun) and self._watching:
            self._look()

    def _step(self) -> None:
        """Let a step through, on a thread of its own: the gradient may take long, and a Stop must not wait for it."""
        trainer = self.trainer
        if trainer is None or isinstance(trainer, VirtualRun) or trainer.state != "paused":
            return
        press = partial(self._while, "paused", trainer.step)
        step = threading.Thread(target=press, name="asyncsgd-step", daemon=True)
        step.start()
        while step.is_alive() and not self._cancel.is_set():
            step.join(SOON)

    def _while(self, state: str, press: Callable[[], None]) -> None:
        """Call it on a run in that state; to be refused because the run has ended meanwhile is no fault."""
        try:
            press()
        except RuntimeError:
            if self.trainer is not None and self.trainer.state == state:
                raise

    def _reset(self) -> None:
        self._halt()
        if self._watching:
            self._look()
        if self.trainer is not None:
            self.trainer.reset()
        self._after = None
        self._show_finished()
        self.view.clear()
        self._say(Report())

    def _show_finished(self) -> None:
        """Draw the finished runs behind the present one, without those that it went on from."""
        self.view.finished = tuple(run.curve for run in self.runs[-MOST_FINISHED:])

    def _failed(self, error: Exception) -> None:
        self.error, self._watching, self._running = error, False, None
        self._say(replace(self._report, state="failed", problem=f"{type(error).__name__}: {error}"))
        self._halt()

    def _say(self, report: Report) -> None:
        self._report = report
        self._tell(report)
