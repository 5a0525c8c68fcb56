"""Make the README's picture: the first notebook in a real JupyterLab, eight threads at work.

    python docs/screenshot.py [PICTURE]

Needs the test extras and a Chromium. What is seen is a run made just then.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import Notebook  # noqa: E402 - the path comes first
from servers import chromium, find_chromium, jupyterlab  # noqa: E402


def main(picture: Path) -> None:
    """Run eight threads, then four towers, then save what the page shows."""
    executable = find_chromium()
    if executable is None:
        sys.exit("no Chromium found: install one, or set CHROMIUM to its path")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with jupyterlab(ROOT / "notebooks", scratch) as address, chromium(executable, scratch) as browser:
            lab = Notebook(browser, address, "00_start_here.ipynb")
            lab.run_all(300)
            lab.type("Updates", 1000)
            run(lab, until=r"finished · version 1000")
            lab.press("towers")
            lab.slide("GPUs", 4)
            run(lab, until=r"finished · version 1000")
            lab.press("threads")
            lab.slide("GPUs", 1)
            lab.slide("Threads", 2)
            run(lab, until=r"running · version [6-9]\d\d ")
            lab.button("Run").evaluate("button => button.closest('.jp-OutputArea').scrollIntoView({block: 'start'})")
            lab.shot(picture)


def run(lab: Notebook, until: str) -> None:
    """Press Run and wait until the status says `until`."""
    lab.press("Reset")
    lab.await_text("ready · version 0", 120)  # What it said of the run before has gone.
    lab.press("Run")
    lab.await_text(until, 120)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "lab.png")
