"""The header of a trace: it comes back from a file equal, and says in words what was injected."""

import dataclasses

import pytest
from schedules import HEADER, small

from asyncsgd_edu import Constant, Straggler, Trace
from asyncsgd_edu.header import Ended, InFlight


def test_a_straggler_is_said_in_words() -> None:
    law = Straggler(Constant(0.01), worker=1, factor=5.0).describe()
    words = dataclasses.replace(small().header, durations=law).injected
    assert words == "Straggler durations injected (base Constant (value 0.01), worker 1, factor 5.0; seconds)"


def test_a_header_comes_back_equal(tmp_path_factory: pytest.TempPathFactory) -> None:
    flights = (InFlight(0, 3, 7, 0.25),)
    header = dataclasses.replace(
        HEADER,
        workers=2,
        devices=("/CPU:0", "/CPU:1"),
        problem={"name": "Quadratic", "curvatures": [1.0, 2.5], "text": "a line\nand ümlaut"},
        durations={"law": "Constant", "value": 0.01},
        batch_size=32,
        packages={"tensorflow": "2.21.0"},
        ended=Ended("failed", worker=1, error="ValueError: no", in_flight=flights),
    )
    path = tmp_path_factory.mktemp("header") / "run.jsonl"
    Trace(header, small().columns).save(path)
    assert Trace.load(path).header == header
