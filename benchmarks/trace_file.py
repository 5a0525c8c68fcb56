"""Seconds to save, load, audit and summarise a version log, and its bytes a row in memory.

    python benchmarks/trace_file.py --rows 1000000 --json

Prints figures and asserts none: how fast a machine is, is not the package's business.
"""

import argparse
import json
import platform
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from asyncsgd_edu.trace import COLUMNS, Header, Trace

WORKERS = 8


def made_up(rows: int) -> Trace:
    """A sound log of eight workers that take turns, with times and losses as long as real ones."""
    version = np.arange(rows)
    chance = np.random.default_rng(0)
    read = np.maximum(0, version - WORKERS + 1)
    start = 0.001 * read + 1e-4 * chance.random(rows)
    end = 0.001 * (version + 1) + 1e-4 * chance.random(rows)
    loss = chance.exponential(size=rows)
    values = [version % WORKERS, version // WORKERS, read, version, 0 * version, start, (start + end) / 2, end, loss]
    return Trace(Header("AsyncTrainer", WORKERS), dict(zip(COLUMNS, values, strict=True)))


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long `work` takes, and what it returns."""
    start = time.perf_counter()
    made = work()
    return time.perf_counter() - start, made


def held_bytes(path: Path) -> int:
    """Bytes that a loaded trace holds after it has been audited and summarised."""
    tracemalloc.start()
    trace = Trace.load(path)
    trace.audit(), trace.summary()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


def measure(rows: int, folder: Path) -> dict[str, float]:
    """All figures for a log of that many rows, plain and compressed."""
    trace, figures = made_up(rows), {"rows": float(rows)}
    for suffix in ("jsonl", "jsonl.gz"):
        path = folder / f"run.{suffix}"
        figures[f"save {suffix} (s)"], _ = seconds(lambda path=path: trace.save(path))
        figures[f"size {suffix} (MB)"] = path.stat().st_size / 1e6
        figures[f"load {suffix} (s)"], loaded = seconds(lambda path=path: Trace.load(path))
    figures["audit (s)"], broken = seconds(loaded.audit)
    figures["summary, with its own audit (s)"], _ = seconds(loaded.summary)
    if broken:
        raise SystemExit(f"the log that this benchmark makes is not sound: {broken}")
    some = min(rows, 100_000)  # Watching memory slows loading tenfold; bytes a row do not depend on the rows.
    trace[:some].save(folder / "part.jsonl")
    figures["memory (bytes a row)"] = held_bytes(folder / "part.jsonl") / some
    return figures


def main() -> None:
    """Measure and print, as text or as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, metavar="N", help="gradients in the log (1000000)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if given.rows < 1:
        parser.error(f"--rows must be at least 1, got {given.rows}")
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(given.rows, Path(folder))
    if given.json:
        print(json.dumps({**figures, "python": platform.python_version(), "numpy": np.__version__}))
        return
    for name, value in figures.items():
        print(f"{name:>34}  {value:,.2f}")


if __name__ == "__main__":
    main()
