"""How soon there is something to see: seconds of `import asyncsgd_edu`, and until a `Lab()` is there to be shown.

    python benchmarks/starting.py [--repeats 7] [--json]

Every figure is that of a fresh interpreter, and they take turns. Equal: the interpreter, its environment, what has been
read from disk before (the first turn does not count). `seconds` are those of the statements, by the interpreter's own
clock: of `import asyncsgd_edu`, and of importing `Lab`, making one and asking for its display bundle, which is what a
notebook sends to the page. `process` are those of the whole process, from start to end, and `nothing` those of a
process that imports nothing. Ends with an error if TensorFlow was imported by then: it is to be loaded when Run is
pressed.

Bars: `import asyncsgd_edu` at most 0.3 s; `Lab()` and its bundle at most 1 s.
"""

from typing import Any

from turns import Row, Table, ask_fresh, command, medians, ratio, seconds, show, take_turns

IMPORT = """\
import time
start = time.perf_counter()
import asyncsgd_edu
spent = time.perf_counter() - start
import json, sys
print(json.dumps({"seconds": spent, "tensorflow": "tensorflow" in sys.modules, "shown": True}))
"""
LAB = """\
import time
start = time.perf_counter()
from asyncsgd_edu import Lab
bundle = Lab()._repr_mimebundle_()
spent = time.perf_counter() - start
import json, sys
shown = "application/vnd.jupyter.widget-view+json" in bundle
print(json.dumps({"seconds": spent, "tensorflow": "tensorflow" in sys.modules, "shown": shown}))
"""
NOTHING = "print('null')"
PROGRAMS = {"import asyncsgd_edu": (IMPORT, 0.3), "Lab() to be shown": (LAB, 1.0)}


def statements(program: str) -> float:
    """Seconds of a program's statements. Ends this program if TensorFlow is loaded, or if nothing can be shown."""
    said: dict[str, Any] = ask_fresh(program)
    if said["tensorflow"] or not said["shown"]:
        raise SystemExit(f"TensorFlow is to be loaded when Run is pressed, and a Lab shown before that, got {said}")
    return float(said["seconds"])


def process(program: str) -> float:
    """Seconds of a program's whole process."""
    return seconds(lambda: ask_fresh(program))


def measure(repeats: int) -> list[Row]:
    """Seconds of each program, of its process, and that process beside one that imports nothing."""
    sides = {"nothing": lambda: process(NOTHING)}
    for name, (program, _) in PROGRAMS.items():
        sides[name] = lambda p=program: statements(p)
        sides[f"process of {name}"] = lambda p=program: process(p)
    found = take_turns(sides, repeats)
    middle = medians(found)
    return [
        {
            "what": name,
            "seconds": middle[name],
            "bar": bar,
            "seconds / bar": middle[name] / bar,
            "process": middle[f"process of {name}"],
            "nothing": middle["nothing"],
            "process / nothing": ratio(found, f"process of {name}", "nothing"),
            "TensorFlow": "not loaded",
        }
        for name, (_, bar) in PROGRAMS.items()
    ]


def main() -> None:
    """Measure and show."""
    given = command(__doc__, repeats=7).parse_args()
    rows = measure(given.repeats)
    show([Table("in a fresh interpreter", rows, "0.3 s for the import, 1 s for what a Lab shows")], given.json)


if __name__ == "__main__":
    main()
