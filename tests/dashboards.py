"""A dashboard to be pressed from code, on trainers that the test drives, and what can be seen of it.

The fixtures are taken by a test file that needs them: `lab = dashboards.lab`.
"""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from test_series import make_trace, prefix

from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view.conductor import Conductor
from asyncsgd_edu.view.configuration import Configuration
from asyncsgd_edu.view.lab import Lab

LONG = 60.0  # Seconds that nothing here takes.


class Puppet:
    """A trainer that does an update when the test says so."""

    def __init__(self, workers: int = 4) -> None:
        self.whole = make_trace(400, workers=workers)
        self.workers, self.rows, self.target, self.state = workers, 0, 0, "ready"
        self.header, self.error, self.started = self.whole.header, None, threading.Event()

    @property
    def trace(self) -> Trace:
        return prefix(self.whole, self.rows)

    def start(self, updates: int) -> None:
        self.target, self.state = self.rows + updates, "running"
        self.started.set()

    def go(self, updates: int) -> None:
        self.rows += updates
        if self.rows >= self.target:
            self.state = "finished"

    def wait(self, timeout: float | None = None) -> Trace:
        if self.error is not None:
            raise self.error
        return self.trace

    def fail(self, error: Exception) -> None:
        self.error, self.state = error, "failed"

    def stop(self) -> None:
        self.state = "stopped"

    def pause(self) -> None:
        self.state = "paused"

    def resume(self) -> None:
        self.state = "running"

    def step(self) -> None:
        self.rows += 1

    def reset(self) -> None:
        self.rows, self.state = 0, "ready"

    def evaluate(self) -> dict[str, float]:
        return {"loss": 0.25, "accuracy": 0.875}


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Two threads."""
    with closing(Lab(problem="quadratic", threads=2, updates=60)) as made:
        yield made


@pytest.fixture
def virtual(eight_devices: list[str]) -> Iterator[Lab]:
    """Two hundred simulated workers."""
    controls = {"mode": "simulated", "threads": 200, "problem": "quadratic", "duration_law": "exponential"}
    with closing(Lab(**controls, learning_rate=0.01, updates=300)) as made:  # type: ignore[arg-type]
        yield made


@pytest.fixture
def puppets(monkeypatch: pytest.MonkeyPatch) -> list[Puppet]:
    """The trainers that are built from now on, in order: puppets, each in a run until told."""
    made: list[Puppet] = []

    def trainer(configuration: Configuration) -> Puppet:
        made.append(Puppet(configuration.workers))
        return made[-1]

    monkeypatch.setattr(Configuration, "trainer", trainer)
    return made


def says(lab: Lab, words: str) -> bool:
    """Wait until the status line says so."""
    heard = threading.Event()

    def listen(_: object) -> None:
        if words in lab.status:
            heard.set()

    lab._status.observe(listen, "value")
    listen(None)
    return heard.wait(LONG)


def done(lab: Lab) -> bool:
    """Wait until the conductor has done all that was posted before."""
    reached = threading.Event()
    lab._conductor.post(reached.set)
    return reached.wait(LONG)


def begin(lab: Lab, puppets: list[Puppet]) -> Puppet:
    """Press Run and return the puppet once it runs and the status says so."""
    lab._run.click()
    assert says(lab, "<b>running</b>")
    return puppets[-1]


def curve(lab: Lab) -> list[float]:
    """Horizontal positions of the present run's curve."""
    (line,) = [t for t in lab._view.figure.data if t.name and t.name.startswith("this run<br>")]
    return list(line.x)


def behind(lab: Lab) -> list[str]:
    """Names of the finished runs that are drawn."""
    return sorted(t.name for t in lab._view.figure.data if t.name and t.name.startswith("run ") and len(t.x))


class Gate:
    """A place in the code that holds a thread of the dashboard until the test opens it, or ends, however it ends."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def hold(self) -> None:
        self.reached.set()
        assert self.opened.wait(LONG)


class Held(Gate):
    """Holds a replay where it asks for the third time: some of its rows are done, and not all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.asked = 0
        between = Conductor._between

        def held(conductor: Conductor) -> bool:
            self.asked += 1
            if self.asked == 3:
                self.hold()
            return between(conductor)

        monkeypatch.setattr(Conductor, "_between", held)

    def press(self, lab: Lab, *buttons: str) -> None:
        """Run, and press these buttons in the middle of the replay."""
        lab._run.click()
        assert self.reached.wait(LONG)
        assert "<b>replaying</b>" in lab.status
        for button in buttons:
            getattr(lab, button).click()
        self.opened.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Named after the dashboard in a test's arguments, it opens before that is closed."""
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """To be named after the dashboard, like a gate."""
    made = Held(monkeypatch)
    yield made
    made.opened.set()


def lab_threads() -> list[str]:
    """Names of the threads of this package that live, once a dashboard that is done has left its own."""
    for thread in threading.enumerate():
        if thread.name == "asyncsgd-lab":
            thread.join(LONG)  # It has said that it is done, and may still be on its way out.
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("asyncsgd")]
