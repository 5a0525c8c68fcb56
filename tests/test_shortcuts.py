"""The short ways to a schedule: each gives what asking the policy gradient by gradient gives, bit for bit."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from simulations import runs

from asyncsgd_edu.engines import shortcuts
from asyncsgd_edu.engines.schedule import Schedule
from asyncsgd_edu.engines.simulator import by_events, schedule
from asyncsgd_edu.rules.durations import Duration
from asyncsgd_edu.rules.policies import Policy, StaleSynchronous


def equal(one: Schedule, other: Schedule) -> bool:
    """Bit by bit, NaN equal to NaN."""
    return one.in_flight == other.in_flight and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(one[:-1], other[:-1], strict=True)
    )


@settings(max_examples=300)
@given(runs())
def test_the_short_way_gives_what_asking_the_policy_gives(run: tuple[int, Policy[Any], Duration, int, int]) -> None:
    asked = by_events(*run)
    assert equal(schedule(*run), asked)
    workers, policy, *rest = run
    if isinstance(policy, StaleSynchronous) and policy.bound < 10:
        assert equal(shortcuts.in_waves(workers, policy.bound, *rest), asked)
