"""Remedies as rules on arrays: what each makes of a gradient, on NumPy and on TensorFlow alike."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsgd_edu import DelayCompensation, DivideByStaleness, DropAbove, GapAware
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.remedies import Late, check_remedy

pytestmark = pytest.mark.usefixtures("eight_devices")

ALL = [DivideByStaleness(), DropAbove(2), DelayCompensation(0.5), DelayCompensation(exact=True), GapAware()]
numbers = st.floats(-100, 100, width=32)


@pytest.mark.parametrize("remedy", ALL, ids=str)
@given(gradient=numbers, moved=numbers, staleness=st.integers(0, 50))
def test_arrays_and_tensors_get_the_same(remedy, gradient, moved, staleness):
    fields = {"gradient": [gradient, 1.0], "moved": [moved, -1.0], "step": 0.5, "curvature": [2.0, 3.0]}
    arrays = {name: np.asarray(value, np.float32) for name, value in fields.items()}
    one = remedy.amend(Late(staleness=np.float32(staleness), **arrays))
    tensors = {name: tf.constant(value) for name, value in arrays.items()}
    other = remedy.amend(Late(staleness=tf.constant(staleness, tf.float32), **tensors))
    assert np.allclose(one, other.numpy(), rtol=1e-6, atol=1e-6)
    assert bool(remedy.keeps(staleness)) == bool(remedy.keeps(tf.constant(staleness)))


@pytest.mark.parametrize("remedy", [DivideByStaleness(), DelayCompensation(0.5), GapAware(), DropAbove(0)], ids=str)
def test_a_fresh_gradient_is_left_as_it_is(remedy):
    assert remedy.amend(Late(gradient=3.0, staleness=0, moved=0.0, step=1.0, curvature=1.0)) == 3.0
    assert remedy.keeps(0)


@pytest.mark.parametrize("staleness", [1, 2, 7])
def test_the_rate_is_divided_by_the_staleness(staleness):
    assert DivideByStaleness().amend(Late(gradient=21.0, staleness=staleness)) == 21.0 / staleness


def test_exact_compensation_is_the_gradient_of_now_on_a_quadratic():
    curvature, read, now = np.array([4.0, 0.5]), np.array([1.0, -2.0]), np.array([0.25, 3.0])
    late = Late(gradient=curvature * read, staleness=3, moved=now - read, curvature=curvature)
    assert DelayCompensation(exact=True).amend(late).tolist() == (curvature * now).tolist()


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (lambda: DropAbove(-1), ValueError, "bound must be a whole number from 0 to 1000000000, got -1"),
        (lambda: DropAbove(1.5), TypeError, "bound"),
        (lambda: DelayCompensation(-0.1), ValueError, "strength"),
        (lambda: DelayCompensation(float("nan")), ValueError, "strength"),
        (lambda: DelayCompensation(exact="no"), TypeError, "exact must be True or False, got 'no'"),
        (lambda: DelayCompensation(0.1, exact=True), ValueError, "with exact=True strength does nothing"),
        (lambda: check_remedy("divide"), TypeError, "remedy must be None or a remedy such as DivideByStaleness(), got"),
        (lambda: check_remedy(DropAbove), TypeError, "remedy must be None or a remedy"),
    ],
)
def test_bad_remedies_are_told(make, kind, sentence):
    with pytest.raises(kind) as caught:
        make()
    assert sentence in str(caught.value)


def test_a_remedy_says_what_it_is():
    assert str(DropAbove(3)) == "drop-above (bound 3)"
    assert DelayCompensation(0.5).describe() == {"name": "delay-compensation", "strength": 0.5, "exact": False}
    assert str(DelayCompensation(exact=True)) == "delay-compensation (exact True)"


def test_a_remedy_can_be_written_down_whatever_numbers_it_was_given():
    assert json.dumps(DropAbove(np.int64(3)).describe()) == '{"name": "drop-above", "bound": 3}'
    assert json.loads(json.dumps(DelayCompensation(np.float64(0.1)).describe()))["strength"] == 0.1
    assert str(DropAbove(0)) == "drop-above (bound 0)"
