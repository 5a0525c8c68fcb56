"""What the dashboard says, as HTML: the status line and the table of finished runs.

Strings from reports and runs, nothing else: no widget, and no number that is not in them.
"""

import html
import math
from collections.abc import Sequence

from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view.live import GOING
from asyncsgd_edu.view.predictions import Law, Prediction
from asyncsgd_edu.view.reports import REPLAYING, Report, Run

ALARM = "#B00020"
SHOWN_RUNS = 12
CELL = "padding:0 4px"
HEAD = f"{CELL};text-align:left;vertical-align:bottom"


def alarm(words: str) -> str:
    """Something that went wrong."""
    return f'<b style="color:{ALARM}">Error: {html.escape(words)}</b>'


def status(report: Report) -> str:
    """A report as three lines of text: always three, so that nothing below them jumps."""
    if report.state == "building":
        return lines("<b>building…</b>", "loading TensorFlow and tracing the training step; Stop works here too")
    if not report.target:
        return lines(f"<b>{report.state}</b> · version 0", alarm(report.problem) if report.problem else "press Run")
    first = [f"version {report.version} of {report.target}", report.staleness]
    second = [report.loss, _accuracy(report), report.pace]
    return lines(
        f"<b>{html.escape(report.state)}</b> · {_row(first)}",
        _row(second),
        alarm(report.problem) if report.problem else html.escape(report.conditions),
    )


def noted(trace: Trace, count: int) -> str:
    """That the first `count` gradients of a run have been written down, and what of them has not."""
    torn = "; what was torn or lost is not in the text" if trace.header.access != "consistent" else ""
    return lines("<b>written down</b>", f"the first {count} of {len(trace)} gradients of the last run{torn}; press Run")


def _row(parts: Sequence[str]) -> str:
    return " · ".join(html.escape(part) for part in parts if part)


def _accuracy(report: Report) -> str:
    if report.accuracy is not None:
        return f"held-out accuracy {report.accuracy:.3f}"
    return "held-out accuracy follows at the end" if report.state in (*GOING, *REPLAYING, "evaluating") else ""


def lines(*some: str) -> str:
    """Lines of HTML, one below the other."""
    return f'<div style="line-height:22px">{"<br>".join(some)}</div>'


def predicted(prediction: Prediction | str) -> str:
    """What the laws say of the controls as they are now, or why these cannot be run."""
    if isinstance(prediction, str):
        return lines(f"<b>Predicted</b>: nothing, this cannot be run: {html.escape(prediction)}")
    return lines(f"<b>Predicted</b>: {html.escape(prediction.words)}")


def table(runs: Sequence[Run]) -> str:
    """The finished runs as an HTML table, newest last; two rows each, to fit a narrow page.

    What was run above; below, what came out, the laws' predictions beside the measurements.
    """
    if not runs:
        return "<i>Finished runs are listed here.</i>"
    return (
        f'<table style="line-height:1.5;font-size:12px"><thead>{_head()}</thead>'
        f"<tbody>{''.join(_run(run) for run in runs[-SHOWN_RUNS:])}</tbody></table>{_NOTE}"
    )


_HEADS = ("ended", "updates", "seconds", "mean", "law", "mean", "law", "loss", "accuracy")
_NOTE = (
    '<div style="font-size:12px;line-height:1.5;margin:4px">law: what is predicted without running anything; '
    "- where there is none; ≤ at most, in staleness for each gradient. Times by law are without arithmetic.</div>"
)


def _head() -> str:
    # N: the number of workers.
    above = (("run", 1, 2), ("", 3, 1), ("staleness", 2, 1), ("ms per update", 2, 1), ("held-out", 2, 1))
    first = "".join(
        f'<th scope="col{"group" * (across > 1)}" colspan="{across}" rowspan="{down}" style="{HEAD}">{name}</th>'
        for name, across, down in above
    )
    second = "".join(f'<th scope="col" style="{HEAD}">{name}</th>' for name in _HEADS)
    return f"<tr>{first}</tr><tr>{second}</tr>"


def _run(run: Run) -> str:
    c, law = run.configuration, run.configuration.prediction
    times = "one event a virtual second" if c.mode == "written" else f"durations {c.injected}"
    what = (c.mode, _several(c.workers, "worker"), "" if c.mode == "written" else c.policy_words, *c.special, c.problem,
            f"learning rate {c.learning_rate:g}", times, f"after run {run.after}" if run.after else "")  # fmt: skip
    measured = 1000 * run.seconds / run.updates if run.updates and law.timed else float("nan")
    digits = ".0f" if measured >= 100 else ".3g"
    cells = (
        run.how, str(run.updates), f"{run.seconds:.2f}",
        _number(run.mean_staleness, ".2f"), _law(law.staleness, 1), _number(measured, digits), _law(law.seconds, 1000),
        _number(run.loss, ".3g"), "-" if run.accuracy is None else f"{run.accuracy:.3f}",
    )  # fmt: skip
    row = "".join(f'<td style="{CELL}">{html.escape(cell)}</td>' for cell in cells)
    number = f'<th scope="rowgroup" rowspan="2" style="{HEAD};vertical-align:top">{run.number}</th>'
    above = f'<td colspan="{len(cells)}" style="{CELL};text-align:left">{_row(what)}</td>'
    return f"<tr>{number}{above}</tr><tr>{row}</tr>"


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _law(law: Law, times: float) -> str:
    """A predicted number for a cell."""
    if law.value is None:
        return "-"
    value = times * law.value
    return f"{'≤ ' * law.bound}{value:.0f}" if value >= 100 else f"{'≤ ' * law.bound}{value:.3g}"


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "-" if math.isnan(value) else "infinite"
