"""Optimizers of 2016: which are taken, what becomes of the caller's, what is said of the others."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu.engines.session_optimizers import check_optimizer, describe, own_optimizer

pytestmark = pytest.mark.usefixtures("eight_devices")
v1 = tf.compat.v1


def own(optimizer):
    with tf.Graph().as_default():
        return own_optimizer(optimizer)


def used(optimizer):
    """The same optimizer, after it was applied in a graph of its own."""
    with tf.Graph().as_default():
        optimizer.apply_gradients([(tf.ones(2), v1.get_variable("w", [2]))])
    return optimizer


def test_the_default_is_plain_descent():
    assert describe(own(None)) == {"name": "GradientDescentOptimizer", "learning_rate": 0.05}


def test_an_instance_is_copied():
    given = v1.train.MomentumOptimizer(0.1, 0.9)
    for _ in range(2):  # By two trainers.
        made = own(given)
        assert made is not given
        used(made)
        assert describe(made) == describe(given)
    assert given.get_slot_names() == []
    check_optimizer(given)  # Still as good as new.


def test_a_function_is_called_once_and_in_the_graph():
    graphs = []

    def make():
        graphs.append(tf.compat.v1.get_default_graph())
        return v1.train.GradientDescentOptimizer(tf.constant(0.5))

    check_optimizer(make)
    assert graphs == []
    with tf.Graph().as_default() as graph:
        own_optimizer(make)
    assert graphs == [graph]


def test_a_class_is_a_function_that_makes_one():
    assert describe(own(v1.train.AdamOptimizer))["learning_rate"] == 0.001


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: used(v1.train.GradientDescentOptimizer(0.1)), "_learning_rate_tensor"),
        (lambda: used(v1.train.MomentumOptimizer(0.1, 0.9)), "_momentum_tensor"),
        (lambda: used(v1.train.AdamOptimizer(0.1)), "_lr_t"),
        (lambda: used(v1.train.RMSPropOptimizer(0.1)), "_learning_rate_tensor"),
        (lambda: v1.train.GradientDescentOptimizer(tf.constant(0.1)), "_learning_rate"),
        (lambda: v1.train.AdamOptimizer(tf.Variable(0.1)), "_lr"),
    ],
)
def test_one_of_another_graph_is_refused_and_what_to_pass_is_said(make, named):
    optimizer = make()
    name = type(optimizer).__name__
    for passed in (optimizer, lambda: optimizer):
        with pytest.raises(TypeError, match=f"this {name} has been used in another graph.*{named}.*lambda.*{name}"):
            own(passed)
    with pytest.raises(TypeError, match="another graph"):
        check_optimizer(optimizer)


def test_slots_alone_tell_that_one_was_used():
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    with tf.Graph().as_default():
        optimizer._create_slots([v1.get_variable("w", [2])])
    with pytest.raises(TypeError, match=r"\(slots\)"):
        own(optimizer)


@pytest.mark.parametrize("make", [lambda: keras.optimizers.SGD(0.05), lambda: keras.optimizers.Adam()])
def test_a_keras_optimizer_is_refused_and_what_to_pass_is_said(make):
    with pytest.raises(TypeError, match=r"tf.compat.v1.train.GradientDescentOptimizer\(0.05\).*Keras.*AsyncTrainer"):
        check_optimizer(make())
    with pytest.raises(TypeError, match="function without arguments.*which made"):
        own(make)


@pytest.mark.parametrize("wrong", ["sgd", 0.05, {}])
def test_anything_else_is_named(wrong):
    with pytest.raises(TypeError, match="tf.compat.v1.train") as told:
        check_optimizer(wrong)
    assert repr(wrong) in str(told.value)


def test_what_a_function_makes_is_named():
    with pytest.raises(TypeError, match="which made None"):
        own(lambda: None)


def test_one_that_waits_for_others_is_refused():
    with pytest.raises(TypeError, match="SyncReplicasOptimizer makes workers wait"):
        own(lambda: v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 2))


@pytest.mark.parametrize("rate", [float("nan"), -1.0, float("inf"), 0.0])
@pytest.mark.parametrize("kind", [v1.train.GradientDescentOptimizer, v1.train.AdamOptimizer])
def test_a_bad_learning_rate_is_named(kind, rate):
    with pytest.raises(ValueError, match="learning_rate must be a finite number above 0") as told:
        check_optimizer(kind(rate))
    assert str(rate) in str(told.value)
    with pytest.raises(ValueError, match="learning_rate"):
        own(lambda: kind(rate))
    with pytest.raises(TypeError, match="learning_rate.*'fast'"):
        check_optimizer(kind("fast"))


def test_a_learning_rate_may_be_a_function():
    made = own(v1.train.GradientDescentOptimizer(lambda: 0.1))
    assert describe(made) == {"name": "GradientDescentOptimizer"}


def test_one_that_cannot_be_copied_says_so():
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    optimizer.lock = threading.Lock()
    with pytest.raises(TypeError, match="function without arguments.*cannot be copied.*lock"):
        own(optimizer)


def test_settings_are_described_as_they_were_given():
    assert describe(v1.train.RMSPropOptimizer(np.float64(0.1), momentum=0.5, centered=True)) == {
        "name": "RMSPropOptimizer",
        "learning_rate": 0.1,
        "decay": 0.9,
        "momentum": 0.5,
        "epsilon": 1e-10,
        "centered": True,
    }
    settings = describe(v1.train.MomentumOptimizer(np.float32(0.5), np.int64(1)))
    assert [type(settings[name]) for name in ("learning_rate", "momentum")] == [float, int]
