"""What a notebook says to an answer."""

import pytest

from asyncsgd_edu import lessons


def test_an_open_exercise_is_neither_right_nor_wrong():
    verdict = lessons.check(None, 7.0, hint="count")
    assert verdict.right is None
    assert "count" in repr(verdict)


@pytest.mark.parametrize(("answer", "right"), [(7, True), (7.3, True), (7.4, False), (6.6, False), (-7, False)])
def test_an_answer_is_right_within_its_tolerance(answer, right):
    assert lessons.check(answer, 7.0, hint="count").right is right


def test_a_wrong_answer_says_which_way_and_never_tells_the_answer():
    assert "too large" in repr(lessons.check(9, 7.0, hint="count"))
    assert "too small" in repr(lessons.check(2, 7.0, hint="count"))
    assert "7" not in repr(lessons.check(9, 7.0, hint="count"))


def test_a_prediction_is_shown_beside_the_measurement():
    assert repr(lessons.compare(3.0, 6.812, "mean staleness")) == "mean staleness: you said 3, the run gave 6.81"


@pytest.mark.parametrize("answer", ["7", True, float("nan")])
def test_an_answer_that_is_no_number_is_named(answer):
    with pytest.raises(TypeError, match="an answer is a number"):
        lessons.check(answer, 7.0, hint="count")
