"""Every notebook runs from top to bottom, and nothing in it fails behind a cell's back.

nbval passes a cell whose worker thread raised, and ignores what a thread prints
or leaves running; this looks at all of them.
"""

import asyncio
import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))
CELL_LIMIT = 120  # Seconds; a lesson's cell takes a few, on a loaded machine several times that.

# Runs before the first cell. A kernel files what a thread prints under whichever cell runs just then, so late output
# cannot be told from its place; but no thread of a lesson has any business to print.
LISTEN = """\
import sys as _sys, threading as _threading
_said = []
class _Listener:
    def __init__(self, stream): self._stream = stream
    def __getattr__(self, name): return getattr(self._stream, name)
    def write(self, text):
        if _threading.current_thread() is not _threading.main_thread():
            _said.append((_threading.current_thread().name, text))
        return self._stream.write(text)
_sys.stdout, _sys.stderr = _Listener(_sys.stdout), _Listener(_sys.stderr)
"""
# Runs after the last cell. What still runs may finish on its own; what never ends is named.
LEFTOVERS = """\
import threading, time
def _left():
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("asyncsgd-"))
_until = time.monotonic() + {patience}
while _left() and time.monotonic() < _until:
    time.sleep(0.1)
print("left over:", *_left(), *_said)
"""
WRONG = re.compile(r"Traceback \(most recent call last\)|Exception in thread|Exception ignored|\b\w+Error: ")


@pytest.fixture
def quiet_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that see nothing of the user's own Jupyter and IPython settings."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))


def execute(notebook: NotebookNode, folder: Path, patience: float = 60) -> NotebookNode:
    """Run a notebook between two cells of our own, and return it with its outputs."""
    notebook = nbformat.from_dict(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(LISTEN))
    notebook.cells.append(nbformat.v4.new_code_cell(LEFTOVERS.format(patience=patience)))
    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT,
        startup_timeout=CELL_LIMIT,
        iopub_timeout=CELL_LIMIT,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    finally:
        if client.km is not None and client.km.has_kernel:  # pytest's own limit may have struck in the middle.
            asyncio.run(client.km.shutdown_kernel(now=True))
    return notebook


def faults(notebook: NotebookNode) -> list[str]:
    """What went wrong in an executed notebook although no cell failed."""
    found = []
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code):
        for output in cell.outputs:
            text = output.get("text", "") or "\n".join(map(str, output.get("data", {}).values()))
            if output.output_type == "error" or WRONG.search(text):
                found.append(f"code cell {number} shows an error: {text[-500:]}")
    last = "".join(output.get("text", "") for output in code[-1].outputs if output.get("name") == "stdout")
    if last != "left over:\n":
        found.append(f"after the last cell: {last!r}")
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_kernels")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_leaves_nothing_behind(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path)
    kept = nbformat.read(path, as_version=4)
    notebook = execute(kept, tmp_path)
    assert faults(notebook) == []
    # What a run made is not saved with the lesson.
    assert os.path.getsize(path) < 500_000
    assert "widgets" not in kept.metadata


def of(*cells: str) -> NotebookNode:
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_kernels")
def test_this_test_sees_a_thread_that_fails_late_or_never_ends(tmp_path: Path) -> None:
    assert faults(execute(of("print('fine')", "1 + 1"), tmp_path)) == []
    fails = (
        "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='asyncsgd-worker-0')\nt.start()\nt.join()"
    )
    assert any("ZeroDivisionError" in fault for fault in faults(execute(of(fails), tmp_path)))
    late = (
        "import threading, time\ngo = threading.Event()\n"
        "t = threading.Thread(target=lambda: (go.wait(), print('late')))\nt.start()"
    )
    assert any("late" in fault for fault in faults(execute(of(late, "go.set()\nt.join()", "2 + 2"), tmp_path)))
    endless = (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True, name='asyncsgd-w').start()"
    )
    assert any("asyncsgd-w" in fault for fault in faults(execute(of(endless), tmp_path, patience=1)))
