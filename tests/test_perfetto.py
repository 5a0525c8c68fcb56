"""The exported events say what the trace says."""

import json

from schedules import Plan, simulate, small


def exported(trace, tmp_path):
    trace.to_perfetto(tmp_path / "run.json")
    return json.loads((tmp_path / "run.json").read_text())["traceEvents"]


def test_each_gradient_is_a_slice_with_its_versions(tmp_path):
    trace = small(workers=3, updates=9)
    events = exported(trace, tmp_path)
    slices = [event for event in events if event["name"] == "compute"]
    assert [event["tid"] for event in slices] == trace.worker.tolist()
    assert [event["args"]["staleness"] for event in slices] == trace.staleness.tolist()
    assert [event["ts"] for event in slices] == (trace.read_time * 1e6).tolist()
    assert [event["dur"] for event in slices] == ((trace.ready_time - trace.read_time) * 1e6).tolist()
    assert [event["args"]["name"] for event in events if event["name"] == "thread_name"] == [
        "worker 0",
        "worker 1",
        "worker 2",
    ]


def test_an_arrow_leads_from_the_update_that_wrote_a_version_to_its_read(tmp_path):
    trace = small(workers=2, updates=6)
    events = exported(trace, tmp_path)
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    finishes = {event["id"]: event for event in events if event["ph"] == "f"}
    assert set(starts) == set(finishes) == {row for row in range(6) if trace.read_version[row] > 0}
    for row, start in starts.items():
        source = int(trace.read_version[row]) - 1
        assert (start["tid"], start["ts"]) == (trace.worker[source], trace.apply_time[source] * 1e6)
        assert (finishes[row]["tid"], finishes[row]["ts"]) == (trace.worker[row], trace.read_time[row] * 1e6)


def test_dropped_gradients_are_named(tmp_path):
    trace = simulate(Plan(workers=3, steps=60, dropping=True, seed=1))
    dropped = [event for event in exported(trace, tmp_path) if event["name"] == "wait, dropped"]
    assert len(dropped) == int((~trace.applied).sum()) > 0
