"""When the next frame may go: what is said of pages that answer at once, late, never, twice and out of order.

Every time is the test's own number.
"""

import pytest

from asyncsgd_edu.view.pace import PATIENCE, REMEMBERED, Pace


@pytest.fixture
def pace() -> Pace:
    """A page has opened at time 0."""
    made = Pace()
    made.answered(0, now=0.0)
    return made


class SlowPage:
    """Draws one frame after the other, each in so many seconds, and answers each when it is drawn."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.ready_at = seconds, 0.0
        self.answers: list[tuple[float, int]] = []

    def take(self, number: int, now: float) -> None:
        self.ready_at = max(self.ready_at, now) + self.seconds
        self.answers.append((self.ready_at, number))

    def answered(self, pace: Pace, now: float) -> None:
        while self.answers and self.answers[0][0] <= now:
            at, number = self.answers.pop(0)
            pace.answered(number, at)


def most_waiting(pace: Pace, *pages: SlowPage, looks: int = 3000, every: float = 0.19) -> tuple[int, int]:
    """Frames that went out, and the most that one page had still to draw at once."""
    number = most = 0
    for look in range(looks):
        now = look * every
        for page in pages:
            page.answered(pace, now)
        if pace.free(now):
            number += 1
            pace.sent(number, now)
            for page in pages:
                page.take(number, now)
        most = max(most, *(len(page.answers) for page in pages))
    return number, most


def test_without_a_page_nothing_waits() -> None:
    pace = Pace()
    for number in range(1, 100):
        assert pace.free(now=0.0)
        pace.sent(number, now=0.0)
    assert not pace.drawn


def test_the_next_frame_waits_for_the_answer_and_rests_twice_as_long(pace: Pace) -> None:
    pace.sent(1, now=10.0)
    assert not pace.free(now=10.0)
    assert not pace.drawn
    pace.answered(1, now=10.5)
    assert pace.drawn
    assert not pace.free(now=11.4)
    assert pace.free(now=11.5)


def test_a_page_that_never_answers_holds_a_frame_for_two_seconds(pace: Pace) -> None:
    for number in range(1, 2 * REMEMBERED):
        now = PATIENCE * number
        assert pace.free(now)
        pace.sent(number, now)
        assert not pace.free(now + 0.99 * PATIENCE)
    assert len(pace._times) == REMEMBERED


def test_an_answer_to_an_earlier_frame_frees_nothing(pace: Pace) -> None:
    pace.sent(1, now=0.0)
    pace.sent(2, now=2.0)  # After the patience.
    pace.answered(1, now=2.5)
    assert not pace.free(now=9.4)  # It needs 2.5 s.
    pace.answered(2, now=4.0)
    assert pace.free(now=4.0)


def test_the_last_answer_counts_not_the_highest(pace: Pace) -> None:
    pace.sent(1, now=0.0)
    pace.sent(2, now=2.0)
    pace.answered(2, now=2.1)
    assert pace.drawn
    pace.answered(1, now=2.2)  # Another page is behind.
    assert not pace.drawn
    pace.answered(2, now=2.5)
    assert pace.drawn


def test_a_hiccup_is_forgotten(pace: Pace) -> None:
    now, waits = 0.0, []
    for number, needs in enumerate([0.1, 1.6, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], start=1):
        pace.sent(number, now)
        pace.answered(number, now + needs)
        start = now
        while not pace.free(now):
            now += 0.05
        waits.append(now - start)
    assert waits[1] > 1.9
    assert waits == sorted(waits[:1]) + sorted(waits[1:], reverse=True)
    assert waits[-1] < 0.4


def test_a_page_that_opens_late_does_not_count_as_slow() -> None:
    pace = Pace()
    pace.sent(1, now=0.0)
    pace.answered(1, now=0.5)
    assert pace.free(now=0.5)
    pace.sent(2, now=1.0)
    pace.answered(2, now=1.1)
    pace.answered(2, now=900.0)  # Opened once more.
    assert pace.free(now=900.0)
    pace.sent(3, now=901.0)
    pace.answered(3, now=901.1)
    assert pace.free(now=901.0 + PATIENCE)


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.7, 1.9, 3.0, 11.0])
def test_no_page_falls_behind_however_slow(pace: Pace, seconds: float) -> None:
    frames, most = most_waiting(pace, SlowPage(seconds))
    assert most == 1 if seconds < PATIENCE else most <= 7
    # And it is not left waiting: about a third of its time goes into drawing.
    assert frames > 3000 * 0.19 / max(0.19, 3 * seconds) / 1.5


def test_of_two_pages_the_slower_sets_the_pace(pace: Pace) -> None:
    frames, most = most_waiting(pace, SlowPage(0.05), SlowPage(0.9))
    assert most <= 5  # Those that went out before it was first heard.
    assert frames > 3000 * 0.19 / 2.7 / 2


def test_a_page_that_closes_and_another_that_opens(pace: Pace) -> None:
    pace.sent(1, now=0.0)
    pace.answered(1, now=0.1)
    pace.sent(2, now=1.0)  # It has closed.
    assert not pace.free(now=2.9)
    assert pace.free(now=3.0)
    pace.sent(3, now=3.0)
    pace.answered(3, now=3.4)  # The new one drew the last that it found.
    assert pace.free(now=4.2)
