"""Races: what surely loses nothing, what is surely counted, and how it is laid out.

No race's outcome is asserted but those that no order of events can change. Where chance
decides what is counted, the reads are scripted.
"""

import json
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsgd_edu.__main__ import main
from asyncsgd_edu.engines import races as module
from asyncsgd_edu.engines.race_table import chance, page, plain, text
from asyncsgd_edu.engines.race_ways import Built, Way, probes
from asyncsgd_edu.engines.races import DAMAGE, ROUND, WAYS, Race, RaceError, ladder, races
from asyncsgd_edu.rules.intervals import Count

# TensorFlow starts here, and its devices are made before it does.
pytestmark = pytest.mark.usefixtures("eight_devices")

TIME = 100.0  # Seconds, more than any of these takes: what ends a race is its number of updates.
NOTHING_LOST = [
    "critical_section", "assign_sub", "assign_add", "gradient_descent", "gradient_descent_locked",
    "sparse_descent_locked", "sparse_adagrad_locked", "ref_assign_add_locked", "ref_descent_locked",
    "ref_scatter_sub_locked", "keras_sgd",
]  # fmt: skip
# A reference variable's reader takes no lock, so only its losses are sure.
NOTHING_TORN = [name for name in NOTHING_LOST if not name.startswith("ref")]


def race(row: str, threads: int = 4, elements: int | None = None, updates: int = 250) -> Race:
    """One race, to the end of its updates."""
    sizes = None if elements is None else [elements]
    (found,) = races([row], [threads], sizes, updates, TIME)
    return found


# --- laws that hold whatever the threads do


@pytest.mark.parametrize("row", NOTHING_LOST)
def test_what_is_guarded_loses_nothing(row: str) -> None:
    found = race(row, elements=1000)
    assert (found.steps, found.updates, found.threads, found.elements) == (1000, 2000, 4, 1000)
    assert (found.lost, found.parts, found.worst) == (Count(0, 2000), Count(0, 2_000_000), 0)
    assert found.updates_per_second > 0
    if row in NOTHING_TORN:
        assert found.torn == Count(0, 2000)


def test_a_critical_section_mixes_no_versions() -> None:
    assert race("critical_section", elements=5000).mixed == Count(0, 1000)


def test_count_up_to_gives_each_ticket_once() -> None:
    found = race("ticket_count_up_to", threads=8)
    assert (found.duplicates, found.lost, found.updates) == (Count(0, 2000), Count(0, 2000), 2000)


def test_a_ticket_by_assign_add_may_be_drawn_twice_but_no_count_is_lost() -> None:
    found = race("ticket_assign_add", threads=8)
    assert found.lost == Count(0, 2000)
    assert found.duplicates is not None
    assert found.duplicates.trials == 2000


@pytest.mark.parametrize("row", WAYS)
def test_one_thread_loses_nothing_so_each_step_adds_exactly_one(row: str) -> None:
    size = 100 if WAYS[row].kind == "ladder" else None
    found = race(row, threads=1, elements=size, updates=30)
    assert (found.steps, found.parts.count, found.worst, found.damage) == (30, 0, 0, "none seen")
    assert (found.torn is None, found.mixed is None) == (size is None, size is None)
    assert (found.duplicates is None) == (WAYS[row].kind != "ticket")


@pytest.mark.parametrize("row", WAYS)
def test_totals_add_up_with_many_threads(row: str) -> None:
    size = 64 if WAYS[row].kind == "ladder" else None
    found = race(row, threads=5, elements=size, updates=40)
    assert (found.way, found.steps, found.updates) == (row, 200, 200 if size is None else 400)
    assert (found.lost.trials, found.parts.trials) == (found.updates, found.updates * found.elements)
    assert found.lost.count * found.elements <= found.parts.count
    assert found.worst <= found.steps
    if found.torn is not None and found.mixed is not None:
        assert found.mixed.trials >= 200 - found.torn.count


def test_read_compute_write_loses_updates() -> None:
    # About 4 in 10 of 4,000 updates are lost in one attempt on two cores. To lose none, no two threads may
    # ever overlap between a read and a write of 200,000 elements; even should that happen by chance, not ten times.
    assert any(race("assign", elements=200_000, updates=500).lost.count for _ in range(10))


def test_more_updates_than_a_round_has_are_all_counted() -> None:
    found = race("keras_momentum", threads=1, elements=10, updates=2 * ROUND + 1)
    assert (found.steps, found.parts.count) == (2 * ROUND + 1, 0)


def test_without_time_each_thread_does_one_step() -> None:
    (found,) = races(["assign_sub"], [3], [10], seconds=1e-9)
    assert (found.steps, found.lost) == (3, Count(0, 6))


def test_each_row_is_raced_at_each_number_of_threads_and_elements() -> None:
    watched: list[Race] = []
    found = races(["assign_sub", "ticket_count_up_to"], [1, 2], [2, 3], 5, TIME, watched.append)
    cells = [(r.way, r.threads, r.elements) for r in found]
    assert cells == [
        (way, threads, elements)
        for threads in (1, 2)
        for way, elements in (("assign_sub", 2), ("assign_sub", 3), ("ticket_count_up_to", 1))
    ]
    assert watched == found
    with pytest.raises(FrozenInstanceError):
        found[0].worst = 3  # type: ignore[misc]


# --- how reads are judged


def scripted(monkeypatch: pytest.MonkeyPatch, seen: Sequence[Any], values: Sequence[Any], kind: str = "ladder") -> Race:
    """The race of one thread whose steps see `seen`, after which the variables hold `values`."""
    steps = iter([seen[0], *seen])  # One step warms up.
    built = Built(lambda: next(steps), lambda: [np.array(v) for v in values], lambda: None)
    monkeypatch.setitem(WAYS, "scripted", Way("scripted", "a script", lambda _: built, kind))
    elements = len(values[0]) if kind == "ladder" else None
    return race("scripted", threads=1, elements=elements, updates=len(seen))


def test_a_read_of_two_versions_is_torn_and_not_mixed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [[[0, 0, 0], [0, 0, 0]], [[1, 0, 0], [1, 1, 1]], [[2, 2, 2], [2, 3, 3]], [[3, 3, 3], [2, 2, 2]]]
    found = scripted(monkeypatch, seen, [[4, 4, 4], [4, 4, 4]])
    assert (found.torn, found.mixed) == (Count(2, 8), Count(1, 2))
    assert (found.lost, found.damage) == (Count(0, 8), "torn reads")


def test_an_element_that_lost_an_update_does_not_make_later_reads_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [[[0, 0, 0], [0, 0, 0]], [[0, 1, 1], [1, 1, 1]], [[1, 2, 2], [2, 2, 2]], [[2, 3, 2], [3, 3, 3]]]
    found = scripted(monkeypatch, seen, [[3, 4, 4], [4, 4, 4]])
    assert (found.torn, found.mixed) == (Count(1, 8), Count(0, 3))
    assert (found.lost, found.parts, found.worst) == (Count(0, 8), Count(1, 24), 1)
    assert found.damage == "lost elements"


def test_after_a_lost_update_nothing_is_mixed_for_nothing_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scripted(monkeypatch, [[[0, 0], [0, 0]], [[0, 0], [1, 1]], [[1, 1], [2, 2]]], [[2, 2], [3, 3]])
    assert (found.lost, found.parts, found.worst) == (Count(1, 6), Count(2, 12), 1)
    assert (found.torn, found.mixed, found.damage) == (Count(0, 6), None, "lost updates")


def test_where_too_few_elements_are_intact_no_tear_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scripted(monkeypatch, [[[0, 0], [0, 0]], [[0, 1], [1, 1]]], [[1, 2], [2, 2]])
    assert found.torn == Count(0, 2)  # The reads of the second variable only.


def test_a_ticket_that_comes_again_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scripted(monkeypatch, [1, 2, 2, 2, 5, 5], [6], kind="ticket")
    assert (found.duplicates, found.lost, found.damage) == (Count(3, 6), Count(0, 6), "duplicate tickets")


@pytest.mark.parametrize("elements", [1, 2, 64, 65, 200_000])
def test_the_first_and_the_last_element_are_looked_at(elements: int) -> None:
    at = probes(elements)
    assert (at[0], at[-1], len(at)) == (0, elements - 1, min(elements, 64))


# --- what goes wrong


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make a row whose second step fails."""

    def build(_: int) -> Built:
        calls = iter([np.zeros([2, 2], np.float32)])

        def step() -> Any:
            for seen in calls:
                return seen
            raise error

        return Built(step, lambda: [np.zeros(2), np.zeros(2)], lambda: None)

    monkeypatch.setitem(WAYS, "failing", Way("failing", "fails", build))


def test_a_thread_that_fails_fails_the_race_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ZeroDivisionError("on purpose"))
    said = "failing, 1 threads, 2 elements: thread 0 failed: ZeroDivisionError: on purpose"
    with pytest.raises(RaceError, match=said) as caught:
        race("failing", threads=1, elements=2)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"rows": ["magic"]}, "row must be one of 'critical_section'"),
        ({"rows": ["assign"], "threads": [0]}, "threads must be a whole number from 1 to 64, got 0"),
        ({"rows": ["assign"], "elements": [1]}, "elements must be a whole number from 2"),
        ({"rows": ["assign"], "updates": 0}, "updates must be a whole number from 1"),
        ({"rows": ["assign"], "seconds": 0}, "seconds must be a finite number above 0"),
        ({"rows": ["assign"], "seconds": math.inf}, "seconds must be a finite number above 0"),
        ({"rows": ["ticket_count_up_to"], "elements": [5]}, "elements does nothing for ticket_count_up_to"),
    ],
)
def test_what_cannot_be_raced_is_told(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        races(**arguments)


# --- the ladder


def some(way: str = "a", *, speed: float = 1.0, damage: str = "none seen", **more: Any) -> Race:
    """A race with a damage and a speed."""
    counts = {name: Count(int(damage == word), 1000) for name, word in zip(
        ("mixed", "torn", "parts", "lost"), DAMAGE[1:5], strict=True)}  # fmt: skip
    facts = {"way": way, "title": f"title of {way}", "threads": 4, "elements": 500, "steps": 500, "updates": 1000}
    return Race(**{**facts, "seconds": 1000 / speed, "worst": 0, **counts, **more})


def test_the_ladder_goes_from_the_safest_to_the_fastest() -> None:
    given = [(damage, speed) for damage in reversed(DAMAGE[:5]) for speed in (25.0, 10.0, 20.0)]
    sorted_ = ladder([some(damage=damage, speed=speed) for damage, speed in given])
    assert [(r.damage, r.updates_per_second) for r in sorted_] == [
        (damage, speed) for damage in DAMAGE[:5] for speed in (10.0, 20.0, 25.0)
    ]


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (Count(0, 40_000), "0 of 40,000 (at most 0.0092 %)"),
        (Count(40_000, 40_000), "40,000 of 40,000 (at least 99.991 %)"),
        (Count(10, 10), "10 of 10 (at least 69 %)"),
        (None, "-"),
    ],
)
def test_a_count_is_said_with_its_trials_and_what_they_leave_open(count: Count | None, said: str) -> None:
    assert chance(count) == said


@pytest.mark.parametrize("layout", [text, page])
def test_every_race_is_laid_out_with_its_counts(layout: Callable[[list[Race]], str]) -> None:
    shown = [
        some("slow", speed=5),
        some("other", threads=7, damage="torn reads"),
        some("ticket", elements=1, torn=None, mixed=None, duplicates=Count(3, 1500)),
    ]
    laid_out = layout(shown)
    for race_ in shown:
        assert race_.title in laid_out
    assert laid_out.count("0 of 1,000 (at most 0.37 %)") == 6  # Of both variables, and of the ticket
    assert "3 of 1,500 (0.041 to 0.58 %)" in laid_out
    assert "4 threads, 500 elements a variable" in laid_out
    assert "7 threads, 500 elements a variable" in laid_out
    assert "4 threads, one number" in laid_out
    assert "never" not in laid_out.replace("None seen is not never", "")


def test_a_page_needs_no_network_and_escapes_what_it_shows() -> None:
    shown = page([replace(some(), title="<a & b>")])
    assert "&lt;a &amp; b&gt;" in shown
    assert "http" not in shown


def test_plain_values_are_json_with_every_interval() -> None:
    shown = some(damage="torn reads", mixed=None)
    values = json.loads(json.dumps(plain([shown])))
    (row,) = values["races"]
    assert row["torn"] == {"count": 1, "trials": 1000, "interval": list(Count(1, 1000).interval)}
    assert (row["mixed"], row["damage"], row["updates_per_second"]) == (None, "torn reads", 1.0)
    assert set(values["packages"]) >= {"tensorflow", "keras"}


# --- the command


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
    try:
        status: object = main(arguments)
    except SystemExit as leaving:
        status = leaving.code
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


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


def test_an_interrupt_stops_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[int] = []
    interrupted = threading.Event()

    def step() -> None:
        reached.append(1)
        if len(reached) > 1:  # The first one warms up.
            interrupted.wait(60)

    def join(*_: Any) -> None:
        raise KeyboardInterrupt

    endless = Way("endless", "counts", lambda _: Built(step, lambda: [np.zeros(1)], lambda: None), "counter")
    monkeypatch.setitem(WAYS, "endless", endless)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", join)
        with pytest.raises(KeyboardInterrupt):
            race("endless", threads=2, updates=10**6)
    interrupted.set()
    for thread in threading.enumerate():
        if thread.name.startswith("asyncsgd-race"):
            thread.join(60)
            assert not thread.is_alive()
    assert len(reached) == 3  # Each thread's present step was its last.
