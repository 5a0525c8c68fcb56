"""The benchmarks run, take turns, and say the same as a table and as JSON. How fast anything is, is not tested."""

import ast
import json
import math
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "turns")
# Each at its smallest size. Those that start interpreters or a kernel of their own are slow.
QUICK = {
    "recipe": "--threads 1 --updates 20 --repeats 1",
    "simulator": "--workers 4 --gradients 400 --no-growth --repeats 1",
    "stamps": "--elements 3 --threads 2 --updates 20 --repeats 1",
    "steps": "--problem quadratic --threads 2 --updates 21 --repeats 1",
    "towers": "--models linear --devices 1 2 --batch 8 --updates 3 --repeats 1",
    "trace_file": "--rows 300 --repeats 1",
}
SLOW = {
    "growth": "--updates 300 --rows 3000 --repeats 1",
    "live_view": "--workers 2 --updates 20 --repeats 1",
    "starting": "--repeats 1",
}
NOT_RUN = {"latency"}  # It needs a browser.


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What all benchmarks share, as they import it."""
    monkeypatch.syspath_prepend(FOLDER)
    import turns

    return turns


@pytest.fixture
def run(turns: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a benchmark as a script, in this process, where TensorFlow is loaded once; returns what it prints."""

    def call(name: str, arguments: str) -> str:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments.split()])
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return call


def check(said: str) -> None:
    """Tables with rows, and in each benchmark ratios that are numbers above 0."""
    made = json.loads(said)
    assert set(made) == {"tables", "bars", "machine"}
    assert set(made["bars"]) <= set(made["tables"])
    rows = [row for table in made["tables"].values() for row in table]
    assert all(made["tables"].values())
    ratios = [value for row in rows for name, value in row.items() if " / " in name]
    assert ratios
    assert all(math.isfinite(value) and value > 0 for value in ratios), rows


# --- each benchmark


def test_every_benchmark_is_tested() -> None:
    assert {*QUICK, *SLOW, *NOT_RUN} == set(BENCHMARKS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_says_what_it_holds_equal_and_how_it_is_run(name: str) -> None:
    words = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")))
    assert words is not None
    assert f"python benchmarks/{name}.py" in words
    assert "--repeats" in words
    assert "--json" in words
    assert re.search(r"\b[Bb]ars?\b", words) or name == "recipe"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_explains_itself(name: str, eight_devices: list[str], run: Any, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        run(name, "--help")
    assert ended.value.code == 0
    said = capsys.readouterr().out
    words = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")))
    assert words is not None
    assert words.splitlines()[0] in said
    assert "  --json" in said
    assert "  --repeats" in said


@pytest.mark.parametrize("name", QUICK)
def test_a_benchmark_runs_at_its_smallest(name: str, eight_devices: list[str], run: Any) -> None:
    if name == "simulator":
        pytest.importorskip("simpy", reason="NOT TESTED: the benchmark beside SimPy, which is not installed")
    check(run(name, f"{QUICK[name]} --json"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_benchmark_with_processes_of_its_own_runs_at_its_smallest(
    name: str, eight_devices: list[str], run: Any
) -> None:
    check(run(name, f"{SLOW[name]} --json"))


def test_a_benchmark_is_one_command() -> None:
    command = [sys.executable, str(FOLDER / "trace_file.py"), *QUICK["trace_file"].split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "trace / bare" in done.stdout


@pytest.mark.parametrize("wrong", ["0", "-1", "many"])
def test_a_size_that_is_none_is_refused(wrong: str, run: Any, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        run("trace_file", f"--rows {wrong}")
    assert f"must be a whole number of at least 1, got '{wrong}'" in capsys.readouterr().err


# --- the towers' comparison is void if the work differs


def test_towers_are_not_compared_with_other_work(eight_devices: list[str], turns: Any) -> None:
    from asyncsgd_edu import Digits, TowerTrainer

    towers = runpy.run_path(str(FOLDER / "towers.py"))
    problem, places = Digits("linear", 4), eight_devices[:2]
    assert towers["check_same"](TowerTrainer(problem, 2, places), towers["Mirrored"](problem, places)) <= 1e-5
    # Half of the samples.
    other = towers["Mirrored"](Digits("linear", 2), places)
    with pytest.raises(SystemExit, match="not the same work"):
        towers["check_same"](TowerTrainer(problem, 2, places), other)


def test_samples_that_do_not_divide_among_the_devices_are_refused(run: Any, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        run("towers", "--batch 9 --devices 1 2")
    assert "--batch must divide by every number of devices, got 9 for [1, 2]" in capsys.readouterr().err


# --- what they share


def test_sides_take_turns_and_each_turn_begins_with_another(turns: Any) -> None:
    order: list[str] = []
    sides = {name: lambda n=name: float(order.append(n) or len(order)) for name in "abc"}
    found = turns.take_turns(sides, repeats=3, warm_up=1)
    assert "".join(order) == "cab" + "abc" + "bca" + "cab"
    # What was measured in the warm-up is not among it.
    assert found == {"a": [4, 9, 11], "b": [5, 7, 12], "c": [6, 8, 10]}


def test_a_ratio_is_the_median_of_ratios_within_turns(turns: Any) -> None:
    # Ratios of 2, 10 and 3; the medians are 9 and 2, and their ratio 4.5 is that of no turn.
    found = {"one": [2.0, 20.0, 9.0], "other": [1.0, 2.0, 3.0]}
    assert turns.ratio(found, "one", "other") == 3
    assert turns.medians(found) == {"one": 9, "other": 2}


def test_a_table_and_its_json_have_the_same_names(turns: Any, capsys: Any) -> None:
    rows = [{"what": "short", "rows": 12345, "a / b": 0.0123}, {"what": "a longer one", "rows": 1, "a / b": 1.5}]
    table = turns.Table("two rows", rows, "at most 2")
    turns.show([table], as_json=False)
    title, head, first, second, bar = capsys.readouterr().out.splitlines()[:5]
    assert (title, bar) == ("two rows", "Bar: at most 2.")
    assert head.split("  ")[0] == "what"
    assert first.split() == ["short", "12,345", "0.0123"]
    assert second.split() == ["a", "longer", "one", "1", "1.50"]
    turns.show([table], as_json=True)
    made = json.loads(capsys.readouterr().out)
    assert made["tables"] == {"two rows": rows}
    assert all(name in head for row in made["tables"]["two rows"] for name in row)
    assert made["bars"] == {"two rows": "at most 2"}
    assert made["machine"]["python"]


def test_a_figure_that_is_no_number_is_not_given_as_json(turns: Any) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        turns.show([turns.Table("bad", [{"a / b": math.nan}])], as_json=True)


def test_a_fresh_interpreter_that_fails_says_why(turns: Any) -> None:
    assert turns.ask_fresh("import sys; print('noise'); print(len(sys.argv))", "a", 2) == 3
    with pytest.raises(RuntimeError, match="ended with 1:(.|\n)*ZeroDivisionError"):
        turns.ask_fresh("1 / 0")
