"""Make the README's picture: the first notebook in a real JupyterLab, eight threads at work.

    python docs/screenshot.py [PICTURE]

Needs the test extras and a Chromium. What is seen is a run made just then.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import Notebook, chromium, find_chromium, jupyterlab  # noqa: E402 - the path comes first


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
            lab.press("Run")
            lab.await_text(r"finished · version 1000", 120)
            lab.press("towers")
            lab.slide("GPUs", 4)
            lab.press("Run", 60)
            lab.await_text(r"finished · version 1000", 120)
            lab.press("threads")
            lab.slide("Threads", 2)
            lab.press("Run", 60)
            lab.await_text(r"running · version [4-9]\d\d ", 120)
            lab.button("Run").scroll_into_view_if_needed()
            lab.shot(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "lab.png")
