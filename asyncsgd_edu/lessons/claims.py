"""The claims page: every law that can be computed here, run now and set beside its prediction.

No figure on the page is stored: each is worked out anew from the seed. What a law says
is in `rules`, how it is tried in the files named `*_claims`, how it is judged in `claim`;
here they are run in turn and laid out. TensorFlow is loaded by the laws that need it, and
only when they are run.
"""

import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from itertools import chain
from os import PathLike

from asyncsgd_edu.lessons import (
    delay_claims,
    floor_claims,
    gap_claims,
    stability_claims,
    staleness_claims,
    time_claims,
    trainer_claims,
)
from asyncsgd_edu.lessons.claim import Claim
from asyncsgd_edu.rules.arguments import MAX_SEED, whole_number

PARTS = (staleness_claims, trainer_claims, stability_claims, time_claims, floor_claims, gap_claims)
# A law that is tried in two ways has a function in each of two parts.
CLAIMS: dict[int, list[Callable[[int], Iterator[Claim]]]] = {
    law: [part.CLAIMS[law] for part in PARTS if law in part.CLAIMS]
    for law in sorted({law for part in PARTS for law in part.CLAIMS})
}
LAWS = tuple(sorted([*CLAIMS, delay_claims.LAW]))

HEADINGS = ("law", "what", "prediction", "measured", "tolerance", "verdict", "seed", "seconds")
WIDTH = 66  # Characters of `what` in a line of the text table.


def claims(laws: Sequence[int] | None = None, seed: int = 0, delays: str | PathLike[str] | None = None) -> list[Claim]:
    """Run the given laws, or all of them, and say what came out.

    `delays` is a folder of logs for law 6, which is left out of all without one (`not_run` says so).
    Each claim's `seconds` are those that its own part of the law's runs took. Raises ValueError
    for a law that is not on the page or lacks its logs, and for logs that are none.

    >>> [claim.verdict for claim in claims([15], seed=0)]
    ['holds']
    """
    seed = whole_number("seed", seed, 0, MAX_SEED)
    wanted = _wanted(laws, delays)
    logs = delay_claims.read(delays) if delays is not None else {}
    found = []
    for law in wanted:
        began = time.perf_counter()
        tried = [delay_claims.law_6(logs)] if law == delay_claims.LAW else [run(seed) for run in CLAIMS[law]]
        for claim in chain.from_iterable(tried):
            now = time.perf_counter()
            found.append(replace(claim, law=law, seed=seed, seconds=now - began))
            began = now
    return found


def _wanted(laws: Sequence[int] | None, delays: object) -> list[int]:
    """The laws to run, each once. Raises ValueError for one that is not here, and for logs too few or too many."""
    if laws is None:
        return [law for law in LAWS if law != delay_claims.LAW or delays is not None]
    wanted = list(dict.fromkeys(laws))
    for law in wanted:
        if isinstance(law, bool) or law not in LAWS:
            raise ValueError(f"law must be one of {', '.join(map(str, LAWS))}, got {law!r}")
    if delay_claims.LAW in wanted and delays is None:
        raise ValueError(delay_claims.NOT_RUN)
    if delays is not None and delay_claims.LAW not in wanted:
        raise ValueError(f"delays are for law {delay_claims.LAW}, which is not among the laws asked for: {wanted}")
    return wanted


def not_run(laws: Sequence[int] | None = None, delays: str | PathLike[str] | None = None) -> str:
    """What `claims` leaves out of all laws with these arguments, and why; empty for nothing.

    >>> not_run().split(":")[0]
    'law 6 was not run'
    """
    return delay_claims.NOT_RUN if laws is None and delays is None else ""


def table(claims: Sequence[Claim], note: str = "") -> str:
    """The claims as lines of text under a heading; the reason for an `outside` stands below its claim, a note last."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    for claim in claims:
        number, what, *rest = _cells(claim)
        first, *more = textwrap.wrap(what, WIDTH, break_on_hyphens=False)
        rows += [(number, first, *rest), *(_only(line) for line in more)]
        rows += [_only(f"  {line}") for line in textwrap.wrap(claim.outside, WIDTH - 2, break_on_hyphens=False)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    rows.insert(1, tuple("-" * width for width in widths))
    words = {1, 5}  # Columns of words, to the left; numbers go to the right.
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i in words else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, "", total(claims), *([note] if note else [])])


def _only(what: str) -> tuple[str, ...]:
    return ("", what, *[""] * (len(HEADINGS) - 2))


def total(claims: Sequence[Claim]) -> str:
    """How many hold, fail and are outside, in a line.

    >>> total([Claim("a", 1, 1), Claim("b", 1, 2)])
    '2 claims: 1 holds, 1 fails, 0 outside its assumptions; 0.0 s'
    """
    verdicts = [claim.verdict for claim in claims]
    counts = [f"{verdicts.count(word)} {word}" for word in ("holds", "fails", "outside its assumptions")]
    return f"{len(claims)} claims: {', '.join(counts)}; {sum(claim.seconds for claim in claims):.1f} s"


def html(claims: Sequence[Claim], note: str = "") -> str:
    """The claims, and a note, as one page that needs no network."""
    head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
    body = []
    for claim in claims:
        cells = [escape(cell) for cell in _cells(claim)]
        if claim.outside:
            cells[5] += f"<br><small>{escape(claim.outside)}</small>"
        kind = claim.verdict.split()[0]
        body.append(f'<tr class="{kind}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return PAGE.format(
        head=head, body="\n".join(body), total=escape(total(claims)), note=escape(note) and f"<p>{escape(note)}</p>"
    )


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Laws that hold or fail</title>
<style>
body {{ font: 16px/1.4 sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .3em .7em; border-bottom: 1px solid #ccc; text-align: left; vertical-align: top; }}
tr.holds td:nth-child(6) {{ color: #06652f; }}
tr.fails td:nth-child(6) {{ color: #a3121b; font-weight: bold; }}
tr.outside td {{ color: #595959; }}
</style></head><body>
<h1>Laws that hold or fail</h1>
<p>Every number was computed when this page was made. {total}</p>
{note}
<table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table></body></html>
"""


def _cells(claim: Claim) -> tuple[str, ...]:
    """A claim's cells in words, in the order of HEADINGS."""
    sign = "" if claim.relation == "=" else f"{claim.relation} "
    return (
        str(claim.law),
        claim.what,
        sign + _number(claim.prediction),
        _number(claim.measured),
        _number(claim.tolerance) if claim.tolerance else "exact" if claim.relation == "=" else "-",
        claim.verdict,
        str(claim.seed),
        f"{claim.seconds:.2f}",
    )


def _number(value: float) -> str:
    """Whole numbers whole, others to four digits."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e9 else f"{value:.4g}"
