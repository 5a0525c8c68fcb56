"""The dashboard: controls, a status line in words, the live view, a table of runs.

Widgets hold the controls and compute nothing. A callback reads them into a
`Configuration` and hands it on; it may be called on any thread, and returns at once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from asyncsgd_edu.view import wording
from asyncsgd_edu.view.conductor import Conductor
from asyncsgd_edu.view.configuration import Configuration
from asyncsgd_edu.view.controls import ROW, Controls
from asyncsgd_edu.view.live import GOING, LiveView
from asyncsgd_edu.view.reports import REPLAYING, Report, Run
from asyncsgd_edu.view.written import EXAMPLE, WRITTEN_DOWN, written_down

if TYPE_CHECKING:
    from asyncsgd_edu.engines.trainer import Trainer
    from asyncsgd_edu.trace import Trace
    from asyncsgd_edu.view.virtual import VirtualRun

BUSY = ("building", "evaluating")  # A run is under way, but nothing that could be paused.

# Room for as many lines of 22 pixels as the words may need in a window so wide, so that nothing below them jumps.
PREDICTED = "clamp(22px, calc(22px + (1100px - 100vw)), 44px)"
STATUS = "clamp(66px, calc(66px + (1920px - 100vw) * 0.046), 110px)"


class Lab(widgets.VBox):
    """A dashboard that runs a `Configuration` and shows it live; every control is an argument.

    Run goes on from the present parameters while the controls that make a trainer
    stay as they are; Reset returns to the initial ones (same seed, same start). As the
    last expression of a cell it shows itself. Making and showing it loads no TensorFlow.
    Raises ValueError or TypeError for a bad control, as `Configuration` does.
    """

    def __init__(
        self,
        mode: str = "threads",
        threads: int = 4,
        gpus: int = 1,
        learning_rate: float = 0.05,
        problem: str = "digits-cnn",
        duration_law: str = "none",
        duration: float = 0.01,
        updates: int = 2000,
        seed: int = 0,
        by: str = "updates",
        policy: str = "asynchronous",
        constant: int = 2,
        access: str = "consistent",
        remedy: str = "none",
        drop_bound: int = 4,
        strength: float = 0.04,
        schedule: str = EXAMPLE,
    ) -> None:
        first = Configuration(
            mode, threads, gpus, learning_rate, problem, duration_law, duration, updates, seed, by, policy, constant,
            access, remedy, drop_bound, strength, schedule,
        )  # fmt: skip
        self._make_controls(first)
        self._make_buttons()
        self._predicted = widgets.HTML(layout={"min_height": PREDICTED, "margin": "2px 8px 2px 2px"})
        self._status = widgets.HTML(layout={"min_height": STATUS, "margin": "0 8px"})
        self._table = widgets.HTML(wording.table(()), layout={"margin": "0 8px", "overflow": "auto"})
        self._view = LiveView(by=first.by)
        self._conductor = Conductor(self._view, self._show)
        super().__init__([*self._rows(), self._status, self._view.figure, self._table])
        self.layout.width = "100%"
        self._show(Report())
        self._adapt_controls()
        self._view.expect(first.header)
        self._predict()

    # --- for notebooks and tests ------------------------------------------

    @property
    def configuration(self) -> Configuration:
        """What the controls say now. Raises ValueError or TypeError if that cannot be run."""
        return self._controls.configuration

    @property
    def trainer(self) -> "Trainer | VirtualRun | None":
        """The trainer of the present run, or what simulates one; None before the first."""
        return self._conductor.trainer

    @property
    def trace(self) -> "Trace | None":
        """The trace of the present run so far, None before the first."""
        return self._conductor.trace

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that have ended, in order."""
        return self._conductor.runs

    @property
    def prediction(self) -> str:
        """What the laws say of the controls as they are now, as shown (HTML)."""
        return str(self._predicted.value)

    @property
    def status(self) -> str:
        """The status line, as shown (HTML)."""
        return str(self._status.value)

    def run(self, wait: bool = False) -> None:
        """Press Run. With `wait`, return when the run has ended, and raise its error if it failed.

        Raises ValueError or TypeError for a bad control, and RuntimeError while a run is under way.
        """
        self._conductor.run(self.configuration)
        if not wait:
            return
        try:
            self.wait()
        except KeyboardInterrupt:
            self.stop()
            raise
        if self._conductor.error is not None:
            raise self._conductor.error

    def stop(self) -> None:
        """Press Stop; returns at once (`wait()` waits for the end)."""
        self._conductor.stop()

    def reset(self) -> None:
        """Press Reset; returns at once."""
        self._conductor.reset()

    def write_down(self) -> None:
        """Press Write down: put the first gradients of the present run into the schedule, as text to be edited.

        Raises ValueError where there is nothing to write down, or nothing that can be written as text.
        """
        trace = self.trace
        if trace is None:
            raise ValueError("there is no run to write down yet: run something first")
        self._controls["schedule"].value, count = written_down(trace)
        self._status.value = wording.noted(trace, count)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is under way and the last frame is drawn; False after `timeout` seconds."""
        return self._conductor.wait(timeout)

    def close(self) -> None:
        """Stop what is under way and take the dashboard away."""
        self.stop()
        self.wait(5)
        self._view.figure.close()
        super().close()

    def __del__(self) -> None:
        # ipywidgets would close here, but what is collected was refused by `__init__`, or the process is
        # ending: then no thread moves any more, and waiting for one would be for ever.
        pass

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        self._view.figure.introduce()
        return super()._repr_mimebundle_(**kwargs)

    # --- widgets -----------------------------------------------------------

    def _make_controls(self, first: Configuration) -> None:
        self._controls = Controls(first)
        for name in ("mode", "duration_law", "policy", "remedy"):
            self._controls[name].observe(lambda _: self._adapt_controls(), "value")
        for name in sorted(self._controls.keys() - {"by"}):
            self._controls[name].observe(lambda _: self._predict(posting=True), "value")
        self._controls["by"].observe(self._change_axis, "value")

    def _make_buttons(self) -> None:
        def button(
            name: str, press: Callable[[], None], tooltip: str, style: str = "", width: str = "84px"
        ) -> widgets.Button:
            made = widgets.Button(description=name, tooltip=tooltip, button_style=style, layout={"width": width})
            made.on_click(lambda _: press())
            return made

        self._run = button("Run", self._press_run, "Do that many updates, from the present parameters", "success")
        self._stop = button("Stop", self.stop, "End the run now", "danger")
        self._pause = button("Pause", lambda: self._conductor.pause(), "Hold all workers, or let them go on")
        self._step = button("Step", lambda: self._conductor.step(), "While paused: let one update through")
        self._reset = button("Reset", self.reset, "Back to the initial parameters: same seed, same start")
        self._write = button(
            "Write down",
            self._press_write,
            f"The first {WRITTEN_DOWN} gradients of the last run, as text to edit",
            width="104px",
        )
        self._progress = widgets.IntProgress(
            description="Updates", max=1, style={"description_width": "initial"}, layout={"flex": "1 1 150px"}
        )
        self._count = widgets.Label(layout={"flex": "0 0 120px"})

    def _rows(self) -> list[widgets.Widget]:
        buttons = widgets.HBox([self._run, self._stop, self._pause, self._step, self._reset])
        # These two stay together, and take the room that is left, so that no number can start a new line.
        progress = widgets.HBox(
            [self._progress, self._count], layout={"flex": "1 1 330px", "max_width": "560px", "margin": "0 0 0 8px"}
        )
        self._writing = widgets.HBox([self._controls["schedule"], self._write], layout={"align_items": "center"})
        return [
            *self._controls.rows(), self._writing, self._predicted, widgets.HBox([buttons, progress], layout=ROW),
        ]  # fmt: skip

    # --- callbacks: any thread, nothing slow --------------------------------

    def _press_run(self) -> None:
        try:
            self.run()
        except (ValueError, TypeError) as error:
            self._status.value = wording.lines("<b>not started</b>", wording.alarm(str(error)))
        except RuntimeError:
            pass  # Pressed twice: the first press counts.

    def _press_write(self) -> None:
        try:
            self.write_down()
        except ValueError as error:
            self._status.value = wording.lines("<b>not written down</b>", wording.alarm(str(error)))

    def _adapt_controls(self) -> None:
        self._controls.adapt()
        self._writing.layout.display = None if self._controls["mode"].value == "written" else "none"

    def _predict(self, *, posting: bool = False) -> None:
        """Say what the laws say of the controls; `posting` has it drawn too, where no run is shown."""
        wanted: Configuration | None = None
        try:
            wanted = self.configuration
            self._predicted.value = wording.predicted(wanted.prediction)
        except (ValueError, TypeError) as error:
            self._predicted.value = wording.predicted(str(error))
        if posting:
            self._conductor.expect(wanted)

    def _change_axis(self, change: Any) -> None:
        self._conductor.post(lambda: setattr(self._view, "by", change["new"]))

    def _show(self, report: Report) -> None:
        """Put a report into the widgets. Called by the conductor, on its thread."""
        going = report.state in (*GOING, *REPLAYING)
        self._run.disabled = going or report.state in BUSY
        self._stop.disabled = not (going or report.state == "building")
        self._pause.disabled = not going
        self._pause.description = "Resume" if report.state in ("paused", "replay paused") else "Pause"
        self._step.disabled = report.state != "paused"
        self._reset.disabled = report.state == "evaluating"
        total, done = max(1, report.target - report.first), max(0, report.version - report.first)
        self._progress.max = total
        self._progress.value = done
        self._count.value = f"{done} of {total}" if report.target else ""
        self._status.value = wording.status(report)
        self._table.value = wording.table(self.runs)
