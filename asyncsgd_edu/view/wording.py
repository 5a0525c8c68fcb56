"""What the dashboard says, as HTML: the status line and the table of finished runs.

Strings from reports and runs, nothing else: no widget, and no number that is not in them.
"""

import html
import math
from collections.abc import Sequence

from asyncsgd_edu.view.conductor import Report, Run
from asyncsgd_edu.view.live import GOING

ALARM = "#B00020"
SHOWN_RUNS = 12
CELL = "padding:0 5px"


def alarm(words: str) -> str:
    """Something that went wrong."""
    return f'<b style="color:{ALARM}">Error: {html.escape(words)}</b>'


def status(report: Report) -> str:
    """A report as two lines of text: always two, so that nothing below them jumps."""
    if report.state == "building":
        first, second = "<b>building…</b>", "loading TensorFlow and tracing the training step; Stop works here too"
    elif not report.target:
        first, second = f"<b>{report.state}</b> · version 0", "press Run"
    elif report.state == "replaying":
        first = "<b>simulated</b>, now doing the arithmetic of its gradients…"
        second = html.escape(report.conditions)
    else:
        version = f"version {report.version} of {report.target}"
        parts = [version, report.staleness, report.loss, _accuracy(report)]
        first = f"<b>{report.state}</b> · " + " · ".join(html.escape(part) for part in parts if part)
        second = html.escape(report.conditions or "real durations, nothing injected")
    return lines(first, alarm(report.problem) if report.problem else second)


def _accuracy(report: Report) -> str:
    if report.accuracy is not None:
        return f"held-out accuracy {report.accuracy:.3f}"
    return "held-out accuracy follows at the end" if report.state in (*GOING, "simulated", "evaluating") else ""


def lines(first: str, second: str) -> str:
    """Two lines of HTML, one above the other."""
    return f'<div style="line-height:22px">{first}<br>{second}</div>'


def table(runs: Sequence[Run]) -> str:
    """The finished runs as an HTML table, newest last."""
    if not runs:
        return "<i>Finished runs are listed here.</i>"
    names = (
        "run", "mode", "workers", "policy", "learning rate", "problem", "durations", "ended", "updates",
        "seconds", "mean staleness", "N&nbsp;-&nbsp;1", "held-out<br>loss", "accuracy",
    )  # fmt: skip
    rows = []
    for run in runs[-SHOWN_RUNS:]:
        c = run.configuration
        cells = (
            str(run.number) + (f" (after {run.after})" if run.after else ""), c.mode, str(c.workers),
            c.policy_words, f"{c.learning_rate:g}", c.problem, c.injected, run.how, str(run.updates),
            f"{run.seconds:.2f}", _number(run.mean_staleness, ".2f"),
            "-" if run.expected is None else str(run.expected), _number(run.loss, ".3g"),
            "-" if run.accuracy is None else f"{run.accuracy:.3f}",
        )  # fmt: skip
        row = "".join(f'<td style="{CELL}{_whole(cell)}">{html.escape(cell)}</td>' for cell in cells)
        rows.append(f"<tr>{row}</tr>")
    head = "".join(f'<th style="{CELL};text-align:left;vertical-align:bottom">{name}</th>' for name in names)
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<table style="line-height:1.5;font-size:12px">{body}</table>'


def _whole(cell: str) -> str:
    """Short cells stay on one line, so that a long policy or law makes the row higher and not wider."""
    return ";white-space:nowrap" if len(cell) <= 14 else ""


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "-" if math.isnan(value) else "infinite"
