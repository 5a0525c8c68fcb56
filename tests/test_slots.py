"""What writes are, in functions whose writes are known by their making."""

import pytest

from asyncsgd_edu.engines import slots
from asyncsgd_edu.quiet import tf

pytestmark = pytest.mark.usefixtures("eight_devices")


def found(function):
    """How a function of two variables writes each."""
    one, other = tf.Variable(1.0), tf.Variable(1.0)
    names = {id(one.handle): "one", id(other.handle): "other"}
    traced = tf.function(lambda given: function(one, other, given), autograph=False)
    return slots.writes(traced.get_concrete_function(tf.TensorSpec([])), names)


def twice(one, _, given):
    one.assign_sub(one * given)
    one.assign_sub(given)


def within(one, other, given):
    amount = one * 2.0

    def chosen():
        one.assign_sub(amount)
        other.assign_add(amount)
        return given

    tf.cond(given > 0, chosen, lambda: given)


@pytest.mark.parametrize(
    ("function", "ways"),
    [
        (lambda one, _, given: one.assign_add(given), {"one": "added"}),
        (lambda one, other, given: one.assign_sub(given * other), {"one": "added"}),
        (lambda one, _, given: one.assign_sub(given * one), {"one": "moved"}),
        (lambda one, _, given: one.assign(one + given), {"one": "overwritten"}),
        (lambda one, other, _: other.assign_add(one + other), {"other": "moved"}),
        (lambda one, _, given: given + one, {}),
        (twice, {"one": "moved"}),
        (within, {"one": "moved", "other": "added"}),
    ],
)
def test_a_write_is_found_for_what_it_is(function, ways):
    assert found(function) == ways


def test_an_operation_that_is_not_known_is_told():
    def fused(one, _, given):
        tf.raw_ops.ResourceApplyGradientDescent(var=one.handle, alpha=1.0, delta=given)

    with pytest.raises(NotImplementedError, match="what ResourceApplyGradientDescent does to one is not known here"):
        found(fused)


def test_a_variable_without_a_name_is_left_out():
    variable = tf.Variable(1.0)
    traced = tf.function(lambda: variable.assign_add(1.0), autograph=False).get_concrete_function()
    assert slots.writes(traced, {}) == {}
