"""The claims page: every law that can be computed here, run now and set beside its prediction.

No figure on the page is stored: each is worked out anew from the seed. What a law says
is in `rules`, how it is tried in `staleness_claims`, `stability_claims` and `time_claims`,
how it is judged in `claim`; here they are run in turn and laid out.
"""

import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from asyncsgd_edu.lessons import stability_claims, staleness_claims, time_claims
from asyncsgd_edu.lessons.claim import Claim
from asyncsgd_edu.rules.arguments import MAX_SEED, whole_number

CLAIMS = dict(sorted({**staleness_claims.CLAIMS, **stability_claims.CLAIMS, **time_claims.CLAIMS}.items()))

HEADINGS = ("law", "what", "prediction", "measured", "tolerance", "verdict", "seed", "seconds")
WIDTH = 66  # Characters of `what` in a line of the text table.


def claims(laws: Sequence[int] | None = None, seed: int = 0) -> list[Claim]:
    """Run the given laws, or all of them, and say what came out.

    Each claim's `seconds` are those that its own part of the law's runs took. Raises ValueError
    for a law that is not on the page.

    >>> [claim.verdict for claim in claims([2], seed=0)]
    ['holds', 'holds']
    """
    seed = whole_number("seed", seed, 0, MAX_SEED)
    wanted = list(CLAIMS) if laws is None else list(dict.fromkeys(laws))
    for law in wanted:
        if isinstance(law, bool) or law not in CLAIMS:
            raise ValueError(f"law must be one of {', '.join(map(str, CLAIMS))}, got {law!r}")
    found = []
    for law in wanted:
        began = time.perf_counter()
        for claim in CLAIMS[law](seed):
            now = time.perf_counter()
            found.append(replace(claim, law=law, seed=seed, seconds=now - began))
            began = now
    return found


def table(claims: Sequence[Claim]) -> str:
    """The claims as lines of text under a heading; the reason for an `outside` stands below its claim."""
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
    return "\n".join([*lines, "", total(claims)])


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


def html(claims: Sequence[Claim]) -> str:
    """The claims as one page that needs no network."""
    head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
    body = []
    for claim in claims:
        cells = [escape(cell) for cell in _cells(claim)]
        if claim.outside:
            cells[5] += f"<br><small>{escape(claim.outside)}</small>"
        kind = claim.verdict.split()[0]
        body.append(f'<tr class="{kind}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return PAGE.format(head=head, body="\n".join(body), total=escape(total(claims)))


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
