"""What the dashboard says: each number in its place, nothing of a user's taken for HTML."""

import re
from dataclasses import replace

import pytest

from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view import wording
from asyncsgd_edu.view.configuration import Configuration
from asyncsgd_edu.view.live_figure import Finished
from asyncsgd_edu.view.reports import Report, Run
from asyncsgd_edu.view.series import Curve

VIRTUAL = Configuration(mode="simulated", threads=100, duration_law="exponential", policy="k-sync", constant=10)
RUN = Run(3, 1, VIRTUAL, "stopped", 200, 0.3, 0.0, 0.125, 0.75, Finished(3, "run 3", Curve(), 32))
GOING = Report("running", 5, 0, 60, staleness="s<1", loss="loss 2", pace="3 ms per update", conditions="a & b")


def row(run: Run) -> list[str]:
    """The cells of a run's numbers."""
    return re.findall(r"<td [^>]*>([^<]*)</td>", wording.table([run]))[1:]


def test_the_numbers_stand_beside_what_was_predicted() -> None:
    law = VIRTUAL.prediction.seconds.value
    assert law is not None
    assert row(RUN) == ["stopped", "200", "0.30", "0.00", "0", "1.5", f"{1000 * law:.3g}", "0.125", "0.750"]


def test_a_bound_is_marked_and_no_law_leaves_a_dash() -> None:
    bound = replace(RUN, configuration=replace(VIRTUAL, policy="stale-synchronous"))
    assert row(bound)[4] == "≤ 2079"
    assert row(bound)[6] == "-"
    assert row(replace(RUN, configuration=Configuration(), accuracy=None))[4:7] == ["3", "1.5", "-"]


def test_a_run_without_updates_has_no_pace() -> None:
    empty = replace(RUN, updates=0, seconds=0.0, mean_staleness=float("nan"), loss=float("inf"))
    assert row(empty)[1:6] == ["0", "0.00", "-", "0", "-"]
    assert row(empty)[7] == "infinite"


def test_a_run_says_what_it_was_and_what_it_went_on_from() -> None:
    table = wording.table([RUN, replace(RUN, number=4, after=None)])
    what = "simulated · 100 workers · k-sync (k 10) · digits-cnn · learning rate 0.05 · durations exponential, 10 ms"
    assert f"{what} · after run 1</td>" in table
    assert f"{what}</td>" in table
    assert wording.table([replace(RUN, number=n) for n in range(1, 30)]).count('scope="rowgroup"') == wording.SHOWN_RUNS


def test_a_run_names_access_and_remedy_that_are_not_the_usual() -> None:
    made = Configuration(access="lock_free", remedy="drop-above", drop_bound=3)
    table = wording.table([replace(RUN, configuration=made, after=None)])
    assert "asynchronous · lock_free access · drop-above (bound 3) · digits-cnn · learning rate" in table
    assert row(replace(RUN, configuration=made))[4:7] == ["-", "1.5", "-"]


def test_a_written_run_has_no_time_per_update() -> None:
    made = replace(RUN, configuration=Configuration(mode="written", schedule="0r 1r 1a 0a"), after=None)
    what = "written · 2 workers · digits-cnn · learning rate 0.05 · one event a virtual second</td>"
    assert what in wording.table([made])
    assert row(made)[3:7] == ["0.00", "0.5", "-", "-"]


def test_long_times_stay_short() -> None:
    assert row(replace(RUN, seconds=396.0))[5] == "1980"


def test_what_was_written_down_is_said() -> None:
    trace = Trace.from_schedule("0r 1r 1a 0a")
    assert "the first 1 of 2 gradients of the last run; press Run" in wording.noted(trace, 1)
    racy = Trace(replace(trace.header, access="lock_free"), trace.columns)
    assert "; what was torn or lost is not in the text; press Run" in wording.noted(racy, 2)


def test_every_row_of_the_table_is_as_wide_as_its_head() -> None:
    head, body = wording.table([RUN]).split("<tbody>")
    first, second = head.split("<tr>")[1:]
    across = [int(width) for width in re.findall(r'colspan="(\d+)"', first)]
    assert sum(across) - 1 == second.count("<th ") == len(row(RUN))  # The number of the run stands beside both rows.
    assert int(re.search(r'colspan="(\d+)"', body)[1]) == len(row(RUN))  # type: ignore[index]


@pytest.mark.parametrize(
    "report",
    [GOING, replace(GOING, state="replaying"), replace(GOING, state="replay paused"), replace(GOING, state="failed")],
)
def test_the_status_of_a_run_has_always_three_lines(report: Report) -> None:
    said = wording.status(report)
    assert said.count("<br>") == 2
    assert f"<b>{report.state}</b>" in said
    assert "a &amp; b" in said


def test_what_is_said_is_not_taken_for_html() -> None:
    assert "s&lt;1" in wording.status(GOING)
    assert "Error: &lt;no&gt;" in wording.status(replace(GOING, state="failed", problem="<no>"))
    assert "Error: &lt;no&gt;" in wording.status(Report("failed", problem="<no>"))
    assert "cannot be run: &lt;no&gt;" in wording.predicted("<no>")
