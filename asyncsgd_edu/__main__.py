"""The command line: train, show, claims and lab, each a few calls of the public names.

Nothing is computed here. Bad input is one line on stderr and exit status 2, a run
that failed or diverged is 1, an interrupted one is 130 and keeps what it has done.
"""

import argparse
import html
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from asyncsgd_edu import __version__, commands_races, commands_train
from asyncsgd_edu.command_options import INTERRUPTED, Mistake, whole_option
from asyncsgd_edu.rules.arguments import MAX_SEED
from asyncsgd_edu.trace import Trace, TraceError

if TYPE_CHECKING:
    pass

FIRST_NOTEBOOK = Path(__file__).resolve().parent.parent / "notebooks" / "00_start_here.ipynb"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = make_parser()
    given, further = parser.parse_known_args(argv)
    if further and given.command != "lab":
        parser.error(f"unknown arguments: {' '.join(further)}; see {parser.prog} {given.command} --help")
    given.further = further
    try:
        status: int = given.carry_out(given)
    except Mistake as mistake:
        print(f"{parser.prog} {given.command}: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{parser.prog} {given.command}: interrupted before anything was done", file=sys.stderr)
        return INTERRUPTED
    return status


# --- the commands


def train(given: argparse.Namespace) -> int:
    """Train, then print the summary and the evaluation."""
    text, status = commands_train.carry_out(given)
    print(text)
    return status


def show(given: argparse.Namespace) -> int:
    """Print a saved trace's summary and, where asked for, write its figures."""
    try:
        trace = Trace.load(given.trace, prefix=given.prefix)
        if given.html:
            Path(given.html).write_text(page(trace, f"asyncsgd_edu: {given.trace}"), encoding="utf-8")
    except (TraceError, OSError) as error:
        raise Mistake(str(error)) from error
    print(trace.summary())
    if given.html:
        print(f"figures in {given.html}")
    return 0


def claims(given: argparse.Namespace) -> int:
    """Run the laws and print what holds; 1 if a law fails where it should hold."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # For the laws of the trainers.
    from asyncsgd_edu.lessons import claims as laws

    note = laws.not_run(given.law, given.delays)
    try:
        found = laws.claims(given.law, given.seed, given.delays)
        if given.html:
            Path(given.html).write_text(laws.html(found, note), encoding="utf-8")
    except (ValueError, OSError) as error:
        raise Mistake(str(error)) from error
    print(laws.table(found, note))
    return int(any(claim.verdict == "fails" for claim in found))


def races(given: argparse.Namespace) -> int:
    """Race the ways to update a variable from threads, and print what each loses; 1 if a thread failed."""
    try:
        text, interrupted = commands_races.carry_out(given)
    except (ValueError, OSError) as error:
        raise Mistake(str(error)) from error
    except RuntimeError as error:
        print(f"asyncsgd-edu races: {error}", file=sys.stderr)
        return 1
    print(text)
    return INTERRUPTED if interrupted else 0


def lab(given: argparse.Namespace) -> int:
    """Start JupyterLab on the first notebook; does not return before it ends."""
    if not FIRST_NOTEBOOK.exists():
        raise Mistake(f"no notebook at {FIRST_NOTEBOOK}: run this from a checkout that was installed with pip -e")
    command = [sys.executable, "-m", "jupyterlab", str(FIRST_NOTEBOOK), *lab_options(), *given.further]
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(sys.executable, command)  # JupyterLab itself gets Ctrl-C, and ends its kernels.
    return subprocess.call(command)


# --- their parts


def page(trace: Trace, title: str) -> str:
    """One HTML page that needs no network: the summary and the figures of a trace."""
    from asyncsgd_edu import figures

    drawn = [figures.convergence(trace), figures.staleness_histogram(trace), figures.timeline(trace)]
    # plotly.js weighs megabytes: the first figure brings it for all.
    parts = [figure.to_html(full_html=False, include_plotlyjs=number == 0) for number, figure in enumerate(drawn)]
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title></head>'
    text = f"<h1>{html.escape(title)}</h1>\n<pre>{html.escape(trace.summary())}</pre>"
    return "\n".join([head, "<body>", text, *parts, "</body></html>\n"])


def lab_options() -> list[str]:
    """Options of JupyterLab that fit this machine."""
    # The printed address leads to the notebook; a class without a network waits for no news.
    options = [f"--LabApp.default_url=/lab/tree/{FIRST_NOTEBOOK.name}", "--LabApp.news_url=None"]
    screen = os.name == "nt" or sys.platform == "darwin" or os.environ.get("DISPLAY")
    if not (screen or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")):
        print("no browser to open here: open one of the addresses that JupyterLab prints below")
        options.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")  # In a container one is root, and JupyterLab refuses without it.
    return options


# --- arguments


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def make_parser() -> Parser:
    """The arguments of the commands; reading them loads no TensorFlow."""
    parser = Parser(prog="asyncsgd-edu", description="See what asynchronous training does.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"asyncsgd-edu {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="train | show | claims | lab | races")
    run = commands.add_parser("train", help="train and print what happened", allow_abbrev=False)
    commands_train.add_options(run)
    run.set_defaults(carry_out=train)
    one = commands.add_parser("show", help="summary and figures of a saved trace", allow_abbrev=False)
    one.add_argument("trace", help="a file that train --save or Trace.save wrote")
    one.add_argument("--html", metavar="PATH", help="write the figures as one page that needs no network")
    one.add_argument("--prefix", action="store_true", help="accept a file cut short, up to its last whole row")
    one.set_defaults(carry_out=show)
    every = commands.add_parser("claims", help="run every law and say what holds", allow_abbrev=False)
    every.add_argument("--law", type=int, action="append", metavar="N", help="only this law; may be given again")
    every.add_argument("--seed", type=whole_option("seed", 0, MAX_SEED), default=0, metavar="N", help="seed (0)")
    every.add_argument("--delays", metavar="FOLDER", help="logs of real delays for law 6: BCD_*.csv, one a line")
    every.add_argument("--html", metavar="PATH", help="write the table as a page")
    every.set_defaults(carry_out=claims)
    race = commands.add_parser("races", help="count what threads lose on one variable", allow_abbrev=False)
    commands_races.add_options(race)
    race.set_defaults(carry_out=races)
    start = commands.add_parser(
        "lab", help="start JupyterLab on the first notebook; further arguments are JupyterLab's", allow_abbrev=False
    )
    start.set_defaults(carry_out=lab)
    return parser


if __name__ == "__main__":
    sys.exit(main())
