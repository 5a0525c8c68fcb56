"""The header of a run, from what every trainer is told. What only one kind of trainer has, it adds itself."""

from typing import Any

from asyncsgd_edu.engines import devices as devices_
from asyncsgd_edu.header import Header
from asyncsgd_edu.problems.problem import Problem
from asyncsgd_edu.rules.durations import Duration


def header_of(
    trainer: object,
    problem: Problem,
    workers: int,
    seed: int,
    durations: Duration | None,
    devices: tuple[str, ...],
    **more: Any,
) -> Header:
    """What `trainer` is about to run on `devices`; `more` are further fields of the header."""
    return Header(
        trainer=type(trainer).__name__,
        workers=workers,
        problem=problem.describe(),
        devices=devices,
        devices_note=devices_.note_on(devices, devices_.logical_gpus()),
        seed=seed,
        durations=durations.describe() if durations else None,
        batch_size=problem.batch_size,
        **more,
    )
