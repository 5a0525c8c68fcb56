"""Comparisons: every difference is told, nothing else is, and an unfair one is called so."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import HEADER, changed, small

import asyncsgd_edu
from asyncsgd_edu import Asynchronous, Constant, Exponential, KSync, Trace
from asyncsgd_edu.comparison import Comparison, compare
from asyncsgd_edu.trace import Ended, Header

SGD = {"name": "SGD", "learning_rate": 0.05, "momentum": 0.9}
BOWL = {"name": "quadratic", "batch_size": 4, "noise": 0.1}
RUN = dataclasses.replace(small().header, workers=2, problem=BOWL, optimizer=SGD, batch_size=4, ended=Ended("finished"))


def run(parameters: list[np.ndarray] | None = None, trace: Trace | None = None, **fields: Any) -> Trace:
    """A run of 20 updates with a few fields of its header replaced."""
    made = trace or small()
    return Trace(dataclasses.replace(RUN, **fields), made.columns, parameters)


def test_a_trace_differs_in_nothing_from_itself() -> None:
    one = run([np.ones(3, np.float32)])
    found = compare([one, one, one])
    assert found.differs == {}
    assert found.warnings == ()
    assert found.equal["learning rate"] == 0.05
    assert found.equal["optimizer"] == "SGD (momentum 0.9)"
    assert found.equal["problem"] == "quadratic (noise 0.1)"
    assert found.equal["schedule"] == "the same, row for row"
    assert found.equal["final parameters"] == "the same, bit for bit"
    assert (found.equal["updates"], found.equal["samples"], found.equal["workers"]) == (20, 80, 2)
    assert found.names == ("run 1", "run 2", "run 3")


OTHER = {
    "trainer": "TowerTrainer",
    "workers": 3,
    "policy": "k-sync (k 2)",
    "access": "lock_free",
    "devices": ("/device:CPU:0",),
    "devices_note": "GPU:0: a part of one physical GPU, split in 2, 500 MB each",
    "problem": {**BOWL, "name": "digits"},
    "optimizer": {**SGD, "name": "Adam"},
    "seed": 5,
    "clock": "virtual",
    "durations": {"law": "Constant", "value": 1.0},
    "batch_size": 8,
    "steps_per_call": 50,
    "remedy": {"name": "drop-above", "bound": 3},
    "counterfactual": {"fresh": [0]},
    "packages": {"numpy": "2.2"},
    "ended": Ended("stopped"),
}


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Header)])
def test_every_field_of_a_header_is_looked_at(field: str) -> None:
    found = compare([run(), run(**{field: OTHER[field]})])
    own = field.replace("_", " ")
    samples = {"samples"} if field == "batch_size" else set()
    assert set(found.differs) == {own, *samples}
    assert set(compare([run(), run()]).equal) == {*found.equal, *found.differs} - {"torn reads", "updates lost"}


def test_what_differs_within_a_description_is_named_alone() -> None:
    found = compare([run(), run(optimizer={"name": "SGD", "learning_rate": 0.1, "nesterov": True})])
    assert found.differs == {
        "learning rate": (0.05, 0.1),
        "optimizer momentum": (0.9, None),
        "optimizer nesterov": (None, True),
    }
    assert found.equal["optimizer"] == "SGD"
    laws = [{"law": "Straggler", "base": {"law": "Constant", "value": v}, "worker": 1} for v in (1.0, 2.0)]
    nested = compare([run(durations=law) for law in laws])
    assert nested.differs == {"durations base": tuple(law["base"] for law in laws)}
    assert "durations base: Constant (value 1) / Constant (value 2)" in str(nested)


def test_a_field_that_a_header_will_have_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    later = dataclasses.make_dataclass("Later", [("weather", str, "dry")], bases=(Header,), frozen=True)
    monkeypatch.setattr("asyncsgd_edu.comparison.Header", later)
    headers = [later("AsyncTrainer", 2, weather=weather) for weather in ("dry", "wet")]
    assert compare([Trace(header, small().columns) for header in headers]).differs == {"weather": ("dry", "wet")}


@given(st.sampled_from(["worker", "batch", "read_version", "apply_version"]), st.integers(0, 19))
def test_any_other_row_is_another_schedule(column: str, row: int) -> None:
    found = compare([run(), run(trace=changed(small(), column, row, 77))])
    assert found.differs["schedule"] == ("its own", f"another from row {row} on")


def test_other_times_are_the_same_schedule() -> None:
    found = compare([run(), run(trace=changed(small(), "apply_time", 19, 99.0))])
    assert set(found.differs) == {"seconds"}


def test_a_longer_schedule_says_where_the_other_ends() -> None:
    found = compare([small(updates=10), small(updates=20)])
    assert found.differs["schedule"] == ("its own", "the same up to row 10, then longer")
    assert compare([small(), small()[:7]]).differs["schedule"][1] == "the same up to row 7, then shorter"


def test_parameters_are_equal_bit_for_bit_or_so_far_apart() -> None:
    ones = [np.ones(3, np.float32), np.zeros((2, 2), np.float32)]
    near = [np.nextafter(ones[0], np.float32(2)), ones[1]]
    far = [ones[0], np.full((2, 2), -0.25, np.float32)]
    lost = [np.full(3, np.nan, np.float32), ones[1]]
    found = compare([run(p) for p in (ones, ones, near, far, lost, [ones[0]], [ones[0], -ones[1]])])
    assert found.differs["final parameters"] == (
        "its own",
        "the same, bit for bit",
        "up to 1.19e-07 apart",
        "up to 0.25 apart",
        "up to nan apart",
        "of other shapes",
        "up to 0 apart",  # Minus zero is another pattern of bits.
    )
    assert "final parameters" not in {**(part := compare([run(ones), run()])).equal, **part.differs}


def test_the_final_loss_is_that_of_the_summary() -> None:
    trace = small(updates=150)
    found = compare([trace, changed(trace, "loss", 149, 9.0)])
    assert found.differs["final loss"][0] == pytest.approx(trace.loss[50:].mean(dtype=np.float64))
    assert f"minibatch loss: {found.differs['final loss'][0]:.4f}" in trace.summary()
    assert "final loss" not in compare([changed(trace, "loss", 0, 9.0), trace]).differs
    silent = asyncsgd_edu.simulate(2, Asynchronous(), Constant(1.0), 10)
    assert np.isnan(compare([silent, silent]).equal["final loss"])


# --- what is unfair


def warned(*traces: Trace) -> str:
    return "\n".join(compare(traces).warnings)


def test_a_single_change_is_fair() -> None:
    assert warned(run(), run(optimizer={**SGD, "learning_rate": 0.1})) == ""
    assert warned(run(), run(policy="k-async (k 1)")) == ""
    assert warned(run(), run(remedy={"name": "gap-aware"})) == ""


def test_another_problem_is_told() -> None:
    words = warned(run(), run(problem={**BOWL, "noise": 0.5}))
    assert words == "not the same problem (noise 0.1 / 0.5): the losses are of different things"
    assert "not the same problem (quadratic (noise 0.1) / digits (noise 0.1))" in warned(
        run(), run(problem={**BOWL, "name": "digits"})
    )
    # A schedule without arithmetic has none, which is not another one.
    assert warned(run(), run(problem={}, optimizer={}, batch_size=None)) == ""


def test_more_data_at_equal_updates_is_told_with_the_rate_per_gradient() -> None:
    towers = [[w, v, v, v, 0, float(v), v + 0.5, v + 0.75, 1.0] for v in range(20) for w in range(2)]
    columns = dict(zip(small().columns, zip(*towers, strict=True), strict=True))
    many = Trace(dataclasses.replace(RUN, policy="synchronous"), columns)
    assert warned(run(), many) == (
        "at equal updates (20) they have seen 80 / 160 samples, the learning rate per gradient is 0.05 / 0.025: "
        "look at the curves by samples too"
    )
    unknown = [Trace(dataclasses.replace(t.header, batch_size=None, optimizer={}), t.columns) for t in (run(), many)]
    assert "have seen 20 / 40 gradients: look" in warned(*unknown)
    assert "at equal updates (20) they have seen 80 / 320 samples: look" in warned(run(), run(batch_size=16))


def test_neither_updates_nor_samples_are_equal() -> None:
    words = warned(run(), run(trace=small(updates=30)))
    assert words == "neither updates (20 / 30) nor 80 / 120 samples are equal: a smaller loss may be a longer run"
    assert warned(run(), run(trace=small(updates=10), batch_size=8)) == ""  # Equal samples.


def test_several_causes_and_a_rate_that_goes_with_them_are_told() -> None:
    words = warned(run(), run(access="lock_free", optimizer={**SGD, "learning_rate": 0.1}))
    assert "the learning rate per update is not the same (0.05 / 0.1)" in words
    assert "2 settings differ at once (access, learning rate)" in words
    plain = {"name": "SGD", "learning_rate": 0.1}  # No momentum is another setting than some.
    assert "2 settings differ at once (learning rate, optimizer momentum)" in warned(run(), run(optimizer=plain))
    assert "settings differ" not in warned(run(), run(trainer="replay", devices=("/device:CPU:0",), seed=1))


def test_chance_is_told() -> None:
    assert warned(run(), run(seed=1)) == "other seeds (0 / 1): a part of each difference is chance"
    other = changed(small(), "read_version", 5, 2)
    faster = run(trace=other, optimizer={**SGD, "learning_rate": 0.1})
    slower = run(trace=other, optimizer={**SGD, "momentum": 0.5})
    assert warned(run(), faster) == warned(run(), slower)
    assert warned(run(), faster).startswith("the schedules differ by chance")
    assert warned(run(), run(trace=other, policy="k-async (k 1)")) == ""  # The policy makes the schedule.


def test_ends_and_clocks_are_told() -> None:
    words = warned(run(), run(ended=Ended("diverged", version=3)), run(clock="virtual"), run(ended=Ended()))
    assert "run 2 diverged before its end" in words
    assert "run 4 is running, it has not come to the end" in words
    assert "seconds are of different clocks (real / real / virtual / real)" in words


# --- what is shown


def test_sentences_name_everything_that_differs() -> None:
    policies = [KSync(2), KSync(3)]
    traces = [asyncsgd_edu.simulate(4, policy, Exponential(1.0), 50) for policy in policies]
    found = compare(traces, ["two", "three"])
    lines = str(found).splitlines()
    assert lines[0] == "two / three"
    assert any(line.startswith("held equal: trainer simulate, workers 4") for line in lines)
    assert "  policy: k-sync (k 2) / k-sync (k 3)" in lines
    assert sum(line.startswith("  ") and ": " in line and " / " in line for line in lines) == len(found.differs)
    assert [line.removeprefix("warning: ") for line in lines if line.startswith("warning")] == list(found.warnings)
    assert "differs: nothing" in str(compare([traces[0], traces[0]]))
    assert repr(found) == str(found)


def test_a_frame_has_a_row_for_each_quantity() -> None:
    found = compare([run(), run(seed=1)], ["one", "other"])
    frame = found.to_frame()
    assert list(frame.columns) == ["one", "other", "equal"]
    assert list(frame.index) == [*found.differs, *found.equal]
    assert frame.loc["seed"].tolist() == [0, 1, False]
    assert frame.loc["workers"].tolist() == [2, 2, True]
    assert frame["equal"].sum() == len(found.equal)


def test_the_result_cannot_be_changed() -> None:
    found = compare([run(), run()])
    assert isinstance(found, Comparison)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.names = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((small(),), TypeError, "traces must be a list of traces"),
        (([small(), HEADER],), TypeError, "traces must be traces such as trainer.trace, got Header"),
        (([small()],), ValueError, "at least 2 traces, got 1"),
        (([small(), small()], ["a"]), ValueError, "names must be 2 different ones"),
        (([small(), small()], ["a", "a"]), ValueError, "names must be 2 different ones"),
        (([small(), small()], ["a", "equal"]), ValueError, "names must be"),
        (([small(), small()], "ab"), TypeError, "names must be a list of texts"),
        (([small(), small()], [1, 2]), TypeError, "names must be a list of texts"),
    ],
)
def test_bad_arguments_are_named(arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        compare(*arguments)


def test_a_racy_run_and_its_replay_are_told_why_they_differ() -> None:
    made = small()
    spread = np.arange(len(made)) % 2
    torn = Trace(made.header, {**made.columns, "read_spread": spread})
    ended = Ended("finished", lost=(3, 5))
    raced = run([np.zeros(2, np.float32)], torn, access="read_modify_write", ended=ended)
    again = run([np.ones(2, np.float32)], torn, access="read_modify_write", trainer="replay")
    (warning,) = [text for text in compare([raced, again]).warnings if "replay" in text]
    assert "access was read_modify_write, which a replay does not do again" in warning
    assert f"{spread.sum()} reads mixed versions" in warning
    assert "up to 5 updates were lost" in warning
    assert "additions came in another order" in warning
    same = run([np.zeros(2, np.float32)], torn, access="read_modify_write", trainer="replay")
    assert not any("replay" in text for text in compare([raced, same]).warnings)
