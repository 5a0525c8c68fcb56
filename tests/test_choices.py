"""What the menus offer: what the engines have, each with its one number, and no run too long for memory."""

import pytest
from test_configuration import simulated

from asyncsgd_edu.rules import policies
from asyncsgd_edu.view import choices
from asyncsgd_edu.view.choices import LAWS, POLICIES, duration_of
from asyncsgd_edu.view.configuration import Configuration


@pytest.mark.parametrize("law", LAWS[1:])
def test_every_law_has_the_mean_that_is_asked_for(law: str) -> None:
    made = duration_of(law, 0.02)
    assert made is not None
    assert made.mean == pytest.approx(0.02)


def test_the_menu_gives_every_policy_its_constant() -> None:
    named = {policy: simulated(policy=policy, constant=3).rule for policy in POLICIES}
    assert [rule.name for rule in named.values()] == list(POLICIES)
    assert named["k-batch-async"] == policies.KBatchAsync(3)
    assert named["stale-synchronous"] == policies.StaleSynchronous(3)
    assert named["backup-workers"] == policies.BackupWorkers(3)


def test_a_simulation_that_memory_has_no_room_for_is_refused() -> None:
    everybody = {"problem": "digits-cnn", "policy": "synchronous"}
    assert simulated(**everybody, updates=10_000).updates == 10_000
    with pytest.raises(ValueError, match="at most 1000000 gradients, got 10001 updates of up to 100: take fewer"):
        simulated(**everybody, updates=10_001)
    assert Configuration(updates=10**9).updates == 10**9  # Threads are stopped when somebody has seen enough.


def test_the_menus_offer_what_the_engines_have() -> None:
    from asyncsgd_edu.engines import parameters, stamps
    from asyncsgd_edu.rules.remedies import Remedy

    assert choices.ACCESS == parameters.ACCESS
    assert choices.MOST_STAMPED == stamps.MOST_STAMPED
    assert {kind.name for kind in Remedy.__subclasses__()} == set(choices.REMEDIES[1:])
    for name in choices.REMEDIES[1:]:
        made = choices.remedy_of(name, 3, 0.5)
        assert made is not None
        assert made.name == name
    assert choices.remedy_of("none", 3, 0.5) is None
