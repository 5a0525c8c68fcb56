"""See what asynchronous training does: which version each gradient came from.

Public names are loaded when they are first used, so importing the package
loads neither TensorFlow nor plotly.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "AsyncTrainer": "engines.async_trainer",
    "Asynchronous": "rules.policies",
    "BackupWorkers": "rules.policies",
    "Cifar10": "problems.cifar10",
    "Comparison": "comparison",
    "Constant": "rules.durations",
    "DelayCompensation": "rules.remedies",
    "Digits": "problems.digits",
    "DivideByStaleness": "rules.remedies",
    "DropAbove": "rules.remedies",
    "Exponential": "rules.durations",
    "Gamma": "rules.skewed_durations",
    "GapAware": "rules.remedies",
    "KAsync": "rules.policies",
    "KBatchAsync": "rules.policies",
    "KBatchSync": "rules.policies",
    "KSync": "rules.policies",
    "KerasProblem": "problems.keras_problem",
    "Lab": "view.lab",
    "LiveView": "view.live",
    "LogNormal": "rules.skewed_durations",
    "Measured": "rules.skewed_durations",
    "OpenGate": "engines.gates",
    "Pareto": "rules.skewed_durations",
    "Problem": "problems.problem",
    "Quadratic": "problems.quadratic",
    "Race": "engines.races",
    "RaceError": "engines.races",
    "Reachable": "engines.reachable",
    "Rosenbrock": "problems.rosenbrock",
    "ScriptedGate": "engines.gates",
    "SessionTrainer": "engines.session_trainer",
    "ShiftedExponential": "rules.durations",
    "SparseLogistic": "problems.sparse_logistic",
    "StaleSynchronous": "rules.policies",
    "Straggler": "rules.durations",
    "Synchronous": "rules.policies",
    "TowerTrainer": "engines.tower_trainer",
    "Trace": "trace",
    "TraceError": "tracefile",
    "Uniform": "rules.durations",
    "WorkerError": "engines.crew",
    "compare": "comparison",
    "configure_devices": "engines.devices",
    "distinct_interleavings": "rules.interleavings",
    "geometric_staleness": "rules.laws",
    "implicit_momentum": "rules.stability",
    "interleavings": "rules.interleavings",
    "mean_square_limit": "rules.stability",
    "mean_staleness": "rules.laws",
    "races": "engines.races",
    "reachable": "engines.reachable",
    "replay": "engines.replay",
    "simulate": "engines.simulator",
    "stability_limit": "rules.stability",
    "stability_limit_with_division": "rules.stability",
    "stale_synchronous_bound": "rules.laws",
    "time_per_update": "rules.laws",
    "trajectory": "engines.recursion",
}
_ROOMS = {"figures": "view.figures", "lessons": "lessons"}  # Whole modules with a public name.

__all__ = sorted([*_HOMES, *_ROOMS])

if TYPE_CHECKING:
    from asyncsgd_edu import lessons as lessons
    from asyncsgd_edu.comparison import Comparison as Comparison
    from asyncsgd_edu.comparison import compare as compare
    from asyncsgd_edu.engines.async_trainer import AsyncTrainer as AsyncTrainer
    from asyncsgd_edu.engines.crew import WorkerError as WorkerError
    from asyncsgd_edu.engines.devices import configure_devices as configure_devices
    from asyncsgd_edu.engines.gates import OpenGate as OpenGate
    from asyncsgd_edu.engines.gates import ScriptedGate as ScriptedGate
    from asyncsgd_edu.engines.races import Race as Race
    from asyncsgd_edu.engines.races import RaceError as RaceError
    from asyncsgd_edu.engines.races import races as races
    from asyncsgd_edu.engines.reachable import Reachable as Reachable
    from asyncsgd_edu.engines.reachable import reachable as reachable
    from asyncsgd_edu.engines.recursion import trajectory as trajectory
    from asyncsgd_edu.engines.replay import replay as replay
    from asyncsgd_edu.engines.session_trainer import SessionTrainer as SessionTrainer
    from asyncsgd_edu.engines.simulator import simulate as simulate
    from asyncsgd_edu.engines.tower_trainer import TowerTrainer as TowerTrainer
    from asyncsgd_edu.problems.cifar10 import Cifar10 as Cifar10
    from asyncsgd_edu.problems.digits import Digits as Digits
    from asyncsgd_edu.problems.keras_problem import KerasProblem as KerasProblem
    from asyncsgd_edu.problems.problem import Problem as Problem
    from asyncsgd_edu.problems.quadratic import Quadratic as Quadratic
    from asyncsgd_edu.problems.rosenbrock import Rosenbrock as Rosenbrock
    from asyncsgd_edu.problems.sparse_logistic import SparseLogistic as SparseLogistic
    from asyncsgd_edu.rules.durations import Constant as Constant
    from asyncsgd_edu.rules.durations import Exponential as Exponential
    from asyncsgd_edu.rules.durations import ShiftedExponential as ShiftedExponential
    from asyncsgd_edu.rules.durations import Straggler as Straggler
    from asyncsgd_edu.rules.durations import Uniform as Uniform
    from asyncsgd_edu.rules.interleavings import distinct_interleavings as distinct_interleavings
    from asyncsgd_edu.rules.interleavings import interleavings as interleavings
    from asyncsgd_edu.rules.laws import geometric_staleness as geometric_staleness
    from asyncsgd_edu.rules.laws import mean_staleness as mean_staleness
    from asyncsgd_edu.rules.laws import stale_synchronous_bound as stale_synchronous_bound
    from asyncsgd_edu.rules.laws import time_per_update as time_per_update
    from asyncsgd_edu.rules.policies import Asynchronous as Asynchronous
    from asyncsgd_edu.rules.policies import BackupWorkers as BackupWorkers
    from asyncsgd_edu.rules.policies import KAsync as KAsync
    from asyncsgd_edu.rules.policies import KBatchAsync as KBatchAsync
    from asyncsgd_edu.rules.policies import KBatchSync as KBatchSync
    from asyncsgd_edu.rules.policies import KSync as KSync
    from asyncsgd_edu.rules.policies import StaleSynchronous as StaleSynchronous
    from asyncsgd_edu.rules.policies import Synchronous as Synchronous
    from asyncsgd_edu.rules.remedies import DelayCompensation as DelayCompensation
    from asyncsgd_edu.rules.remedies import DivideByStaleness as DivideByStaleness
    from asyncsgd_edu.rules.remedies import DropAbove as DropAbove
    from asyncsgd_edu.rules.remedies import GapAware as GapAware
    from asyncsgd_edu.rules.skewed_durations import Gamma as Gamma
    from asyncsgd_edu.rules.skewed_durations import LogNormal as LogNormal
    from asyncsgd_edu.rules.skewed_durations import Measured as Measured
    from asyncsgd_edu.rules.skewed_durations import Pareto as Pareto
    from asyncsgd_edu.rules.stability import implicit_momentum as implicit_momentum
    from asyncsgd_edu.rules.stability import mean_square_limit as mean_square_limit
    from asyncsgd_edu.rules.stability import stability_limit as stability_limit
    from asyncsgd_edu.rules.stability import stability_limit_with_division as stability_limit_with_division
    from asyncsgd_edu.trace import Trace as Trace
    from asyncsgd_edu.tracefile import TraceError as TraceError
    from asyncsgd_edu.view import figures as figures
    from asyncsgd_edu.view.lab import Lab as Lab
    from asyncsgd_edu.view.live import LiveView as LiveView


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        value: object = importlib.import_module(f"{__name__}.{_ROOMS[name]}")
    elif name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
