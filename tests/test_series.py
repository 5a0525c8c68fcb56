"""The numbers behind the pictures: thinning, means, counts, bars, and growing as against at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsgd_edu.trace import COLUMNS, Ended, Header, Trace
from asyncsgd_edu.view import series
from asyncsgd_edu.view.thinning import MOST_POINTS, WINDOW, kept, thin, trailing_mean


def make_trace(rows: int, workers: int = 4, policy: str = "asynchronous", **header: object) -> Trace:
    """A sound trace of workers that take turns; synchronous ones average one gradient each."""
    order = np.arange(rows)
    worker, turn = order % workers, order // workers
    if policy == "synchronous":
        read, version = turn, turn
    else:
        read, version = np.maximum(0, order - workers + 1), order
    columns = {
        "worker": worker,
        "batch": turn,
        "read_version": read,
        "apply_version": version,
        "read_spread": np.zeros(rows),
        "read_time": 0.1 * turn + 0.02 * worker * (policy != "synchronous"),
        "ready_time": 0.1 * turn + 0.02 * worker * (policy != "synchronous") + 0.05,
        "apply_time": 0.1 * turn + 0.02 * worker * (policy != "synchronous") + 0.1,
        "loss": 2.0 + np.random.default_rng(0).random(rows),
    }
    settings = {"batch_size": 32, "ended": Ended("finished"), "problem": {"name": "quadratic"}, **header}
    trainer = "TowerTrainer" if policy == "synchronous" else "AsyncTrainer"
    return Trace(Header(trainer, workers, policy=policy, **settings), columns)  # type: ignore[arg-type]


def with_columns(trace: Trace, **columns: object) -> Trace:
    """The trace with some columns replaced."""
    return Trace(trace.header, {**trace.columns, **columns})


def prefix(trace: Trace, rows: int) -> Trace:
    """What a running trainer showed after so many rows."""
    return Trace(trace.header, {name: values[:rows] for name, values in trace.columns.items()})


values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=400), st.integers(4, 40))
def test_thinning_keeps_extremes_order_and_ends(numbers: list[int], most: int) -> None:
    y = np.array(numbers, float)
    keep = kept(np.arange(len(y)), y, most)
    assert len(keep) <= most
    assert (np.diff(keep) > 0).all()
    assert keep[0] == 0
    assert keep[-1] == len(y) - 1
    assert y[keep].min() == y.min()
    assert y[keep].max() == y.max()


@given(st.integers(1, 20_000), st.integers(0, 10**6))
def test_thinning_keeps_every_spike_of_a_long_line(length: int, at: int) -> None:
    y = np.zeros(length)
    y[at % length] = 7.0
    x, thinned = thin(np.arange(length), y)
    assert len(x) <= MOST_POINTS
    assert x[thinned == 7.0].tolist() == [at % length]


def test_a_short_line_is_not_thinned() -> None:
    y = np.sin(np.arange(MOST_POINTS))
    assert len(kept(np.arange(len(y)), y)) == MOST_POINTS
    longer = np.sin(np.arange(MOST_POINTS + 1))
    assert len(kept(np.arange(len(longer)), longer)) < MOST_POINTS


@given(st.lists(st.integers(0, 9), min_size=2, max_size=300), st.data())
def test_thinning_a_thinned_line_that_has_grown_is_thinning_it_at_once(numbers: list[int], data: st.DataObject) -> None:
    y, index = np.array(numbers, float), np.arange(len(numbers))
    first = data.draw(st.integers(1, len(numbers) - 1))
    early = kept(index[:first], y[:first], 20)
    both = np.concatenate([early, index[first:]])
    assert both[kept(both, y[both], 20)].tolist() == kept(index, y, 20).tolist()


@given(values, st.integers(1, 9))
def test_trailing_mean_is_the_mean_of_each_window(numbers: list[float], window: int) -> None:
    y = np.array(numbers)
    expected = [y[max(0, i - window + 1) : i + 1].mean() for i in range(len(y))]
    assert np.allclose(trailing_mean(y, window), expected, rtol=1e-9, atol=1e-6)


def test_a_huge_loss_leaves_no_trace_in_later_means() -> None:
    y = np.concatenate([[1e300, np.inf, np.nan], np.ones(200)])
    assert (trailing_mean(y)[WINDOW + 3 :] == 1.0).all()


def test_means_of_a_line_longer_than_one_stretch_of_cache() -> None:
    y = np.random.default_rng(1).random(70_000)
    at = 1 << 15
    assert trailing_mean(y)[at] == pytest.approx(y[at - WINDOW + 1 : at + 1].mean())


@pytest.mark.parametrize("policy", ["asynchronous", "synchronous"])
@given(cuts=st.lists(st.integers(0, 4100), max_size=6))
def test_growing_is_the_same_as_at_once(policy: str, cuts: list[int]) -> None:
    trace = make_trace(4100, policy=policy)
    growing = series.Growing()
    for cut in sorted(cuts):
        part = growing(prefix(trace, cut))
        whole = series.digest(prefix(trace, cut))
        assert part.counts.tolist() == whole.counts.tolist()
        assert part.curve.updates.tolist() == whole.curve.updates.tolist()
        assert np.allclose(part.curve.loss, whole.curve.loss, rtol=1e-12)
        assert (part.rows, part.version, part.seconds) == (whole.rows, whole.version, whole.seconds)


def test_growing_starts_over_with_another_run() -> None:
    growing = series.Growing()
    growing(make_trace(300))
    assert (
        growing(make_trace(500, workers=2)).counts.tolist() == series.digest(make_trace(500, workers=2)).counts.tolist()
    )
    assert growing(make_trace(3)).rows == 3


def test_digest_says_what_the_trace_says() -> None:
    trace = make_trace(1000)
    digest = series.digest(trace)
    assert digest.counts.tolist() == np.bincount(trace.staleness).tolist()
    assert digest.mean_staleness == pytest.approx(trace.mean_staleness)
    assert (digest.version, digest.applied, digest.seconds) == (1000, 1000, trace.seconds)
    assert digest.loss == pytest.approx(trace.loss[-WINDOW:].mean(), rel=1e-6)


def test_axes_count_updates_samples_and_seconds() -> None:
    trace = make_trace(40, policy="synchronous")
    curve = series.digest(trace).curve
    assert curve.x("updates").tolist() == list(range(1, 11))
    assert curve.x("samples", 32).tolist() == [4 * 32 * k for k in range(1, 11)]
    assert np.allclose(curve.x("seconds"), 0.1 * np.arange(1, 11))
    with pytest.raises(ValueError, match="by must be one of 'updates', 'samples', 'seconds', got 'epochs'"):
        curve.x("epochs")


def test_an_update_of_towers_has_the_mean_loss_of_its_gradients() -> None:
    trace = make_trace(4, policy="synchronous")
    assert series.digest(trace).curve.loss.tolist() == pytest.approx([trace.loss.mean()])


def test_dropped_gradients_count_as_samples_but_not_as_updates() -> None:
    trace = make_trace(6)
    version = np.array([0, 1, -1, 2, -1, 3])
    digest = series.digest(with_columns(trace, apply_version=version, read_version=np.maximum(0, version - 1)))
    assert digest.curve.updates.tolist() == [1, 2, 3, 4]
    assert digest.curve.gradients.tolist() == [1, 2, 4, 6]
    assert (digest.rows, digest.applied) == (6, 4)


def test_losses_that_are_not_finite_have_no_point() -> None:
    trace = make_trace(100)
    loss = trace.loss.copy()
    loss[[70, 99]] = np.inf, np.nan
    digest = series.digest(with_columns(trace, loss=loss))
    assert (digest.not_finite, digest.first_not_finite) == (2, 70)
    assert np.isfinite(digest.curve.loss).all()
    assert len(digest.curve) == 98


def test_histogram_counts_every_gradient_once() -> None:
    counts = np.array([5, 0, 3, 2])
    shape = series.histogram(counts, workers=4)
    assert np.allclose(shape.share, counts / 10)
    assert shape.middle.tolist() == [0, 1, 2, 3]
    assert shape.law[0] == pytest.approx(1 / 4)
    assert len(shape.law) >= 12


def test_a_straggler_gives_wide_bars_and_loses_nothing() -> None:
    counts = np.zeros(2662, int)
    counts[[0, 7, 2661]] = 90, 9, 1
    shape = series.histogram(counts, workers=8)
    assert len(shape.share) <= series.MOST_BARS
    assert shape.width == 27
    assert shape.share.sum() == pytest.approx(1)
    assert shape.law.sum() == pytest.approx(1)


def test_arrows_go_from_the_apply_that_wrote_a_version_to_its_read() -> None:
    trace = make_trace(200)
    bars = series.bars(trace, last=10)
    assert bars.worker.tolist() == trace.worker[-10:].tolist()
    writer = trace.read_version[-10:] - 1
    assert bars.from_time.tolist() == trace.apply_time[writer].tolist()
    assert bars.from_worker.tolist() == trace.worker[writer].tolist()
    assert bars.to_time.tolist() == trace.read_time[-10:].tolist()


def test_the_first_version_was_written_by_nobody() -> None:
    bars = series.bars(make_trace(4))
    assert len(bars.from_time) == 0
    assert bars.read_version.tolist() == [0, 0, 0, 0]


def test_bars_of_a_stretch_have_no_arrow_from_outside_it() -> None:
    bars = series.bars(make_trace(200)[100:105])
    assert len(bars.worker) == 5
    assert len(bars.from_time) == 1


def test_an_empty_trace_has_an_empty_picture() -> None:
    empty = Trace(Header("AsyncTrainer", 3), {name: [] for name in COLUMNS})
    digest = series.Growing()(empty)
    assert digest == digest
    assert digest.rows == 0
    assert np.isnan(digest.mean_staleness)
    assert len(digest.curve) == 0
    assert len(series.bars(empty).worker) == 0
