"""Optimizers by name, copies of them, and what is told of those that there are not."""

from typing import Any

import keras
import numpy as np
import pytest

from asyncsgd_edu import AsyncTrainer, Quadratic
from asyncsgd_edu.engines import optimizers
from asyncsgd_edu.quiet import tf

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


SEVERAL = pytest.mark.skipif(not optimizers.MULTI, reason="this Keras has no MultiOptimizer")


def excluding() -> keras.optimizers.Optimizer:
    decaying = keras.optimizers.SGD(0.1, weight_decay=0.1)
    decaying.exclude_from_weight_decay(var_names=["bias"])
    return decaying


def several(**settings: Any) -> keras.optimizers.Optimizer:
    adam = keras.optimizers.Adam(0.1, **settings)
    chosen = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.5), {"parameter_1": adam, "parameter_2": adam})
    return keras.optimizers.MultiOptimizer(chosen)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), "LossScaleOptimizer.*give its Adam$"),
        (lambda: keras.optimizers.SGD(0.1, loss_scale_factor=8.0), "loss_scale_factor must be None.*got 8.0"),
        (excluding, "exclude_from_weight_decay is not kept"),
    ],
)
def test_what_a_trainer_would_leave_out_is_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        optimizers.own_copy(make())


@SEVERAL
def test_several_are_copied_each_in_its_place_and_share_nothing() -> None:
    given = several()
    copies = [optimizers.own_copy(given) for _ in range(2)]
    for copy in copies:
        variables = [tf.Variable([1.0]) for _ in range(3)]
        optimizers.build(copy, variables)
        copy.apply([tf.ones(1)] * 3, variables)
        # SGD steps by rate times gradient, Adam at first by its rate.
        np.testing.assert_allclose([v.numpy()[0] for v in variables], [0.5, 0.9, 0.9], atol=1e-6)
        assert len(copy.optimizers) == 2
    assert [int(one.iterations) for one in (*given.optimizers, given)] == [0, 0, 0]


@SEVERAL
def test_several_are_described_each_with_its_settings() -> None:
    described = optimizers.describe(several())
    assert described["name"] == "MultiOptimizer"
    assert described["default"] == optimizers.describe(keras.optimizers.SGD(0.5))
    assert described["parameter_1"]["learning_rate"] == 0.1


@SEVERAL
def test_of_several_a_function_and_another_rate_are_refused() -> None:
    with pytest.raises(ValueError, match="must have an OptimizerMap"):
        optimizers.own_copy(keras.optimizers.MultiOptimizer(lambda _: keras.optimizers.SGD(0.1)))
    with pytest.raises(ValueError, match=r"learning_rate must be None for a MultiOptimizer.*got 0.3"):
        optimizers.own_copy(several(), 0.3)


@SEVERAL
def test_gradients_that_one_of_several_saves_up_are_told() -> None:
    assert optimizers.saved_up(several(gradient_accumulation_steps=4)) == 4
    assert optimizers.saved_up(several()) is None
    assert optimizers.saved_up(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)) == 2
    with pytest.raises(ValueError, match="gradient_accumulation_steps must be None under lock_free access.*got 4"):
        AsyncTrainer(Quadratic(), access="lock_free", optimizer=several(gradient_accumulation_steps=4))


def test_paths_are_numbers_whoever_holds_the_variables() -> None:
    variables = [tf.Variable([1.0], name="kernel"), tf.Variable([1.0])]
    optimizers.build(keras.optimizers.SGD(0.1), variables)
    assert [variable.path for variable in variables] == ["parameter_0", "parameter_1"]
