"""When the next frame may go: once the page has drawn the last one, and has been left alone for twice as long.

A page that is sent more than it can draw falls behind without end, and a press of Stop then waits behind all that
is still to be drawn. Nothing here knows a figure, a browser or a clock: numbers and times are arguments.
"""

# Seconds that an answer is waited for: a closed page gives none, and a kernel that is busy hears none.
PATIENCE = 2.0
LONGEST = 10.0  # Seconds for a frame, more are not believed: a page may have opened long after the frame was sent.
SHARE = 3  # A page that draws for a third of the time has two thirds for whoever presses and slides.
REMEMBERED = 16  # Frames whose time is remembered, for answers that come late.


class Pace:
    """Says whether the page is ready for a frame, from what it was sent and what it has answered.

    Frames are numbered, rising; an answer is the number of a frame that has been drawn. As long as nobody has ever
    answered there is no page, and nothing to wait for. The last answer counts, not the highest, and a slow answer
    is remembered for a while: where two pages show one figure, the slower one sets the pace. Without an answer the
    next frame goes after `PATIENCE`, or after `SHARE` times what a page has needed, if that is longer: one that needs
    three seconds for a frame is slow, not closed. Times are in seconds, of any clock that rises.

    >>> pace = Pace()
    >>> pace.answered(1, now=0.0)  # A page has opened.
    >>> pace.sent(2, now=1.0)
    >>> pace.free(now=1.4)
    False
    >>> pace.answered(2, now=1.5)
    >>> pace.free(now=2.4), pace.free(now=2.5)
    (False, True)
    """

    def __init__(self) -> None:
        self._seen = False
        self._last, self._last_at, self._said = 0, 0.0, 0
        self._times: dict[int, float] = {}
        self._needs = 0.0  # Seconds that the page needs for a frame, as far as is known.

    @property
    def drawn(self) -> bool:
        """Whether a page has answered the last frame."""
        return self._seen and self._said >= self._last

    def sent(self, number: int, now: float) -> None:
        """Frame `number` goes out."""
        self._last, self._last_at = number, now
        if self._seen:  # Else nobody is there who would need any time.
            self._times[number] = now
            if len(self._times) > REMEMBERED:
                del self._times[min(self._times)]

    def answered(self, number: int, now: float) -> None:
        """A page says that it has drawn frame `number`."""
        self._seen, self._said = True, number
        if number in self._times:
            self._needs = max(min(now - self._times[number], LONGEST), self._needs / 2)

    def free(self, now: float) -> bool:
        """Whether the next frame may go."""
        if not self._seen:
            return True
        limit = min if self.drawn else max
        return now >= self._last_at + limit(PATIENCE, SHARE * self._needs)
