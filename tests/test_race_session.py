"""The ways of 2016, over reference variables: a lock loses nothing."""

import pytest
from race_runs import loses_nothing

# TensorFlow starts here, and its devices are made before it does.
pytestmark = pytest.mark.usefixtures("eight_devices")


@pytest.mark.parametrize("row", ["ref_assign_add_locked", "ref_descent_locked", "ref_scatter_sub_locked"])
def test_what_is_locked_loses_nothing(row: str) -> None:
    loses_nothing(row, torn=False)  # A reference variable's reader takes no lock, so only its losses are sure.
