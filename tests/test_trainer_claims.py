"""Laws 2, 3 and 4 of real trainers: they hold, and they would fail where something is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncsgd_edu.lessons.claim import Claim
from asyncsgd_edu.lessons.trainer_claims import ROUNDING, differing, law_2, law_3, law_4

pytestmark = [pytest.mark.usefixtures("eight_devices"), pytest.mark.slow]


def verdicts(found: list[Claim]) -> set[str]:
    return {claim.verdict for claim in found if not claim.outside}


@pytest.mark.parametrize("law", [law_2, law_3, law_4])
def test_they_hold_with_another_seed(law: Callable[[int], Any]) -> None:
    assert verdicts(list(law(11))) == {"holds"}


def test_towers_are_as_many_as_there_are_devices(monkeypatch: pytest.MonkeyPatch, eight_devices: list[str]) -> None:
    assert [claim for claim in law_2(0) if "4 towers" in claim.what]
    monkeypatch.setattr("asyncsgd_edu.engines.devices.available", lambda **_: ["/device:CPU:0"])
    found = list(law_2(0))
    assert verdicts(found) == {"holds"}
    assert [claim for claim in found if "1 tower" in claim.what]
    assert not [claim for claim in found if "towers" in claim.what]


def test_law_2_figures() -> None:
    found = {claim.what: claim for claim in law_2(0)}
    # A few roundings, not none: the sums are formed in another order.
    rounding = [claim.measured for what, claim in found.items() if "- gradient of the joined batch" in what]
    assert len(rounding) == 2
    assert all(0 < away < ROUNDING for away in rounding)
    uneven = next(claim for what, claim in found.items() if "10 and 6" in what)
    assert uneven.measured > 1000 * ROUNDING


def test_a_sum_instead_of_a_mean_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    def added(towers: Any, count: Any) -> list[Any]:
        return [tf.add_n(list(same)) for same in zip(*towers, strict=True)]

    monkeypatch.setattr("asyncsgd_edu.engines.tower_trainer.average_gradients", added)
    wrong = [claim.what for claim in law_2(0) if claim.verdict == "fails"]
    assert wrong == ["first mean gradient - gradient of the joined batch, TowerTrainer, 4 towers"]


def test_another_start_than_the_plain_loops_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsgd_edu.engines import plain

    loop = plain.train_plainly
    monkeypatch.setattr(plain, "train_plainly", lambda *given: loop(*given[:-1], given[-1] + 1))
    assert verdicts(list(law_3(0))) == {"fails"}


def test_a_replay_by_another_learning_rate_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsgd_edu.engines import replay as module

    replay = module.replay
    monkeypatch.setattr(module, "replay", lambda *given: replay(*given, learning_rate=0.049))
    *replayed, raced = law_4(0)
    assert len(replayed) == 6
    assert verdicts(replayed) == {"fails"}
    assert raced.verdict == "holds"


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [
        ([[1.0, 2.0]], [[1.0, 2.0]], 0),
        ([[np.nan]], [[np.nan]], 0),
        ([[0.0]], [[-0.0]], 1),
        ([[1.0]], [[np.nextafter(1.0, 2)]], 1),
        ([[1.0, 2.0, 3.0]], [[1.0]], 2),
        ([[1.0], [2.0, 3.0]], [[1.0]], 2),
        ([], [[]], 0),
        ([[[1.0, 2.0], [3.0, 4.0]]], [[[1.0, 0.0], [3.0, 0.0]]], 2),
    ],
)
def test_what_differs_is_counted_in_bits(one: list[Any], other: list[Any], count: int) -> None:
    left, right = [np.array(a, float) for a in one], [np.array(b, float) for b in other]
    assert differing(left, right) == differing(right, left) == count
