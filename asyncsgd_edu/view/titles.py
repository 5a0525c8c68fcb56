"""What every static figure has: a size, a title that says what was special, a sentence where it is empty.

Nothing here knows which figure it is.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view import panels

HEIGHT = 420


def title(
    figure: go.Figure, words: str, traces: Sequence[Trace], *more: str, names: Sequence[str] | None = None
) -> None:
    """Give a figure its title and, below it, what was special of its traces, and `more` lines.

    Where that is not the same for all of them it is said of each, by `names` or in order.
    """
    special = [panels.conditions(t.header) for t in traces]
    if len(traces) == 1:
        below = [panels.subject(traces[0].header), *filter(None, special)]
    elif len(set(special)) <= 1:
        below = list(filter(None, special[:1]))
    else:
        called = names or [f"{number}." for number in range(1, len(traces) + 1)]
        below = [f"{name}: {one or 'nothing injected'}" for name, one in zip(called, special, strict=True)]
    for line in (" · ".join(below), *more):
        words += f"<br><sub>{line}</sub>" if line else ""
    figure.update_layout(
        template="plotly_white", height=HEIGHT, title={"text": words, "x": 0.02, "y": 0.96, "yanchor": "top"},
        margin={"l": 70, "r": 20, "t": 80 + 18 * len(more), "b": 60}, font={"size": 13}, uirevision="kept",
    )  # fmt: skip


def say(figure: go.Figure, sentence: str) -> go.Figure:
    """The figure with a sentence in its middle."""
    figure.add_annotation(text=sentence, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font={"size": 18})
    return figure


def or_empty(figure: go.Figure, traces: Sequence[Trace]) -> go.Figure:
    """The figure, which says so where nothing has happened yet."""
    return figure if any(trace.updates for trace in traces) else say(figure, "no updates yet")


def checked(trace: object) -> Trace:
    """Return `trace` when it is one; raise TypeError otherwise."""
    if not isinstance(trace, Trace):
        raise TypeError(f"a figure is drawn from a Trace such as trainer.trace, got {trace!r}")
    return trace
