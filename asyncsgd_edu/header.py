"""What was run and how it ended: the header of a trace.

Facts only, frozen. Every field can be written as JSON, and one read from a
file is checked against a schema first: a file is not to be trusted.
"""

import importlib.metadata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from asyncsgd_edu.tracefile import TraceError


@dataclass(frozen=True)
class InFlight:
    """A gradient that had been read but neither applied nor dropped when the run ended."""

    worker: int
    batch: int
    read_version: int
    read_time: float


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    `how` is `running` (not ended: the trace is a prefix), `finished`, `stopped`,
    `diverged` (then `version` is the one whose loss was not finite) or `failed`
    (then `worker` and `error` say who and why). `lost` is the number of updates that are no longer in each
    parameter, counted, where access is not `consistent`.
    """

    how: str = "running"
    version: int | None = None
    worker: int | None = None
    error: str | None = None
    in_flight: tuple[InFlight, ...] = ()
    lost: tuple[int, ...] = ()


@dataclass(frozen=True)
class Header:
    """What was run: enough to say what a row means, and to run it again.

    `devices_note` says which of the devices are parts of the same GPU; None where none is.
    """

    trainer: str
    workers: int
    policy: str = "asynchronous"
    access: str = "consistent"
    devices: tuple[str, ...] = ()
    devices_note: str | None = None
    problem: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    clock: str = "real"
    durations: Mapping[str, Any] | None = None
    batch_size: int | None = None
    steps_per_call: int = 1
    remedy: Mapping[str, Any] | None = None
    counterfactual: Mapping[str, Any] | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    ended: Ended = field(default_factory=Ended)

    @property
    def injected(self) -> str:
        """The durations that were injected, or simulated, in words; empty where there were none."""
        if self.durations is None:
            return ""
        how = "durations" if self.clock == "virtual" else "durations injected"
        return f"{self.durations.get('law')} {how} ({_constants(self.durations)}; seconds)"

    @property
    def changes(self) -> list[str]:
        """What was done about staleness, and what is only supposed, in a line each."""
        named = (("remedy", self.remedy), ("what if", self.counterfactual))
        return [f"{name}: {_settings(value)}" for name, value in named if value]


def _settings(values: Mapping[str, Any]) -> str:
    """Settings in words, the name first; what is at rest is left out."""
    rest = [f"{k} {v}" for k, v in values.items() if k != "name" and v is not None and v is not False]
    return ", ".join([str(values["name"]), *rest] if "name" in values else rest)


def header_dict(header: Header) -> tuple[dict[str, Any], dict[str, Any]]:
    """A header as the two JSON objects of a file: what was run, and how it ended."""
    run = asdict(header)
    ended = {k: v for k, v in run.pop("ended").items() if v is not None}
    return run, ended


def _constants(law: Mapping[str, Any]) -> str:
    """The constants of a duration law in words, those of a law within it in brackets."""
    shown = {k: f"{v.get('law')} ({_constants(v)})" if isinstance(v, Mapping) else v for k, v in law.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items() if name != "law")


@cache
def packages() -> dict[str, str]:
    """Versions of the packages that a run depends on, for a trace's header."""
    names = ("tensorflow", "keras", "numpy")
    return {name: importlib.metadata.version(name) for name in names}


_WHOLE = {"type": "integer"}
_VERSION = {"type": "integer", "minimum": 0, "maximum": 2**53}
_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}
_FLIGHT = {
    "type": "object",
    "properties": {"worker": _WHOLE, "batch": _WHOLE, "read_version": _VERSION, "read_time": {"type": "number"}},
    "required": ["worker", "batch", "read_version", "read_time"],
    "additionalProperties": False,
}
ENDED_SCHEMA = {
    "type": "object",
    "properties": {
        "how": {"enum": ["running", "finished", "stopped", "diverged", "failed"]},
        "version": _VERSION,
        "worker": _WHOLE,
        "error": _TEXT,
        "in_flight": {"type": "array", "items": _FLIGHT},
        "lost": {"type": "array", "items": _VERSION},
    },
    "required": ["how"],
    "additionalProperties": False,
}
HEADER_SCHEMA = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("trainer", "policy", "access", "clock"), _TEXT),
        **dict.fromkeys(("problem", "optimizer", "packages"), _OBJECT),
        "workers": {"type": "integer", "minimum": 1, "maximum": 10**6},
        "devices": {"type": "array", "items": _TEXT},
        "devices_note": {"type": ["string", "null"]},
        "seed": _WHOLE,
        **{name: {"type": ["object", "null"]} for name in ("durations", "remedy", "counterfactual")},
        "batch_size": {"type": ["integer", "null"]},
        "steps_per_call": {"type": "integer", "minimum": 1},
    },
    "required": ["trainer", "workers"],
    "additionalProperties": False,
}


def header_from(run: Mapping[str, Any]) -> Header:
    """The header that the first line of a file describes. Raises TraceError naming what does not fit."""
    _check("header", run, HEADER_SCHEMA)
    if not isinstance(run["workers"], int):  # JSON Schema takes 8.0 for a whole number.
        raise TraceError(f"header.workers: {run['workers']!r} is not a whole number")
    return Header(**{**run, "devices": tuple(run.get("devices", ()))})


def ended_from(end: Mapping[str, Any]) -> Ended:
    """How a run ended, from the last line of a file. Raises TraceError naming what does not fit."""
    _check("ended", end, ENDED_SCHEMA)
    in_flight = tuple(InFlight(**flight) for flight in end.get("in_flight", ()))
    return Ended(**{**end, "in_flight": in_flight, "lost": tuple(end.get("lost", ()))})


def _check(what: str, value: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    import jsonschema  # Here, because only a file needs it and the package should load fast.

    try:
        jsonschema.validate(value, schema)
    except jsonschema.ValidationError as error:
        raise TraceError(f"{what}{error.json_path.removeprefix('$')}: {error.message}") from error
