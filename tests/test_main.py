"""The command line: what it prints, what it refuses, and its exit status.

The commands `claims` and `races` are in test_main_claims.py and test_commands_races.py, Ctrl-C in
test_main_ends.py.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from commands import refused
from schedules import same, small

from asyncsgd_edu import Trace
from asyncsgd_edu import __main__ as command
from asyncsgd_edu.__main__ import main

SMALL = ["train", "--problem", "quadratic", "--updates", "40", "--workers", "3"]


# --- bad input, all of it before TensorFlow is loaded


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "train | show | claims | lab"),
        (("fly",), "fly"),
        (("train", "--workers", "0"), "--workers: must be a whole number from 1 to 256, got '0'"),
        (("train", "--workers", "-1"), "'-1'"),
        (("train", "--workers", "2.5"), "'2.5'"),
        (("train", "--workers", "1000000"), "'1000000'"),
        (("train", "--updates", "0"), "--updates: must be a whole number"),
        (("train", "--learning-rate", "nan"), "--learning-rate: must be a finite number above 0, got 'nan'"),
        (("train", "--learning-rate", "-1"), "'-1'"),
        (("train", "--learning-rate", "inf"), "'inf'"),
        (("train", "--learning-rate", "fast"), "'fast'"),
        (("train", "--problem", "mnist"), "digits-cnn"),
        (("train", "--access", "locked"), "lock_free"),
        (("train", "--trainer", "ring"), "towers"),
        (("train", "--optimizer", "magic"), "adam"),
        (("train", "--durations", "0.01"), "exponential:0.01"),
        (("train", "--durations", "exponential:-1"), "'exponential:-1'"),
        (("train", "--durations", "pareto:1"), "'pareto:1'"),
        (("train", "--seed", "-1"), "--seed: must be a whole number"),
        (("train", "--update", "3"), "--update"),
        (("train", "run.jsonl"), "run.jsonl"),
        (("train", "--trainer", "towers", "--access", "consistent"), "does nothing with --trainer towers"),
        (("train", "--trainer", "towers", "--workers", "4", "--devices", "3"), "must be 4 or left out, got 3"),
        (("train", "--save", "no/such/folder/run.jsonl"), "no folder"),
        (("show", "no-such-file.jsonl"), "no-such-file.jsonl"),
        (("show",), "trace"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], named: str
) -> None:
    assert named in refused(capsys, *arguments)


def test_a_bad_trace_is_named_with_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    small().save(path)
    path.write_text(path.read_text().replace("[1,0,", '["one",0,', 1))
    assert f"{path}: line 3: worker must be a whole number" in refused(capsys, "show", str(path))


def test_a_page_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small().save(tmp_path / "run.jsonl")
    assert str(tmp_path) in refused(capsys, "show", str(tmp_path / "run.jsonl"), "--html", str(tmp_path))


def test_help_and_bad_input_load_no_tensorflow() -> None:
    program = (
        "import sys; from asyncsgd_edu.__main__ import main\n"
        "for a in (['--help'], ['train', '--help'], ['train', '--workers', '0'], ['show', 'nothing']):\n"
        "    try: main(a)\n"
        "    except SystemExit: pass\n"
        "sys.exit('tensorflow' in sys.modules or 'plotly' in sys.modules or 'keras' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--durations" in done.stdout


# --- train


def test_train_prints_what_it_saves(
    eight_devices: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl.gz"
    assert main([*SMALL, "--access", "lock_free", "--seed", "3", "--devices", "2", "--save", str(path)]) == 0
    trace = Trace.load(path)
    assert (trace.updates, trace.header.workers, trace.header.access, trace.header.seed) == (40, 3, "lock_free", 3)
    assert trace.header.ended.how == "finished"
    assert len(set(trace.header.devices)) == 2
    out, err = capsys.readouterr()
    assert out.startswith(trace.summary())
    assert "evaluation: " in out
    assert out.endswith(f"saved in {path}\n")
    assert "40/40" in err


def test_train_towers_with_every_option(
    eight_devices: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    options = ["--trainer", "towers", "--optimizer", "adam", "--learning-rate", "0.01", "--devices", "3"]
    assert main([*SMALL, *options, "--durations", "constant:0.001", "--save", str(path)]) == 0
    trace = Trace.load(path)
    assert (trace.updates, len(trace), trace.staleness.max()) == (40, 120, 0)
    assert trace.header.optimizer["name"] == "Adam"
    assert trace.header.optimizer["learning_rate"] == pytest.approx(0.01)
    assert trace.header.durations == {"law": "Constant", "value": 0.001}


def test_more_devices_than_there_are_is_refused(eight_devices: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "64" in refused(capsys, *SMALL, "--trainer", "towers", "--workers", "64")


def test_a_run_that_diverges_says_so_with_status_1(
    eight_devices: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, "--learning-rate", "1e6", "--updates", "2000"]) == 1
    assert "the loss was not finite at version" in capsys.readouterr().out


# --- show


def test_show_prints_the_summary(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = small(workers=4)
    trace.save(tmp_path / "run.jsonl")
    assert main(["show", str(tmp_path / "run.jsonl")]) == 0
    assert capsys.readouterr().out == trace.summary() + "\n"


def test_show_writes_one_page_that_needs_no_network(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = small(workers=4, updates=100)
    path, page = tmp_path / "a&b<c>.jsonl", tmp_path / "run.html"
    trace.save(path)
    assert main(["show", str(path), "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("Plotly.newPlot(") == 3
    assert text.count("plotly.js v") == 1
    assert 'src="http' not in text
    assert "a&amp;b&lt;c&gt;" in text
    assert "a&b<c>" not in text
    assert f"figures in {page}" in capsys.readouterr().out


def test_show_accepts_a_cut_file_only_as_a_prefix(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    small(updates=20).save(path)
    path.write_text(path.read_text()[:-60])
    assert "prefix" in refused(capsys, "show", str(path))
    assert main(["show", str(path), "--prefix"]) == 0
    out = capsys.readouterr().out
    part = Trace.load(path, prefix=True)
    assert out == part.summary() + "\n"
    assert same(part, Trace.load(path, prefix=True))


# --- lab


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that `lab` would have become."""
    commands: list[list[str]] = []

    def instead(*given: object) -> int:
        commands.append(list(given[-1]))  # type: ignore[call-overload]
        return 0

    monkeypatch.setattr(command.os, "execv", instead)
    monkeypatch.setattr(command.subprocess, "call", instead)
    monkeypatch.setattr(command, "FIRST_NOTEBOOK", Path(__file__))
    return commands


def test_lab_starts_jupyterlab_on_the_notebook(started: list[list[str]]) -> None:
    assert command.main(["lab", "--port=9000", "--ServerApp.token", "x"]) == 0
    assert started[0][1:4] == ["-m", "jupyterlab", __file__]
    assert started[0][-3:] == ["--port=9000", "--ServerApp.token", "x"]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these always have a screen")
@pytest.mark.parametrize(("screen", "opens"), [("", False), (":0", True)])
def test_lab_opens_a_browser_where_there_is_a_screen(
    started: list[list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    screen: str,
    opens: bool,
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", screen)
    assert command.main(["lab"]) == 0
    assert ("--no-browser" not in started[0]) is opens
    assert ("address" not in capsys.readouterr().out) is opens


def test_lab_without_the_notebooks_is_refused(
    started: list[list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "FIRST_NOTEBOOK", Path("nowhere.ipynb"))
    assert "nowhere.ipynb" in refused(capsys, "lab")
    assert started == []
