"""The command `races`: its options, and what is written of the races.

Nothing is raced, laid out or printed here; reading the options loads no TensorFlow.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asyncsgd_edu.command_options import whole_option

if TYPE_CHECKING:
    from asyncsgd_edu.engines.races import Race

MOST_UPDATES = 10**7


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `races`."""
    whole, add = whole_option, parser.add_argument
    add("--row", action="append", metavar="NAME", help="only this row; may be given again (a wrong name lists them)")
    add("--threads", type=whole("threads", 1, 64), nargs="+", default=[4], metavar="N", help="threads (4)")
    add("--elements", type=whole("elements", 2, 10**7), nargs="+", metavar="N", help="sizes (1000 200000)")
    add("--updates", type=whole("updates", 1, MOST_UPDATES), metavar="N", help="steps a thread (what the time allows)")
    add("--seconds", type=float, default=40.0, metavar="X", help="for all races together (40)")
    add("--json", metavar="PATH", help="write every count and its interval")
    add("--html", metavar="PATH", help="write the table as a page that needs no network")


def carry_out(given: argparse.Namespace) -> tuple[str, bool]:
    """Race, write the files that were asked for, and return the table and whether it was interrupted.

    Raises ValueError or OSError for what cannot be done, RaceError for a thread that failed.
    """
    for path in filter(None, (given.json, given.html)):
        if Path(path).is_dir() or not Path(path).absolute().parent.is_dir():
            raise ValueError(f"cannot write {path}: it is a folder, or its folder is missing")  # Before the races.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from asyncsgd_edu.engines import race_table
    from asyncsgd_edu.engines.races import races

    done: list[Race] = []

    def watch(race: "Race") -> None:
        done.append(race)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{len(done)} races run \r")

    interrupted = False
    try:
        races(given.row, given.threads, given.elements, given.updates, given.seconds, watch)
    except KeyboardInterrupt:
        interrupted = True
        if not done:
            raise
    if given.json:
        Path(given.json).write_text(json.dumps(race_table.plain(done), indent=1) + "\n", encoding="utf-8")
    if given.html:
        Path(given.html).write_text(race_table.page(done), encoding="utf-8")
    return race_table.text(done), interrupted
