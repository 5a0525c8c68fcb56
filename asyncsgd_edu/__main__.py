"""The command line: train, show, claims and lab, each a few calls of the public names.

Nothing is computed here. Bad input is one line on stderr and exit status 2, a run
that failed or diverged is 1, an interrupted one is 130 and keeps what it has done.
"""

import argparse
import html
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from asyncsgd_edu import __version__, commands_races
from asyncsgd_edu.problems.catalogue import PROBLEMS
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_UPDATES, MAX_WORKERS, positive_number, whole_number
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential
from asyncsgd_edu.trace import Trace, TraceError

if TYPE_CHECKING:
    from asyncsgd_edu.engines.trainer import Trainer

DURATIONS: dict[str, Callable[[float], Duration]] = {"constant": Constant, "exponential": Exponential}
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adagrad": "Adagrad", "rmsprop": "RMSprop"}  # Keras's own defaults.
ACCESSES = ("consistent", "lock_free")
FIRST_NOTEBOOK = Path(__file__).resolve().parent.parent / "notebooks" / "00_start_here.ipynb"
INTERRUPTED = 130  # What a shell reports for a command that Ctrl-C ended.


class Mistake(Exception):
    """The command cannot be carried out as given; its text is the line to print."""


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
    """Train, show the progress, print the summary and the evaluation."""
    trainer = make_trainer(given)
    try:
        trainer.start(given.updates, record=given.save)
    except (ValueError, TypeError, OSError) as error:
        raise Mistake(f"cannot start: {error}") from error
    status, trace = follow(trainer, given.updates)
    print(trace.summary())
    print("evaluation: " + ", ".join(f"{name} {value:.4g}" for name, value in trainer.evaluate().items()))
    if given.save:
        print(f"saved in {given.save}")
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


def make_trainer(given: argparse.Namespace) -> "Trainer":
    """The trainer that the options describe. Raises Mistake for options that do not go together."""
    towers = given.trainer == "towers"
    if towers and given.access is not None:
        raise Mistake("--access says how threads share parameters, it does nothing with --trainer towers")
    if towers and given.devices not in (None, given.workers):
        raise Mistake(f"each tower has a device: --devices must be {given.workers} or left out, got {given.devices}")
    if given.save and not Path(given.save).absolute().parent.is_dir():
        raise Mistake(f"cannot save in {given.save}: there is no folder {Path(given.save).absolute().parent}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's log would tear the progress bar.
    from asyncsgd_edu import AsyncTrainer, TowerTrainer, configure_devices
    from asyncsgd_edu.engines import optimizers
    from asyncsgd_edu.problems.catalogue import make_problem

    wanted = given.workers if towers else given.devices
    try:
        devices = configure_devices(wanted) if wanted else None
        optimizer = optimizers.make(OPTIMIZERS[given.optimizer], given.learning_rate)
        problem = make_problem(given.problem)
        shared = {"devices": devices, "optimizer": optimizer, "durations": given.durations, "seed": given.seed}
        if towers:
            return TowerTrainer(problem, given.workers, **shared)
        return AsyncTrainer(problem, given.workers, access=given.access or "consistent", **shared)
    except (ValueError, TypeError, RuntimeError) as error:
        raise Mistake(str(error)) from error


def follow(trainer: "Trainer", updates: int) -> tuple[int, Trace]:
    """Show a bar of real updates until the run ends; return the exit status and the trace."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from asyncsgd_edu import WorkerError

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("updates"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task(f"{trainer.header.trainer}, {trainer.workers} workers", total=updates)
        while True:
            try:
                trace = trainer.wait(timeout=0.1)
                progress.update(bar, completed=trainer.version)
                return int(trainer.state != "finished"), trace
            except TimeoutError:
                progress.update(bar, completed=trainer.version)
            except WorkerError:
                return 1, trainer.trace  # Its summary names the worker and the error.
            except KeyboardInterrupt:
                trainer.stop()
                return INTERRUPTED, trainer.wait()


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
    add_train(commands.add_parser("train", help="train and print what happened", allow_abbrev=False))
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
    commands_races.add_options(race, whole_option)
    race.set_defaults(carry_out=races)
    start = commands.add_parser(
        "lab", help="start JupyterLab on the first notebook; further arguments are JupyterLab's", allow_abbrev=False
    )
    start.set_defaults(carry_out=lab)
    return parser


def add_train(parser: argparse.ArgumentParser) -> None:
    """The options of `train`."""
    whole, add = whole_option, parser.add_argument
    add("--trainer", choices=("async", "towers"), default="async", help="threads, or a tower on each device")
    add("--workers", type=whole("workers", 1, MAX_WORKERS), default=4, metavar="N", help="threads or towers (4)")
    add("--problem", choices=PROBLEMS, default="digits-cnn", help="what is trained (digits-cnn)")
    add("--updates", type=whole("updates", 1, MAX_UPDATES), default=2000, metavar="N", help="updates to do (2000)")
    add("--optimizer", choices=sorted(OPTIMIZERS), default="sgd", help="a Keras optimizer (sgd)")
    add("--learning-rate", type=learning_rate_option, default=0.05, metavar="X", help="learning rate (0.05)")
    add("--access", choices=ACCESSES, help="how threads touch the parameters (consistent)")
    add("--durations", type=durations_option, metavar="LAW:SECONDS", help="inject durations: exponential:0.01")
    add("--devices", type=whole("devices", 1, 64), metavar="N", help="spread the workers over N devices")
    add("--seed", type=whole("seed", 0, MAX_SEED), default=0, metavar="N", help="seed of data and initial values (0)")
    add("--save", metavar="PATH", help="record the trace while the run goes; .gz compresses")
    parser.set_defaults(carry_out=train)


def whole_option(name: str, low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        try:
            return whole_number(name, int(text), low, high)
        except ValueError:
            sentence = f"must be a whole number from {low} to {high}, got {text!r}"
            raise argparse.ArgumentTypeError(sentence) from None

    return read


def learning_rate_option(text: str) -> float:
    """A learning rate: finite and above 0."""
    try:
        return positive_number("learning_rate", float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a finite number above 0, got {text!r}") from None


def durations_option(text: str) -> Duration:
    """A law and its mean in seconds.

    >>> durations_option("exponential:0.01")
    Exponential(scale=0.01)
    """
    law, _, seconds = text.partition(":")
    try:
        return DURATIONS[law](float(seconds))
    except (KeyError, ValueError):
        laws = " or ".join(f"{name}:0.01" for name in sorted(DURATIONS))
        raise argparse.ArgumentTypeError(f"must be like {laws}, seconds finite and above 0, got {text!r}") from None


if __name__ == "__main__":
    sys.exit(main())
