"""A run that is recorded while it goes: what is in its file, and what is said where there can be none."""

import threading

import numpy as np
import pytest
import trainers
from trainers import ENDLESS, PATIENCE, until

from asyncsgd_edu import Trace, tracefile

built, trainer, no_worker_is_left = trainers.built, trainers.trainer, trainers.no_worker_is_left
pytestmark = pytest.mark.usefixtures("eight_devices", "no_worker_is_left")


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_recorded_run_is_the_trace(trainer, tmp_path, name):
    trace = trainer.fit(updates=60, record=tmp_path / name)
    loaded = Trace.load(tmp_path / name)
    assert loaded.header == trace.header
    for column, values in trace.columns.items():
        assert np.array_equal(values, loaded.columns[column]), column


def test_a_run_records_while_it_goes(trainer, tmp_path):
    path = tmp_path / "run.jsonl"
    trainer.start(ENDLESS, record=path)
    until(lambda: path.read_text().count("\n") > 20)
    prefix = Trace.load(path, prefix=True)
    assert prefix.header.ended.how == "running"
    assert prefix.updates > 3
    assert prefix.audit() == []
    trainer.stop()
    assert np.array_equal(trainer.trace.loss[: len(prefix)], prefix.loss)


def test_a_reset_waits_until_what_is_recorded_is_written(trainer, tmp_path, monkeypatch):
    path, lines, write = tmp_path / "run.jsonl", tracefile.row_lines, threading.Event()
    monkeypatch.setattr(tracefile, "row_lines", lambda columns: write.wait(PATIENCE) and lines(columns))
    trainer.start(ENDLESS, record=path)
    until(lambda: trainer.version > 5)
    trainer.stop()
    whole = trainer.trace
    resetting = threading.Thread(target=trainer.reset, daemon=True)
    resetting.start()
    resetting.join(0.6)  # A stop alone waits for half of that.
    assert resetting.is_alive()
    write.set()
    resetting.join(PATIENCE)
    assert (trainer.state, len(trainer.trace)) == ("ready", 0)
    assert np.array_equal(Trace.load(path).loss, whole.loss)


def test_a_path_that_cannot_be_written_stops_the_run_before_it_starts(trainer, tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        trainer.fit(updates=5, record=tmp_path / "nowhere" / "run.jsonl")
    assert trainer.state == "ready"


def test_a_recording_that_fails_is_told_although_the_run_went_well(trainer, tmp_path, monkeypatch):
    def full(columns):
        raise OSError("no space left on device")

    monkeypatch.setattr("asyncsgd_edu.tracefile.row_lines", full)
    with pytest.raises(OSError, match=r"was not recorded in .*run.jsonl: no space left"):
        trainer.fit(updates=10, record=tmp_path / "run.jsonl")
    assert trainer.state == "finished"
    assert trainer.trace.updates == 10
