"""Optimizers by name, and what is told of those that there are not."""

from typing import Any

import pytest

from asyncsgd_edu.engines import optimizers

pytestmark = pytest.mark.usefixtures("eight_devices")


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (("Magic", 0.1), ValueError, "optimizer must be one of 'SGD', 'Adam', 'Adagrad', 'RMSprop', got 'Magic'"),
        (("SGD", 0.0), ValueError, "learning_rate must be a finite number above 0, got 0.0"),
    ],
)
def test_bad_optimizers_are_told(given: tuple[Any, ...], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        optimizers.make(*given)


def test_a_setting_that_an_optimizer_has_not_is_told() -> None:
    with pytest.raises((TypeError, ValueError), match="momentum"):
        optimizers.make("Adam", 0.1, momentum=0.9)
