"""The ways over TensorFlow 2 variables: guarded ones lose nothing, an unguarded one does; where a step looks."""

import pytest
from race_runs import loses_nothing, race

from asyncsgd_edu.engines.race_ways import probes
from asyncsgd_edu.rules.intervals import Count

# TensorFlow starts here, and its devices are made before it does.
pytestmark = pytest.mark.usefixtures("eight_devices")
NOTHING_LOST = [
    "critical_section", "assign_sub", "assign_add", "gradient_descent", "gradient_descent_locked",
    "sparse_descent_locked", "sparse_adagrad_locked",
]  # fmt: skip


@pytest.mark.parametrize("row", NOTHING_LOST)
def test_what_is_guarded_loses_nothing(row: str) -> None:
    loses_nothing(row)


def test_a_critical_section_mixes_no_versions() -> None:
    assert race("critical_section", elements=5000).mixed == Count(0, 1000)


def test_read_compute_write_loses_updates() -> None:
    # About 4 in 10 of 4,000 updates are lost in one attempt on two cores. To lose none, no two threads may
    # ever overlap between a read and a write of 200,000 elements; even should that happen by chance, not ten times.
    assert any(race("assign", elements=200_000, updates=500).lost.count for _ in range(10))


@pytest.mark.parametrize("elements", [1, 2, 64, 65, 200_000])
def test_the_first_and_the_last_element_are_looked_at(elements: int) -> None:
    at = probes(elements)
    assert (at[0], at[-1], len(at)) == (0, elements - 1, min(elements, 64))
