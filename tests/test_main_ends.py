"""The command `train` where its run does not go to the end: Ctrl-C at any moment, a disk that is full."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from leftovers import workers_alive
from trainers import until

from asyncsgd_edu import Trace
from asyncsgd_edu.__main__ import main

SMALL = ["train", "--problem", "quadratic", "--updates", "40", "--workers", "3"]


def test_an_interrupt_stops_the_run_and_keeps_what_there_is(
    eight_devices: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asyncsgd_edu.engines.trainer import Trainer

    wait, calls = Trainer.wait, []

    def interrupted(self: Trainer, timeout: float | None = None) -> Trace:
        calls.append(timeout)
        # As if Ctrl-C came once something has been done.
        if timeout is not None and self.version > 5:
            raise KeyboardInterrupt
        return wait(self, timeout)

    monkeypatch.setattr(Trainer, "wait", interrupted)
    path = tmp_path / "run.jsonl"
    options = ["--updates", "100000", "--durations", "constant:0.01", "--save", str(path)]
    assert main([*SMALL, *options]) == 130
    trace = Trace.load(path)
    assert trace.header.ended.how == "stopped"
    assert trace.updates > 5
    assert trace.audit() == []
    assert f"stopped after {trace.updates} updates" in capsys.readouterr().out


def test_an_interrupt_before_the_bar_is_shown_stops_the_run_as_well(
    eight_devices: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rich.progress.Progress.start", interrupted)
    path = tmp_path / "run.jsonl"
    assert main([*SMALL, "--updates", "100000", "--durations", "constant:0.01", "--save", str(path)]) == 130
    assert Trace.load(path).header.ended.how == "stopped"
    assert f"saved in {path}" in capsys.readouterr().out
    until(lambda: not workers_alive())


def test_a_run_that_could_not_be_recorded_says_so_with_status_1(
    eight_devices: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("asyncsgd_edu.tracefile.closing_line", full)
    path = tmp_path / "run.jsonl"
    assert main([*SMALL, "--save", str(path)]) == 1
    told = capsys.readouterr()
    assert f"asyncsgd-edu train: the run was not recorded in {path}: no space left on device\n" in told.err
    assert "finished after" in told.out
    assert "saved in" not in told.out


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_ctrl_c_ends_the_process_with_status_130(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    options = ["--updates", "1000000", "--durations", "constant:0.01", "--save", str(path)]
    module = [sys.executable, "-m", "asyncsgd_edu"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A process that was started in the background may have been told to take no notice of Ctrl-C.
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    with subprocess.Popen([*module, *SMALL, *options], **pipes, preexec_fn=heed) as run:
        try:
            # The file itself says when rows have been recorded; pytest's timeout bounds the wait.
            while not (path.exists() and path.read_bytes().count(b"\n") > 20):
                assert run.poll() is None, run.communicate()
                time.sleep(0.02)
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=60)
        finally:
            run.kill()
    assert run.returncode == 130, err
    assert b"Traceback" not in err
    trace = Trace.load(path)
    assert trace.header.ended.how == "stopped"
    assert trace.summary().encode() in out
