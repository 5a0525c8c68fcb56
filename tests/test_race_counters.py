"""What Keras keeps, and tickets: SGD loses nothing, count-up-to gives each ticket once, assign-add maybe twice."""

import pytest
from race_runs import loses_nothing, race

from asyncsgd_edu.rules.intervals import Count

# TensorFlow starts here, and its devices are made before it does.
pytestmark = pytest.mark.usefixtures("eight_devices")


def test_the_variables_of_keras_sgd_lose_nothing() -> None:
    loses_nothing("keras_sgd")


def test_count_up_to_gives_each_ticket_once() -> None:
    found = race("ticket_count_up_to", threads=8)
    assert (found.duplicates, found.lost, found.updates) == (Count(0, 2000), Count(0, 2000), 2000)


def test_a_ticket_by_assign_add_may_be_drawn_twice_but_no_count_is_lost() -> None:
    found = race("ticket_assign_add", threads=8)
    assert found.lost == Count(0, 2000)
    assert found.duplicates is not None
    assert found.duplicates.trials == 2000
