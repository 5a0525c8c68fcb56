"""The first notebook as a class sees it: a real JupyterLab in a real Chromium.

Opens, runs, presses, reads; what the page says is compared with the trace in the kernel.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Notebook, chromium, find_chromium, jupyterlab

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def executable() -> str:
    """The system's Chromium. Without one these tests are skipped, except in CI, where that is a failure."""
    found = find_chromium()
    if found is None and os.environ.get("CI") == "true":
        pytest.fail("no Chromium on this machine, and CI may not go without: apt-get install chromium")
    if found is None:
        pytest.skip("NOT TESTED: the dashboard in a real browser, for want of a Chromium (apt install chromium)")
    return found


@pytest.fixture
def first_notebook(executable: str, tmp_path: Path) -> Iterator[Notebook]:
    """`00_start_here`, open in a fresh server, with a picture if the test fails."""
    with jupyterlab(NOTEBOOKS, tmp_path / "server") as address, chromium(executable, tmp_path) as browser:
        notebook = Notebook(browser, address, "00_start_here.ipynb")
        try:
            yield notebook
        finally:
            notebook.shot(tmp_path / "last.png")
            print(f"the last picture is {tmp_path / 'last.png'}")


def grows_while_running(notebook: Notebook) -> None:
    """Press Run; see the curve reach further, and the status count on, twice while the run is still going."""
    before = notebook.drawn("this run")
    notebook.press("Run", 60)
    if before:
        notebook.await_line("this run", "<", before)  # The curve of the run before has gone.
    end, version = notebook.await_line("this run", ">", 0), 0
    for _ in range(2):
        end = notebook.await_line("this run", ">", end)
        # Its own message follows the curve's, so it may be a moment late.
        version = notebook.await_number(r"running · version (\d+) of \d+", version, 60)


def says_what_the_trace_says(notebook: Notebook, how: str) -> None:
    """The status line of a run that has ended has the numbers of the trace in the kernel."""
    status = notebook.await_text(rf"{how} · version \d+ of \d+ · .*", 120)
    version, staleness, how_it_ended, audit = notebook.ask(
        "t = lab.trace; print(t.version, f'{t.mean_staleness:.2f}', t.header.ended.how, len(t.audit()))"
    ).split()
    assert f"{how} · version {version} of " in status
    assert f"mean staleness {staleness} " in status or (staleness == "0.00" and "every staleness is 0" in status)
    assert (how_it_ended, audit) == (how, "0")


def test_a_class_can_use_the_first_notebook(first_notebook: Notebook) -> None:
    lab = first_notebook
    lab.run_all(300)
    assert "Traceback" not in lab.text()
    lab.await_text("ready · version 0", 10)

    # Eight threads: the curve grows during the run.
    lab.slide("Threads", 8)
    lab.type("Updates", 3000)
    grows_while_running(lab)
    says_what_the_trace_says(lab, "finished")
    assert float(lab.ask("print(lab.trace.mean_staleness)")) > 1

    # Four towers: nothing is stale. Stopped in the middle.
    lab.press("towers")
    lab.slide("GPUs (towers)", 4)
    lab.type("Updates", 100_000)
    grows_while_running(lab)
    lab.press("Stop")
    says_what_the_trace_says(lab, "stopped")
    assert lab.ask("print(lab.trace.header.workers, lab.trace.staleness.max())").split() == ["4", "0"]

    # Again in the same kernel: goes on where it stopped.
    version = int(lab.ask("print(lab.trace.version)"))
    lab.type("Updates", 50)
    lab.press("Run", 60)
    lab.await_text(rf"finished · version {version + 50} of {version + 50}", 120)
    says_what_the_trace_says(lab, "finished")
    assert lab.errors == []


def test_nothing_is_cut_off_and_nothing_jumps(first_notebook: Notebook) -> None:
    lab = first_notebook
    lab.run_all(300)
    lab.await_text("ready · version 0", 10)
    lab.choose("Injected duration", "exponential")
    lab.type("Updates", 200)
    lab.await_text(r"mean staleness N - 1 = \d+ · [\d.]+ ms per update \+ arithmetic", 30)
    for width in (960, 1280, 1920):
        lab.size(width, 1100)
        assert lab.cut_off() == []
        top = lab.top_of_plot()
        lab.press("Run", 60)
        lab.await_text(r"running · version [1-9]", 120)
        assert lab.top_of_plot() == top
        lab.await_text(r"finished · version 200 of 200", 120)
        assert lab.top_of_plot() == top
        assert lab.cut_off() == []
        lab.press("Reset")
        lab.await_text("ready · version 0", 30)

    # The widest that it can say.
    lab.press("simulated")
    lab.slide("Workers", 1000)
    lab.choose("Duration", "shifted exponential")
    lab.choose("Policy", "stale-synchronous")
    lab.type("bound", 10)
    lab.press("Run", 60)
    lab.await_text(r"finished · version 200 of 200 · mean staleness [\d.]+, each at most 20979", 120)
    lab.await_text(r"≤ 20979", 30)
    for width in (960, 1280, 1920):
        lab.size(width, 1100)
        assert lab.cut_off() == []
    assert lab.errors == []


def test_a_long_replay_is_paused_and_stopped(first_notebook: Notebook) -> None:
    lab = first_notebook
    lab.run_all(300)
    lab.press("simulated")
    lab.choose("Duration", "exponential")
    lab.type("Updates", 500_000)
    lab.press("Run", 60)
    lab.await_text(r"replaying ·", 120)
    lab.press("Pause")
    lab.await_text(r"replay paused ·", 60)
    lab.press("Resume")
    lab.await_text(r"replaying ·", 60)
    lab.press("Stop")
    says_what_the_trace_says(lab, "stopped")
    assert lab.ask("print(0 < lab.trace.version < 500_000, lab.wait(0))").split() == ["True", "True"]
    assert lab.errors == []
