"""How long a person waits: milliseconds from a press to what it changes, in real JupyterLab in real Chromium.

    python benchmarks/latency.py [--repeats 7] [--updates 100000] [--json]

Needs the test extras and a Chromium (CHROMIUM names one). The dashboard is the first notebook's: 8 threads, Digits cnn,
exponential durations of 10 ms injected. Everything is measured in the page by its own clock: from the time stamp of the
click or the key to the animation frame after the first change of the page that shows the answer, seen by a
MutationObserver.

`Run again` and `Run, changed` are until the line of the present run is drawn, with its first point: with the trainer
that is there, after a Reset, and with one that has to be built anew as the number of threads has changed. Both are
warm: a first run has loaded TensorFlow, and is reported apart. `Stop` is until the status line says so. `slider,
readout` is until the number beside the slider has changed, which the page does alone; `slider, predicted` until what
the laws say of it has, which takes the kernel's answer; both also while a run goes on. Each turn measures all of them.

Bars: Run 500 ms, Stop 2,000 ms, a slider 100 ms, by the median; the worst is shown beside it. `Run, changed` misses
its bar on two cores (575 to 690 ms, where `Run again` takes 210 to 320): most of the difference is TensorFlow's, which
traces and optimizes the graphs of the new trainer and runs each once, so that no worker's first step is slow.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from turns import Found, Row, Table, at_least_one, command, show

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from browser import DASHBOARD, STOPPED, Notebook
from servers import chromium, find_chromium, jupyterlab

THREADS = 8
LAB = """\
from asyncsgd_edu import Lab
lab = Lab(threads={threads}, problem="digits-cnn", duration_law="exponential", duration=0.01, updates={updates})
lab"""
# Conditions, JavaScript of `lab`, the dashboard. That a line is drawn is asked of its path, not of plotly's numbers.
DRAWN = """[...lab.querySelectorAll('.scatterlayer .trace')].some(g =>
    g.__data__?.[0]?.trace?.name?.startsWith('this run') && g.querySelector('.js-line')?.getAttribute('d'))"""
READOUT = "lab.querySelector('.slider-readout, .widget-readout').textContent"
PREDICTED = """[...lab.querySelectorAll('.widget-html-content')]
    .find(e => e.textContent.startsWith('Predicted')).textContent"""
BARS = {
    "Run again": 500,
    "Run, changed": 500,
    "Stop": 2000,
    "slider, readout": 100,
    "slider, predicted": 100,
    "slider, readout, in a run": 100,
    "slider, predicted, in a run": 100,
}
LONGEST = 120  # Seconds that anything here may take before it is given up.


class Person:
    """Somebody who presses, in one notebook with one dashboard; each method returns milliseconds."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook, self.page = notebook, notebook.page
        self.right = False  # Where the slider goes next, right or left.

    def run(self) -> float:
        """Press Run and wait for the first point of the line."""
        self.page.wait_for_function(f"() => {{ const lab = {DASHBOARD}; return !({DRAWN}); }}", timeout=1000 * LONGEST)
        return self.notebook.clock(lambda: self.notebook.press("Run", LONGEST), "click", DRAWN)

    def stop(self) -> float:
        """Press Stop and wait for the word."""
        return self.notebook.clock(lambda: self.notebook.press("Stop", LONGEST), "click", STOPPED)

    def slide(self, label: str) -> float:
        """Move the slider of threads by one, with a key, and wait for another text of the label."""
        # Fetched before: focus is no part of the move.
        self.notebook.field("Threads").locator(".noUi-handle").last.focus()
        key = "ArrowRight" if self.right else "ArrowLeft"
        self.right = not self.right
        return self.notebook.clock(lambda: self.page.keyboard.press(key), "keydown", f"{label} !== before", label)

    def reset(self) -> None:
        """Press Reset and wait until it is done."""
        self.notebook.press("Reset", LONGEST)
        self.notebook.await_text("ready · version 0", LONGEST)


def one_turn(person: Person, found: Found) -> None:
    """Measure everything once, and leave the dashboard as it was, with one thread more or fewer."""
    found["Run again"].append(person.run())
    for label, script in (("readout", READOUT), ("predicted", PREDICTED)):
        found[f"slider, {label}, in a run"].append(person.slide(script))
    found["Stop"].append(person.stop())
    person.reset()
    found["slider, readout"].append(person.slide(READOUT))
    found["Run, changed"].append(person.run())
    person.stop()
    person.reset()
    found["slider, predicted"].append(person.slide(PREDICTED))
    # The trainer that is there has another number of threads again: make one, so that the next Run need not.
    person.run(), person.stop(), person.reset()


def measure(notebook: Notebook, repeats: int) -> tuple[float, Found]:
    """Milliseconds of the first Run, and of everything in each turn."""
    notebook.run_all(LONGEST)
    notebook.await_text("ready · version 0", LONGEST)
    person, found = Person(notebook), {name: [] for name in BARS}
    cold = person.run()
    person.stop(), person.reset()
    for _ in range(repeats):
        one_turn(person, found)
    if notebook.errors:
        raise SystemExit(f"the page reported errors: {notebook.errors}")
    return cold, found


def tables(cold: float, found: Found) -> list[Table]:
    """The warm figures beside their bars, and the cold one."""
    rows: list[Row] = []
    for name, bar in BARS.items():
        middle, worst = statistics.median(found[name]), max(found[name])
        ratios = {"median / bar": middle / bar, "worst / bar": worst / bar}
        rows.append({"what": name, "median": middle, "worst": worst, "bar": bar, **ratios, "times": len(found[name])})
    return [
        Table("milliseconds, TensorFlow loaded", rows, "Run 500 ms, Stop 2,000 ms, a slider 100 ms, by the median"),
        Table("milliseconds, the first Run", [{"what": "Run, which loads TensorFlow", "once": cold}]),
    ]


def write_notebook(folder: Path, updates: int) -> None:
    """A notebook of one cell, the dashboard."""
    cell = {"cell_type": "code", "id": "lab", "execution_count": None, "metadata": {}, "outputs": []}
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = {
        "cells": [{**cell, "source": LAB.format(threads=THREADS, updates=updates)}],
        "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    folder.mkdir()
    (folder / "lab.ipynb").write_text(json.dumps(book))


def main() -> None:
    """Measure and show."""
    parser = command(__doc__, repeats=7)
    parser.add_argument("--updates", type=at_least_one, default=100_000, metavar="N", help="of a run, which is stopped")
    given = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        sys.exit("no Chromium found: install one, or set CHROMIUM to its path")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        write_notebook(scratch / "notebooks", given.updates)
        with (
            jupyterlab(scratch / "notebooks", scratch / "server") as address,
            chromium(executable, scratch) as browser,
        ):
            cold, found = measure(Notebook(browser, address, "lab.ipynb"), given.repeats)
    show(tables(cold, found), given.json)


if __name__ == "__main__":
    main()
