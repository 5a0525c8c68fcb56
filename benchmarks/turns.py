"""What every benchmark here needs: sides that take turns, medians, and tables to print or to give as JSON.

Whatever is compared is measured in one run, the sides one after the other in every turn. A ratio is the median over
turns of the ratio within a turn, because a machine that slows down slows both sides of a turn. Nothing here knows what
is measured, and nothing is asserted about speed: how fast a machine is, is not the package's business.
"""

import argparse
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, str | int | float]
Found = dict[str, list[float]]

PACKAGES = ("asyncsgd-edu", "numpy", "tensorflow", "keras", "plotly", "jupyterlab", "simpy")
HERE = Path(__file__).resolve().parent


# --- the command line


def at_least_one(text: str) -> int:
    """A whole number from 1 on, for a command line."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return number


def command(words: str | None, repeats: int) -> argparse.ArgumentParser:
    """A parser that has `--repeats` and `--json`, and says `words`, a module's docstring, for `--help`."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=at_least_one, default=repeats, metavar="N", help=f"turns ({repeats})")
    parser.add_argument("--json", action="store_true", help="print one JSON object, with the names of the table")
    return parser


# --- measuring


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rate(work: Callable[[], object], count: int) -> Callable[[], float]:
    """A side that does `work` and measures how many of `count` it does in a second."""
    return lambda: count / seconds(work)


def take_turns(sides: Mapping[str, Callable[[], float]], repeats: int, warm_up: int = 1) -> Found:
    """What each side measures in each of `repeats` turns, after `warm_up` turns that do not count.

    Each turn begins with another side, so that none always has the same one before it.
    """
    names, found = list(sides), {name: [] for name in sides}
    for turn in range(-warm_up, repeats):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            measured = sides[name]()
            if turn >= 0:
                found[name].append(measured)
    return found


def medians(found: Found) -> dict[str, float]:
    """The median of each side."""
    return {name: statistics.median(values) for name, values in found.items()}


def ratio(found: Found, over: str, under: str) -> float:
    """The median over turns of one side divided by another."""
    return statistics.median(a / b for a, b in zip(found[over], found[under], strict=True))


def ask_fresh(program: str, *arguments: object) -> Any:
    """Run `program` in a fresh interpreter that sees this folder; what it prints last is read as JSON.

    Raises RuntimeError with what it said if it fails.
    """
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, cwd=HERE, check=False
    )
    if done.returncode:
        raise RuntimeError(f"a fresh interpreter ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


# --- showing


@dataclass(frozen=True)
class Table:
    """Rows with the same columns, in words what they are (`name`), and the `bar`, if one was set."""

    name: str
    rows: Sequence[Row]
    bar: str = ""


def show(tables: Sequence[Table], as_json: bool) -> None:
    """Print the tables, or one JSON object of them: `tables`, rows by name; `bars`; and the `machine`."""
    if as_json:
        made = {
            "tables": {table.name: list(table.rows) for table in tables},
            "bars": {table.name: table.bar for table in tables if table.bar},
            "machine": machine(),
        }
        print(json.dumps(made, allow_nan=False))
        return
    for table in tables:
        print(f"{table.name}\n{text(table.rows)}")
        print(f"Bar: {table.bar}.\n" if table.bar else "")


def text(rows: Sequence[Row]) -> str:
    """Rows under the names of their columns, words to the left and numbers to the right."""
    columns = list(rows[0])
    cells = [columns, *([_cell(row[name]) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = [isinstance(rows[0][name], str) for name in columns]
    lines = (
        "  ".join(c.ljust(w) if to_left else c.rjust(w) for c, w, to_left in zip(line, widths, left, strict=True))
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value and math.isfinite(value) and abs(value) < 0.1 else f"{value:.2f}"


def machine() -> dict[str, str | int]:
    """What a figure depends on: processors, Python, and the versions of the packages that are installed."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"processors": os.cpu_count() or 0, "python": platform.python_version(), **versions}
