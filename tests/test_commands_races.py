"""The command `races`: what it prints and writes, what it refuses, and what an interrupt leaves."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import refused
from race_runs import failing, some

from asyncsgd_edu.__main__ import main
from asyncsgd_edu.engines import races as module
from asyncsgd_edu.engines.races import Race

# TensorFlow starts here, and its devices are made before it does.
pytestmark = pytest.mark.usefixtures("eight_devices")

SMALL = ["races", "--row", "assign_sub", "--threads", "2", "--elements", "10", "--updates", "20"]


def test_the_command_prints_and_writes_the_races(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = ["--json", str(tmp_path / "races.json"), "--html", str(tmp_path / "races.html")]
    assert main([*SMALL, *files]) == 0
    out = capsys.readouterr().out
    assert "v.assign_sub(g)" in out
    assert "0 of 80 (at most" in out
    (row,) = json.loads((tmp_path / "races.json").read_text(encoding="utf-8"))["races"]
    assert (row["way"], row["lost"]["trials"], row["updates"]) == ("assign_sub", 80, 80)
    assert "v.assign_sub(g)" in (tmp_path / "races.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["races", "--threads", "0"], "--threads: must be a whole number from 1 to 64, got '0'"),
        (["races", "--elements", "1"], "--elements: must be a whole number from 2"),
        (["races", "--updates", "none"], "--updates: must be a whole number"),
        (["races", "--seconds", "-1"], "seconds must be a finite number above 0, got -1.0"),
        (["races", "--row", "magic"], "row must be one of 'critical_section'"),
        (["races", "--json", "no/such/folder/races.json"], "its folder is missing"),
        (["races", "--html", "."], "it is a folder"),
        (["races", "--row", "ticket_count_up_to", "--elements", "9"], "elements does nothing"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in refused(capsys, *arguments)


def test_a_thread_that_fails_is_one_line_and_status_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, ZeroDivisionError("on purpose"))
    assert main(["races", "--row", "failing", "--elements", "2", "--threads", "1"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "failing, 1 threads, 2 elements: thread 0 failed: ZeroDivisionError: on purpose" in err


@pytest.mark.parametrize("done", [0, 1])
def test_an_interrupt_keeps_the_races_that_were_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    def interrupted(*arguments: Any) -> list[Race]:
        for _ in range(done):
            arguments[-1](some("kept"))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "races", interrupted)
    assert main(SMALL) == 130
    out, err = capsys.readouterr()
    assert ("title of kept" in out) is bool(done)
    assert ("interrupted before anything was done" in err) is not bool(done)
