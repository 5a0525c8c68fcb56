"""The file of a trace: what is saved comes back equal, bit for bit, and can be read in an editor.

Files that are not a whole trace are in test_tracefile_refused.py.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import Plan, plans, same, simulate, small, trace_of

from asyncsgd_edu import Trace
from asyncsgd_edu.trace import COLUMNS


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@given(plan=plans)
def test_a_saved_trace_comes_back_equal(tmp_path_factory: pytest.TempPathFactory, suffix: str, plan: Plan) -> None:
    path = tmp_path_factory.getbasetemp() / f"run{suffix}"
    trace = simulate(plan)
    trace.save(path)
    assert same(Trace.load(path), trace)


numbers = st.floats(width=32) | st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0])


@given(st.lists(numbers, min_size=1, max_size=20), st.lists(st.floats(), min_size=1, max_size=20))
def test_every_float_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, losses: list[float], times: list[float]
) -> None:
    path = tmp_path_factory.getbasetemp() / "floats.jsonl"
    rows = [[0, i, i, i, 0, t, t, t, loss] for i, (loss, t) in enumerate(zip(losses, times, strict=False))]
    trace = trace_of(rows, workers=1)
    trace.save(path)
    assert same(Trace.load(path), trace)
    assert np.signbit(Trace.load(path).loss).tolist() == [
        bool(s) and not n for s, n in zip(np.signbit(trace.loss), np.isnan(trace.loss), strict=True)
    ]


def test_a_slice_comes_back_sound(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("slice") / "part.jsonl"
    part = small(workers=3)[7:15]
    part.save(path)
    assert same(Trace.load(path), part)
    assert Trace.load(path).audit() == []


def test_a_file_is_readable_in_an_editor(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("lines") / "run.jsonl"
    small(updates=3).save(path)
    lines = path.read_text().splitlines()
    assert json.loads(lines[0])["columns"] == list(COLUMNS)
    assert json.loads(lines[2]) == [1, 0, 0, 1, 0, 0.0, 1.5, 1.75, 0.1]
    assert json.loads(lines[-1])["rows"] == 3


def test_saving_over_a_file_that_cannot_be_written_leaves_nothing_behind(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("full")
    target = folder / "run.jsonl"
    target.mkdir()
    with pytest.raises(OSError, match=r"run\.jsonl"):
        small().save(target)
    assert [p.name for p in folder.iterdir()] == ["run.jsonl"]
