"""Races laid out as a ladder: as text, as a page, as plain values.

From the safest to the fastest way, with the damage of each. Every count is shown
with its trials and with what they leave open; nothing here races or prints.
"""

import os
import textwrap
from collections.abc import Sequence
from html import escape
from typing import Any

from asyncsgd_edu.engines.races import Race, ladder
from asyncsgd_edu.header import packages
from asyncsgd_edu.rules.intervals import CONFIDENCE, Count

LADDER = ("damage", "way of updating", "updates", "lost updates", "worst element", "torn reads", "mixed versions",
          "updates/s")  # fmt: skip
NUMBERS = ("damage", "way of counting", "updates", "lost updates", "duplicate tickets", "updates/s")
WORDS = {0, 1}  # Columns of words, to the left; numbers go to the right.
NOTES = (
    "A step reads two variables, A and then B, and adds exactly 1 to each element of A and then of B (Keras chooses"
    " its own order). Each thread does steps; all start together, again and again. Locked means use_locking=True.",
    "Lost updates: as many as every element of their variable is short of. Worst element: the most steps that are"
    " missing in one element, those included.",
    "Torn reads: reads of one variable in which elements that lost nothing of their own are of different versions,"
    " compared at up to 64 of them. Mixed versions: reads of both variables, neither torn, that are of different"
    " versions. That is staleness of a part of the parameters, and legitimate; it cannot be counted (-) once an update"
    " is lost.",
    f"In brackets: the {CONFIDENCE:.0%} interval of the probability (Clopper and Pearson), which takes trials for"
    " independent. Races come in bursts: it is rather too narrow. None seen is not never.",
    "Ordered by the worst damage seen, then by speed, the slowest first. Speeds include the reads, and are those of"
    " this machine while this ran: compare them within a table only.",
)


def chance(count: Count | None) -> str:
    """A count, its trials, and the interval that they leave open.

    >>> chance(Count(0, 40_000)), chance(Count(223, 800)), chance(None)
    ('0 of 40,000 (at most 0.0092 %)', '223 of 800 (25 to 31 %)', '-')
    """
    if count is None:
        return "-"
    low, high = (f"{100 * end:.2g}" if end < 0.99 else f"{100 * end:.3f}" for end in count.interval)
    if not count.count:
        return f"{count} (at most {high} %)"
    return f"{count} (at least {low} %)" if count.count == count.trials else f"{count} ({low} to {high} %)"


def text(races: Sequence[Race]) -> str:
    """The ladders, one for each number of threads and elements, and what is counted in them."""
    parts = []
    for heading, headings, rows in _ladders(races):
        parts += [heading, _aligned([headings, *rows]), ""]
    return "\n".join([*parts, *(textwrap.fill(note, 120) for note in NOTES), "", _made_by()])


def page(races: Sequence[Race]) -> str:
    """The same as one HTML page that needs no network."""
    parts = []
    for heading, headings, rows in _ladders(races):
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in headings)
        body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        parts.append(
            f"<h2>{escape(heading)}</h2>\n<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
        )
    notes = "\n".join(f"<p>{escape(note)}</p>" for note in (*NOTES, _made_by()))
    return PAGE.format(tables="\n".join(parts), notes=notes)


def plain(races: Sequence[Race]) -> dict[str, Any]:
    """The same as values that JSON has: of each count also its interval."""
    names = (
        "way",
        "title",
        "threads",
        "elements",
        "steps",
        "updates",
        "seconds",
        "updates_per_second",
        "damage",
        "worst",
    )
    rows = []
    for race in races:
        row = {name: getattr(race, name) for name in names}
        for name in ("lost", "parts", "torn", "mixed", "duplicates"):
            count: Count | None = getattr(race, name)
            row[name] = count and {"count": count.count, "trials": count.trials, "interval": list(count.interval)}
        rows.append(row)
    return {"packages": packages(), "cores": os.cpu_count(), "confidence": CONFIDENCE, "races": rows}


def _ladders(races: Sequence[Race]) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Heading, column headings and rows of each ladder."""
    found: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = []
    for threads, elements in dict.fromkeys((r.threads, r.elements) for r in races):
        chosen = [r for r in races if (r.threads, r.elements) == (threads, elements)]
        single = elements == 1
        of = "one number" if single else f"{elements:,} elements a variable"
        cells = [_number(r) if single else _variable(r) for r in ladder(chosen)]
        found.append((f"{threads} threads, {of}", NUMBERS if single else LADDER, cells))
    return found


def _variable(race: Race) -> tuple[str, ...]:
    return (
        race.damage,
        race.title,
        f"{race.updates:,}",
        chance(race.lost),
        f"{race.worst:,} of {race.steps:,}",
        chance(race.torn),
        chance(race.mixed),
        f"{race.updates_per_second:,.0f}",
    )


def _number(race: Race) -> tuple[str, ...]:
    counts = (chance(race.lost), chance(race.duplicates))
    return (race.damage, race.title, f"{race.updates:,}", *counts, f"{race.updates_per_second:,.0f}")


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(c.ljust(w) if i in WORDS else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    return "\n".join([lines[0].rstrip(), "  ".join("-" * width for width in widths), *lines[1:]])


def _made_by() -> str:
    versions = ", ".join(f"{name} {version}" for name, version in packages().items())
    return f"{versions}; {os.cpu_count()} cores, everything on the processor."


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>What threads lose</title>
<style>
body {{ font: 16px/1.4 sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .3em .7em; border-bottom: 1px solid #ccc; text-align: right; vertical-align: top; }}
th:nth-child(-n+2), td:nth-child(-n+2) {{ text-align: left; }}
p {{ max-width: 50em; }}
</style></head><body>
<h1>What threads lose when they update the same variable</h1>
{tables}
{notes}
</body></html>
"""
