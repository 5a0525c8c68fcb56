"""Seconds to save and load a version log, beside the least that JSON lines can cost; and its bytes a row in memory.

    python benchmarks/trace_file.py [--rows 1000000] [--repeats 3] [--json]

Equal on both sides: the rows, their values, the disk, one JSON list a line. `bare` is `json.dumps` of each row into a
file, and `json.loads` of each line into lists: no header, no check, no columns, so nothing that a trace could be made
of. The two take turns for every format. The memory of a loaded trace, audited and summarised, is that of at most
100,000 rows: watching it slows loading tenfold, and bytes a row do not depend on the rows. No bar is set here; those of
audit and summary are in `growth.py`.
"""

import gzip
import json
import tempfile
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
from turns import Row, Table, at_least_one, command, medians, ratio, seconds, show, take_turns

from asyncsgd_edu.trace import COLUMNS, Header, Trace

WORKERS = 8
WATCHED = 100_000  # Rows.


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


def write_bare(path: Path, lists: list[list[float]]) -> None:
    """One JSON list a line, of columns given as lists, compressed as a trace is when the name ends in `.gz`."""
    with gzip.open(path, "wt", compresslevel=5) if path.suffix == ".gz" else path.open("w") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in zip(*lists, strict=True))


def read_bare(path: Path) -> list[list[float]]:
    """The lists of each line."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [json.loads(line) for line in file]


def measure(trace: Trace, suffix: str, folder: Path, repeats: int) -> list[Row]:
    """Seconds to save and to load in one format, and the ratios to bare JSON."""
    ours, bare = folder / f"run.{suffix}", folder / f"bare.{suffix}"
    # The shortest text of a float32, as in a trace.
    lists = [[float(str(v)) for v in c] if c.dtype == np.float32 else c.tolist() for c in trace.columns.values()]
    works = {
        "save": {"trace": partial(trace.save, ours), "bare": partial(write_bare, bare, lists)},
        "load": {"trace": partial(Trace.load, ours), "bare": partial(read_bare, bare)},
    }
    rows: list[Row] = []
    for what, both in works.items():
        found = take_turns({side: partial(seconds, work) for side, work in both.items()}, repeats, warm_up=0)
        row = {"what": f"{what} {suffix}", "rows": len(trace), **medians(found)}
        rows.append({**row, "trace / bare": ratio(found, "trace", "bare"), "MB": ours.stat().st_size / 1e6})
    loaded = Trace.load(ours)
    if any(not np.array_equal(a, b) for a, b in zip(loaded.columns.values(), trace.columns.values(), strict=True)):
        raise SystemExit(f"{suffix}: what was loaded is not what was saved")
    if loaded.audit():
        raise SystemExit(f"the log that this benchmark makes is not sound: {loaded.audit()}")
    return rows


def memory(trace: Trace, folder: Path) -> Row:
    """Bytes a row that a loaded trace holds after it has been audited and summarised."""
    some = trace[:WATCHED]
    path = folder / "part.jsonl"
    some.save(path)
    tracemalloc.start()
    loaded = Trace.load(path)
    loaded.audit(), loaded.summary()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    plain = sum(dtype.itemsize for dtype in COLUMNS.values())
    return {
        "rows": len(some),
        "bytes a row": held / len(some),
        "of its columns": plain,
        "held / columns": held / len(some) / plain,
    }


def main() -> None:
    """Measure and show."""
    parser = command(__doc__, repeats=3)
    parser.add_argument("--rows", type=at_least_one, default=1_000_000, metavar="N", help="gradients (1000000)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, trace = Path(scratch), made_up(given.rows)
        files = [row for suffix in ("jsonl", "jsonl.gz") for row in measure(trace, suffix, folder, given.repeats)]
        tables = [Table("seconds to save and load", files), Table("memory of a loaded trace", [memory(trace, folder)])]
    show(tables, given.json)


if __name__ == "__main__":
    main()
