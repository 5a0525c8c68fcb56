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
    "Constant": "rules.durations",
    "Digits": "problems.digits",
    "Exponential": "rules.durations",
    "Lab": "view.lab",
    "KAsync": "rules.policies",
    "KBatchAsync": "rules.policies",
    "KBatchSync": "rules.policies",
    "KSync": "rules.policies",
    "LiveView": "view.live",
    "OpenGate": "engines.gates",
    "Quadratic": "problems.quadratic",
    "ScriptedGate": "engines.gates",
    "StaleSynchronous": "rules.policies",
    "Straggler": "rules.durations",
    "Synchronous": "rules.policies",
    "TowerTrainer": "engines.tower_trainer",
    "Trace": "trace",
    "TraceError": "tracefile",
    "WorkerError": "engines.trainer",
    "configure_devices": "engines.devices",
    "geometric_staleness": "rules.laws",
    "mean_staleness": "rules.laws",
    "replay": "engines.replay",
    "simulate": "engines.simulator",
}

_ROOMS = {"figures": "view.figures", "lessons": "lessons"}  # Whole modules with a public name.

__all__ = sorted([*_HOMES, *_ROOMS])

if TYPE_CHECKING:
    from asyncsgd_edu import lessons as lessons
    from asyncsgd_edu.engines.async_trainer import AsyncTrainer as AsyncTrainer
    from asyncsgd_edu.engines.devices import configure_devices as configure_devices
    from asyncsgd_edu.engines.gates import OpenGate as OpenGate
    from asyncsgd_edu.engines.gates import ScriptedGate as ScriptedGate
    from asyncsgd_edu.engines.replay import replay as replay
    from asyncsgd_edu.engines.tower_trainer import TowerTrainer as TowerTrainer
    from asyncsgd_edu.engines.trainer import WorkerError as WorkerError
    from asyncsgd_edu.problems.digits import Digits as Digits
    from asyncsgd_edu.problems.quadratic import Quadratic as Quadratic
    from asyncsgd_edu.rules.durations import Constant as Constant
    from asyncsgd_edu.rules.durations import Exponential as Exponential
    from asyncsgd_edu.rules.durations import Straggler as Straggler
    from asyncsgd_edu.rules.laws import geometric_staleness as geometric_staleness
    from asyncsgd_edu.rules.laws import mean_staleness as mean_staleness
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
