"""Each figure is looked at as data: `figure.data` and `figure.layout`, no browser."""

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
from test_series import make_trace, with_columns

from asyncsgd_edu.rules.laws import geometric_staleness
from asyncsgd_edu.trace import COLUMNS, Ended, Header, Trace
from asyncsgd_edu.view import figures

EMPTY = Trace(Header("AsyncTrainer", 3), {name: [] for name in COLUMNS})
INJECTED = {"law": "Exponential", "scale": 0.01}


def named(figure: go.Figure, name: str) -> object:
    """The one plotly trace of that name."""
    (found,) = [trace for trace in figure.data if trace.name == name]
    return found


def said(figure: go.Figure) -> str:
    """All words of a figure outside its legend."""
    return " ".join([figure.layout.title.text or "", *(note.text for note in figure.layout.annotations)])


def test_timeline_draws_read_ready_and_apply_of_each_gradient() -> None:
    trace = make_trace(100)
    figure = figures.timeline(trace, last=20)
    compute, waiting, apply = named(figure, "compute"), named(figure, "waiting"), named(figure, "apply")
    assert np.allclose(compute.base, trace.read_time[-20:])
    assert np.allclose(compute.base + compute.x, trace.ready_time[-20:])
    assert np.allclose(waiting.base + waiting.x, trace.apply_time[-20:])
    assert compute.y.tolist() == trace.worker[-20:].tolist()
    assert np.allclose(apply.x, trace.apply_time[-20:])
    assert figure.layout.xaxis.title.text == "seconds"


def test_timeline_arrows_end_at_the_read() -> None:
    trace = make_trace(100)
    arrow = named(figures.timeline(trace, last=20), "version read")
    assert np.allclose(arrow.x[0::3], trace.apply_time[trace.read_version[-20:] - 1])
    assert np.allclose(arrow.x[1::3], trace.read_time[-20:])
    assert np.isnan(arrow.x[2::3]).all()
    assert arrow.marker.symbol == "arrow"
    assert arrow.marker.size[:3].tolist() == [0, 7, 0]


def bows(figure: go.Figure) -> list[tuple[float, float]]:
    """Where each arrow from version to version begins and ends, in seconds."""
    arrow = named(figure, "from version read<br>to version written")
    places = np.flatnonzero(np.isnan(arrow.x))
    assert arrow.marker.symbol == "arrow"
    assert all(arrow.marker.size[k - 1] > 0 for k in places)  # The head is at the end.
    return [(arrow.x[low], arrow.x[high - 1]) for low, high in zip([0, *(places[:-1] + 1)], places, strict=True)]


def test_timeline_has_an_arrow_from_the_version_read_to_the_version_written() -> None:
    trace = make_trace(100)
    written = np.concatenate([[0.0], trace.apply_time])
    pairs = [(written[r], written[a + 1]) for r, a in zip(trace.read_version, trace.apply_version, strict=True)]
    figure = figures.timeline(trace, last=20)
    assert sorted(bows(figure)) == sorted(pairs[-20:])
    assert sorted(bows(figures.timeline(trace, last=100))) == sorted(pairs)
    marks = named(figure, "version")
    shown = range(100 - 20 - 3, 101)
    assert marks.hovertext == tuple(f"version {version}" for version in shown)
    assert np.allclose(marks.x, written[list(shown)])
    assert {"version", "0", "3"} <= set(figure.layout.yaxis.ticktext)
    top = figure.layout.yaxis.range[1]
    assert top < np.nanmin(named(figure, "from version read<br>to version written").y)
    assert max(marks.y) < -0.5


def test_timeline_draws_few_arrows_and_says_how_many() -> None:
    figure = figures.timeline(make_trace(500), last=300)
    assert len(bows(figure)) == 100
    assert "arrows from version to version: those of the last 100" in said(figure)
    assert "arrows" not in said(figures.timeline(make_trace(500), last=100))


def test_timeline_numbers_versions_that_do_not_stand_on_each_other() -> None:
    marks = named(figures.timeline(make_trace(500), last=200), "version")
    numbered = np.array([bool(text) for text in marks.text])
    assert 5 < numbered.sum() < 30 < len(marks.x)
    assert np.diff(np.array(marks.x)[numbered]).min() > 0.03 * np.ptp(marks.x)


def test_gradients_of_one_update_share_an_arrow() -> None:
    four = make_trace(40)
    averaged = with_columns(four, apply_version=np.arange(40) // 4, read_version=np.arange(40) // 4)
    assert len(bows(figures.timeline(averaged, last=40))) == 10


def test_a_trace_that_begins_later_has_arrows_from_the_versions_that_it_knows() -> None:
    trace = make_trace(100)
    figure = figures.timeline(trace[50:], last=50)
    assert len(bows(figure)) == 50 - 4  # The first four read versions of before.
    assert min(start for start, _ in bows(figure)) == trace.apply_time[50]


def test_timeline_marks_torn_reads() -> None:
    trace = make_trace(50)
    spread = np.zeros(50, np.int32)
    spread[[3, 40, 45]] = 9, 2, 5
    torn = with_columns(trace, read_spread=spread)
    figure = figures.timeline(torn, last=20)
    marks = named(figure, "torn read")
    assert marks.x.tolist() == trace.read_time[[40, 45]].tolist()
    assert marks.y.tolist() == trace.worker[[40, 45]].tolist()
    assert marks.text[1] == (
        f"worker {trace.worker[45]}: torn read of version {trace.read_version[45]}: variables up to 5 versions apart"
    )
    assert "torn reads: 2, of variables up to 5 versions apart" in said(figure)
    assert "torn" not in said(figures.timeline(trace))
    assert not [layer for layer in figures.timeline(trace).data if layer.name == "torn read"]


def test_timeline_marks_dropped_gradients_differently() -> None:
    version = np.array([0, 1, -1, 2])
    figure = figures.timeline(with_columns(make_trace(4), apply_version=version, read_version=np.zeros(4)))
    dropped, apply = named(figure, "dropped"), named(figure, "apply")
    assert len(dropped.x) == 1
    assert len(apply.x) == 3
    assert dropped.marker.symbol != apply.marker.symbol
    assert dropped.marker.color != apply.marker.color


@pytest.mark.parametrize("last", [0, -1, 2.5, "4"])
def test_timeline_refuses_a_bad_last(last: object) -> None:
    with pytest.raises((ValueError, TypeError), match="last must be a whole number from 1 to 10000, got"):
        figures.timeline(make_trace(10), last=last)  # type: ignore[arg-type]


def test_histogram_draws_the_measured_shares_the_law_and_the_mark() -> None:
    trace = make_trace(500, workers=8)
    figure = figures.staleness_histogram(trace)
    measured = named(figure, "measured")
    assert np.allclose(measured.y, np.bincount(trace.staleness) / 500)
    law = named(figure, "geometric law, memoryless")
    assert np.allclose(law.y, geometric_staleness(8, len(law.y) - 1))
    assert law.mode == "lines+markers"
    mark = named(figure, "N - 1")
    assert list(mark.x) == [7, 7]
    assert "N - 1 = 7" in mark.text[1]
    assert f"mean staleness {trace.mean_staleness:.2f} (N - 1 = 7)" in said(figure)


def test_histogram_of_towers_has_no_law_and_says_every_staleness_is_0() -> None:
    figure = figures.staleness_histogram(make_trace(40, policy="synchronous"))
    assert [trace.name for trace in figure.data] == ["measured"]
    assert "every staleness is 0" in said(figure)
    assert "N - 1" not in said(figure)


@pytest.mark.parametrize(
    "draw", [figures.timeline, figures.staleness_histogram, figures.convergence, figures.worker_table]
)
def test_what_was_injected_or_virtual_is_said_in_every_figure(draw: object) -> None:
    special = said(draw(make_trace(20, durations=INJECTED)))  # type: ignore[operator]
    assert "Exponential durations injected (scale 0.01; seconds)" in special
    virtual = said(draw(make_trace(20, durations=INJECTED, clock="virtual")))  # type: ignore[operator]
    assert "Exponential durations (scale 0.01; seconds) · virtual time" in virtual
    assert "injected" not in virtual
    plain = said(draw(make_trace(20)))  # type: ignore[operator]
    assert "injected" not in plain
    assert "virtual" not in plain


def test_what_was_injected_into_one_run_is_said_of_that_one_only() -> None:
    slowed, plain = make_trace(20, durations=INJECTED), make_trace(20)
    both = said(figures.convergence(slowed, plain, labels=["slowed", "plain"]))
    assert "slowed: Exponential durations injected (scale 0.01; seconds)" in both
    assert "plain: nothing injected" in both
    assert said(figures.convergence(slowed, slowed)).count("Exponential") == 1


@pytest.mark.parametrize("draw", [figures.timeline, figures.staleness_histogram, figures.convergence])
def test_an_empty_trace_gives_a_sentence(draw: object) -> None:
    assert "no updates yet" in said(draw(EMPTY))  # type: ignore[operator]
    assert "no updates yet" not in said(draw(make_trace(20)))  # type: ignore[operator]


def test_a_table_of_an_empty_trace_has_a_row_for_each_worker() -> None:
    (table,) = figures.worker_table(EMPTY).data
    assert list(table.cells["values"][1]) == ["0", "0", "0"]


def test_worker_table_adds_up() -> None:
    trace = make_trace(10, workers=4)
    (table,) = figures.worker_table(trace).data
    cells = dict(zip(table.header["values"], table.cells["values"], strict=True))
    assert list(cells["gradients"]) == ["3", "3", "2", "2"]
    assert cells["computing, s"][0] == "0.05"
    assert cells["waiting, s"][0] == "0.05"
    stale = trace.staleness[trace.worker == 0].mean()
    assert cells["mean staleness"][0] == f"{stale:.4g}"


@pytest.mark.parametrize(("by", "last"), [("updates", 300), ("samples", 300 * 32), ("seconds", 7.56)])
def test_convergence_by_each_axis(by: str, last: float) -> None:
    figure = figures.convergence(make_trace(300), by=by)
    assert figure.data[0].x[-1] == pytest.approx(last)
    assert by in figure.layout.xaxis.title.text
    assert "mean of 50 updates" in figure.data[0].name


def test_convergence_of_several_runs_differs_in_colour_dash_and_marker() -> None:
    figure = figures.convergence(make_trace(50), make_trace(50, workers=2), labels=["four", "two"])
    one, two = figure.data
    assert one.name.startswith("four")
    assert two.name.startswith("two")
    assert one.line.color != two.line.color
    assert one.line.dash != two.line.dash
    assert one.marker.symbol != two.marker.symbol


def test_convergence_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(ValueError, match="by must be one of 'updates', 'samples', 'seconds', got 'epochs'"):
        figures.convergence(make_trace(5), by="epochs")
    with pytest.raises(ValueError, match="labels must be one for each of the 1 traces"):
        figures.convergence(make_trace(5), labels=["a", "b"])
    with pytest.raises(TypeError, match="drawn from a Trace"):
        figures.convergence("run.jsonl")  # type: ignore[arg-type]


def test_a_long_run_is_thinned_and_keeps_its_spike() -> None:
    trace = make_trace(30_000)
    loss = trace.loss.copy()
    loss[12_345] = 1e6
    line = figures.convergence(with_columns(trace, loss=loss)).data[0]
    assert len(line.x) <= 2000
    assert line.y.max() > 1e6 / 50


def test_a_diverged_run_is_marked_and_does_not_break_the_axis() -> None:
    trace = make_trace(1000, ended=Ended("diverged", version=990))
    loss = np.geomspace(1, 1e38, 1000).astype(np.float32)
    loss[990:] = np.inf
    figure = figures.convergence(with_columns(trace, loss=loss))
    line, end = figure.data
    assert np.isfinite(line.y).all()
    assert figure.layout.yaxis.type == "log"
    assert "not finite at version 990" in end.name
    assert end.marker.symbol == "x"
    assert end.x[0] == line.x[-1]


def test_a_divergence_through_0_leaves_a_linear_axis_readable() -> None:
    trace = make_trace(1000)
    loss = trace.loss.copy()
    loss[:100] = -1.0
    loss[900:] = 1e30
    axis = figures.convergence(with_columns(trace, loss=loss)).layout.yaxis
    assert axis.type == "linear"
    assert axis.range[1] < 100


def test_a_loss_that_falls_far_gets_a_logarithmic_axis_with_whole_numbers() -> None:
    trace = make_trace(1000)
    axis = figures.convergence(with_columns(trace, loss=np.geomspace(2.0, 0.02, 1000))).layout.yaxis
    assert axis.type == "log"
    assert "0.05" in axis.ticktext
    assert figures.convergence(trace).layout.yaxis.type == "linear"


def test_a_trace_without_arithmetic_says_that_there_is_no_loss() -> None:
    assert "no loss to draw" in said(figures.convergence(with_columns(make_trace(20), loss=np.full(20, np.nan))))


def test_a_figure_says_what_was_done_about_staleness_and_what_is_only_supposed():
    plain = make_trace(20)
    header = replace(
        plain.header,
        access="lock_free",
        remedy={"name": "gap-aware"},
        counterfactual={"fresh": [3], "without": [0, 1]},
    )
    shown = figures.convergence(Trace(header, plain.columns)).to_json()
    assert "lock_free access" in shown
    assert "gap-aware" in shown
    assert "what if: fresh 3; without 0, 1" in shown
