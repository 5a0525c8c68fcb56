"""The command `train`: its options, the run that they describe, and the bar that follows it.

Reading the options loads no TensorFlow; a run always ends, also with Ctrl-C, and its file with it.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from asyncsgd_edu.command_options import INTERRUPTED, Mistake, whole_option
from asyncsgd_edu.problems.catalogue import PROBLEMS
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_UPDATES, MAX_WORKERS, positive_number
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential
from asyncsgd_edu.trace import Trace

if TYPE_CHECKING:
    from asyncsgd_edu.engines.trainer import Trainer

DURATIONS: dict[str, Callable[[float], Duration]] = {"constant": Constant, "exponential": Exponential}
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adagrad": "Adagrad", "rmsprop": "RMSprop"}  # Keras's own defaults.
ACCESSES = ("consistent", "lock_free")


def add_options(parser: argparse.ArgumentParser) -> None:
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


def carry_out(given: argparse.Namespace) -> tuple[str, int]:
    """Train, show the progress; return the summary with the evaluation, and the exit status.

    Raises Mistake for what cannot be done.
    """
    trainer = make_trainer(given)
    status, trace, saved = follow(trainer, given)
    scores = ", ".join(f"{name} {value:.4g}" for name, value in trainer.evaluate().items())
    return "\n".join([trace.summary(), f"evaluation: {scores}", *saved]), status


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


def follow(trainer: "Trainer", given: argparse.Namespace) -> tuple[int, Trace, list[str]]:
    """Start the run, show a bar of real updates until it ends; return exit status, trace, and where it was saved."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from asyncsgd_edu import WorkerError

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("updates"))
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
    of = bar.add_task(f"{trainer.header.trainer}, {trainer.workers} workers", total=given.updates)
    saved = [f"saved in {given.save}"] if given.save else []
    try:
        try:  # Around all of it: Ctrl-C may come anywhere.
            begin(trainer, given)
            with bar:
                while not is_over(trainer):
                    bar.update(of, completed=trainer.version)
                bar.update(of, completed=trainer.version)
            return int(trainer.state != "finished"), trainer.trace, saved
        except KeyboardInterrupt:
            if trainer.state == "ready":
                raise
            trainer.stop()
            return INTERRUPTED, trainer.wait(), saved
    except WorkerError:
        return 1, trainer.trace, saved  # Its summary names the worker and the error.
    except OSError as error:
        sys.stderr.write(f"asyncsgd-edu train: {error}\n")
        return 1, trainer.trace, []


def begin(trainer: "Trainer", given: argparse.Namespace) -> None:
    """Start the run. Raises Mistake where that cannot be."""
    try:
        trainer.start(given.updates, record=given.save)
    except (ValueError, TypeError, OSError) as error:
        raise Mistake(f"cannot start: {error}") from error


def is_over(trainer: "Trainer") -> bool:
    """Whether the run has ended within a tenth of a second. Raises what ended it, if that was an error."""
    try:
        trainer.wait(timeout=0.1)
    except TimeoutError:
        return False
    return True


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
