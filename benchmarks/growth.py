"""Whether a long run costs more an update than a short one, and what a log of a million rows costs to look at.

    python benchmarks/growth.py [--updates 1000 10000 100000 1000000] [--rows 1000000] [--repeats 3] [--json]

A run of each length is made in a fresh interpreter, and they take turns: `AsyncTrainer` (4 threads, `Quadratic` of 20
weights, nothing injected, 50 steps a call) and `simulate` (8 workers, exponential durations). Equal: everything but
the number of updates. Timed is `fit`, or `simulate`, after a warm-up; short runs are made again until they have taken
a tenth of a second, each from the start, and their mean counts: they find the memory there that they had before, a
long run has to ask for it. `updates 1000` in the name of a ratio stands for the first length. `MB more` is by how much
the process had grown when the trace of its first timed run was there (resident memory), so it holds the trace and the
log that it is a view of; of short runs it is rather what a run needs once.

The second table is about one sound log of `--rows` gradients: the schedule of eight simulated workers, with losses,
places and gaps that are made up (no arithmetic would change what drawing them costs). Every look is at a trace of its
own, so that nothing has been worked out before. The looks take turns; `of a tenth` is the same on a tenth of the rows.

Bars: an update of the longest run costs no more than 1.2 times one of the first; no look takes more than 2 s.
"""

import gc
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from turns import Row, Table, ask_fresh, at_least_one, command, medians, ratio, seconds, show, take_turns

from asyncsgd_edu import Asynchronous, Exponential, Trace, figures, simulate

WORKERS, THREADS = 8, 4
MEAN = 0.01  # Seconds of a gradient in virtual time.
LONG_ENOUGH = 0.1  # Seconds.
RATES = np.geomspace(0.01, 2.0, 12)
BAR = 2.0  # Seconds for a look.
ENGINES = ("AsyncTrainer", "simulate")
CHILD = "import sys, growth; growth.one_length(sys.argv[1], int(sys.argv[2]))"


# --- how a run grows, each in an interpreter of its own


def resident() -> int:
    """Bytes of this process that are in memory. Linux only: elsewhere 0, and nothing is said of memory."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0


def runner(engine: str) -> Callable[[int], tuple[float, Trace]]:
    """A function of updates: the seconds of a run of so many, from the start, and its trace."""
    kept: list[Trace] = []
    if engine == "simulate":

        def run(updates: int) -> tuple[float, Trace]:
            spent = seconds(lambda: kept.append(simulate(WORKERS, Asynchronous(), Exponential(MEAN), updates)))
            return spent, kept.pop()

        return run
    from asyncsgd_edu import AsyncTrainer, Quadratic

    trainer = AsyncTrainer(Quadratic(dimension=20), workers=THREADS, steps_per_call=50)

    def fit(updates: int) -> tuple[float, Trace]:
        trainer.reset()
        spent = seconds(lambda: kept.append(trainer.fit(updates)))
        return spent, kept.pop()

    return fit


def one_length(engine: str, updates: int) -> None:
    """Print what one interpreter measures: seconds an update, and the bytes that the first timed run added."""
    run = runner(engine)
    run(500)
    gc.collect()
    before = resident()
    first, trace = run(updates)
    grown = resident() - before
    if len(trace) != updates or trace.audit():
        raise SystemExit(f"{engine}: {len(trace)} rows for {updates} updates, broken laws {trace.audit()}")
    more = min(200, math.ceil(LONG_ENOUGH / first)) - 1
    spent = (first + sum(run(updates)[0] for _ in range(more))) / (1 + more)
    print(json.dumps({"an update": spent / updates, "grown": grown}))


def growth(engine: str, lengths: list[int], repeats: int) -> list[Row]:
    """For each length: microseconds an update, its ratio to the first length, and memory."""
    grown: dict[str, list[float]] = {str(updates): [] for updates in lengths}

    def measure(updates: int) -> float:
        said = ask_fresh(CHILD, engine, updates)
        grown[str(updates)].append(said["grown"])
        return float(said["an update"])

    found = take_turns({str(updates): partial(measure, updates) for updates in lengths}, repeats, warm_up=0)
    costs, memory, first = medians(found), medians(grown), str(lengths[0])
    return [
        {
            "engine": engine,
            "updates": updates,
            "microseconds an update": 1e6 * costs[str(updates)],
            f"an update / updates {first}": ratio(found, str(updates), first),
            "MB more": memory[str(updates)] / 1e6,
            "bytes a row": memory[str(updates)] / updates,
        }
        for updates in lengths
    ]


# --- a long log to look at


def long_log(rows: int) -> Callable[[], Trace]:
    """A function that gives a fresh trace of that log: sound, with losses and all that a replay can measure."""
    made, chance = simulate(WORKERS, Asynchronous(), Exponential(MEAN), rows), np.random.default_rng(0)
    # As its replay on a bowl in the plane would say.
    about = {"name": "quadratic", "batch_size": 1, "curvatures": 1.0, "noise": 0.1, "dimension": 2}
    header = replace(made.header, problem=about, batch_size=1, optimizer={"name": "SGD", "learning_rate": 0.05})
    columns = {**made.columns, "loss": (1 / (1 + 1e-4 * np.arange(rows)) * chance.exponential(size=rows))}
    # A path in the plane that comes in from (1, 1), where the problem starts, and wanders.
    closer = np.exp(-np.arange(1, rows + 1) / (0.1 * rows))[:, None]
    written = (closer + 0.02 * chance.standard_normal((rows, 2))).astype(np.float32)
    start = np.ones((1, 2), np.float32)
    gap = (made.staleness + 1) * chance.exponential(size=rows)
    measured: Mapping[str, np.ndarray] = {
        "read": np.concatenate([start, written])[made.read_version],
        "written": written,
        "gap": gap.astype(np.float32),
        "gradient_error": (gap * chance.exponential(size=rows)).astype(np.float32),
    }
    return lambda: Trace(header, columns, measured=measured)


LOOKS: dict[str, Callable[[Trace], object]] = {
    "trace.summary": Trace.summary,
    "trace.audit": Trace.audit,
    "figures.timeline": figures.timeline,
    "figures.staleness_histogram": figures.staleness_histogram,
    "figures.convergence": figures.convergence,
    "figures.worker_table": figures.worker_table,
    "figures.duration_histogram": figures.duration_histogram,
    "figures.error_against_time": figures.error_against_time,
    "figures.stability_map": lambda trace: figures.stability_map([trace], RATES),
    "figures.momentum": lambda trace: figures.momentum([trace]),
    "figures.trajectory": figures.trajectory,
    "figures.staleness_against_gap": figures.staleness_against_gap,
}


def looks(rows: int, repeats: int) -> list[Row]:
    """Seconds of each look at a log of so many rows, and how that goes with the rows."""
    whole, tenth = long_log(rows), long_log(max(1, rows // 10))
    if broken := whole().audit():
        raise SystemExit(f"the log that this benchmark makes is not sound: {broken}")
    sides: dict[str, Callable[[], float]] = {}
    for name, look in LOOKS.items():
        for size, log in (("", whole), (" of a tenth", tenth)):
            sides[name + size] = partial(_look, look, log)
    found = take_turns(sides, repeats)
    middle = medians(found)
    return [
        {
            "look": name,
            "rows": rows,
            "seconds": middle[name],
            "seconds / bar": middle[name] / BAR,
            "of a tenth": middle[f"{name} of a tenth"],
            "whole / tenth": ratio(found, name, f"{name} of a tenth"),
        }
        for name in LOOKS
    ]


def _look(look: Callable[[Trace], object], log: Callable[[], Trace]) -> float:
    trace = log()
    return seconds(lambda: look(trace))


def main() -> None:
    """Measure and show."""
    parser = command(__doc__, repeats=3)
    lengths = [1000, 10_000, 100_000, 1_000_000]
    parser.add_argument("--updates", type=at_least_one, nargs="+", default=lengths, metavar="N", help="lengths of runs")
    parser.add_argument("--rows", type=at_least_one, default=1_000_000, metavar="N", help="of the log (1000000)")
    given = parser.parse_args()
    runs = [row for engine in ENGINES for row in growth(engine, given.updates, given.repeats)]
    tables = [
        Table("cost of an update", runs, "an update of the longest run at most 1.2 times one of the first"),
        Table("seconds to look at a log", looks(given.rows, given.repeats), "each look at most 2 s"),
    ]
    show(tables, given.json)


if __name__ == "__main__":
    main()
