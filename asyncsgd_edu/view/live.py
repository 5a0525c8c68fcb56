"""A trace shown while it grows: one figure, made once, and one thread that draws.

Workers never come here: they append to their trace, and the pump looks at it a few
times a second. A frame goes out when the page has drawn the last one; the last frame of
a run always does. Everything drawn comes from `series` and `panels`, as in the static
figures.
"""

import html
import inspect
import threading
import time
from typing import Any, Protocol

import ipywidgets as widgets

from asyncsgd_edu.rules.arguments import one_of
from asyncsgd_edu.trace import Header, Trace
from asyncsgd_edu.view import panels, series, titles
from asyncsgd_edu.view.live_figure import NO_RUN, Finished, LiveFigure, empty_frame, frame

INTERVAL = 0.19  # Seconds between two looks, and at least between two frames: about five a second.
SOON = 0.03  # Seconds between two looks until there is a first frame: somebody has just pressed Run.
PATIENCE = 60.0  # Seconds that a pump waits for a trainer that has not been started.
GOING = ("running", "paused")


class Watched(Protocol):
    """What a view needs of a trainer."""

    @property
    def state(self) -> str:
        """`ready`, `running`, `paused`, or how the run ended."""

    @property
    def trace(self) -> Trace:
        """A consistent prefix of the run's trace."""


class LiveView:
    """A growing trace: convergence on top, staleness and the last gradients below, numbers in text.

    `LiveView(trainer)` starts to watch at once; `draw(trace)` draws one frame of any
    trace. As the last expression of a cell it shows itself. Raises ValueError for an
    unknown `by`, and TypeError for something that is not a trainer.
    """

    def __init__(self, trainer: Watched | None = None, by: str = "updates") -> None:
        if trainer is not None:
            check_watched(trainer)
        self._by = one_of("by", by, series.AXES)
        self.finished: tuple[Finished, ...] = ()
        self.figure = LiveFigure()
        self.text = widgets.HTML(layout={"min_height": "28px", "margin": "0 0 0 8px"})
        self.box = widgets.VBox([self.figure, self.text])
        self.frames = 0
        self.digest = series.Digest()
        self._drawing = threading.RLock()
        self._growing = series.Growing()
        self._trace: Trace | None = None
        self._coming = NO_RUN
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.clear()
        if trainer is not None:
            self.watch(trainer)

    @property
    def by(self) -> str:
        """The horizontal axis of the convergence plot: updates, samples or seconds."""
        return self._by

    @by.setter
    def by(self, by: str) -> None:
        self._by = one_of("by", by, series.AXES)
        self.redraw()

    @property
    def shown(self) -> Trace | None:
        """The trace that is drawn, None where no run is shown."""
        return self._trace

    def draw(self, trace: Trace) -> series.Digest:
        """Draw one frame of a trace and return the numbers that it shows. Raises TypeError for anything else."""
        titles.checked(trace)
        with self._drawing:
            return self._draw(trace, self._growing(trace))

    def _draw(self, trace: Trace, digest: series.Digest, *, whole: bool = False) -> series.Digest:
        self.figure.show_frame(*frame(trace, digest, self._by, self.finished), whole=whole)
        self._say(_sentence(trace, digest))
        self._trace, self.digest = trace, digest
        self.frames += 1
        return digest

    def redraw(self) -> None:
        """Draw the present trace again, after a change of axis or of the finished runs."""
        with self._drawing:
            if self._trace is None:
                self.clear()
            else:
                self.draw(self._trace)
                self.figure.settle()

    def expect(self, coming: Header) -> None:
        """While no run is shown, draw what the laws say of one with that header."""
        with self._drawing:
            self._coming = coming
            if self._trace is None:
                self.clear()

    def clear(self, coming: Header | None = None) -> None:
        """Show no run (the finished ones stay), and what is expected of the one to come: of one with that header."""
        with self._drawing:
            self._coming = coming or self._coming
            self._trace, self.digest = None, series.Digest()
            self._growing = series.Growing()
            self.figure.show_frame(*empty_frame(self._by, self.finished, self._coming))
            self.figure.settle()
            self._say("no updates yet")

    def look(self, trainer: Watched) -> str:
        """Draw the trainer's trace if it has grown and the page is ready for it.

        Returns the trainer's state before that. Once the run has ended the trace is only read, and `finish` draws it.
        """
        # The state first: what is read after the end of a run is all of it.
        state, trace = trainer.state, trainer.trace
        with self._drawing:
            if state not in GOING:
                self._trace, self.digest = trace, self._growing(trace)
            elif len(trace) != (0 if self._trace is None else len(self._trace)) and self.figure.free:
                self.draw(trace)
        return state

    def finish(self) -> None:
        """Draw the last frame, whatever the page has still to draw: whole, and also for pages that are opened later."""
        with self._drawing:
            if self._trace is not None:
                self._draw(self._trace, self.digest, whole=True)
                self.figure.settle()

    def watch(self, trainer: Watched) -> None:
        """Draw the trainer's trace until its run ends; replaces a trainer that was watched before.

        Raises TypeError for something that is not a trainer.
        """
        check_watched(trainer)
        self.close()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._pump, args=(trainer, self._stop), name="asyncsgd-live", daemon=True
        )
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the last frame of the watched run has been drawn; False after `timeout` seconds."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        return thread is None or not thread.is_alive()

    def close(self) -> None:
        """Stop watching. The picture stays."""
        self._stop.set()
        self.wait()
        self._thread = None

    def _pump(self, trainer: Watched, stop: threading.Event) -> None:
        try:
            deadline = time.monotonic() + PATIENCE
            while trainer.state == "ready" and time.monotonic() < deadline:
                if stop.wait(0.05):
                    return
            first = self.frames
            while self.look(trainer) in GOING:
                if stop.wait(SOON if self.frames == first else INTERVAL):
                    return
            self.finish()
        except Exception as error:  # noqa: BLE001 - a thread has nobody to raise to: whoever looks is told.
            self.show_error(error)

    def show_error(self, error: BaseException) -> None:
        """Say in the text line that drawing failed, and why."""
        self._say(f"the view failed: {type(error).__name__}: {error}", alarm=True)

    def _say(self, sentence: str, *, alarm: bool = False) -> None:
        words = html.escape(sentence)
        self.text.value = f'<b style="color:#B00020">{words}</b>' if alarm else words

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        self.figure.introduce()
        return self.box._repr_mimebundle_(**kwargs)


def check_watched(trainer: object) -> None:
    """Raise TypeError unless `trainer` has what `Watched` says."""
    # Not hasattr, which would ask a trainer for its trace.
    lacks = [name for name in ("state", "trace") if inspect.getattr_static(trainer, name, None) is None]
    if lacks:
        hint = ": a trace is shown by LiveView().draw(trace)" if isinstance(trainer, Trace) else ""
        raise TypeError(f"trainer must be a trainer such as AsyncTrainer(...), or None, got {trainer!r}{hint}")


def _sentence(trace: Trace, digest: series.Digest) -> str:
    if not len(trace):
        return "no updates yet"
    dropped = digest.rows - digest.applied
    parts = [
        panels.subject(trace.header),
        f"version {digest.version}",
        f"{digest.rows} gradients" + (f" ({dropped} dropped)" if dropped else ""),
        panels.staleness_words(trace.header, digest),
        f"largest {digest.largest_staleness}",
        panels.loss_words(trace.header, digest),
        f"{digest.seconds:.2f} s",
        panels.conditions(trace.header),
    ]
    return " · ".join(part for part in parts if part)
