"""Files that are not a whole trace: each is refused with its line and reason, none executes anything.

One that was cut short loads as a prefix. Files that are a trace are in test_tracefile.py.
"""

import gzip
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from schedules import same, small

from asyncsgd_edu import Trace, TraceError
from asyncsgd_edu.trace import COLUMNS

LOSS = list(COLUMNS).index("loss")
WORKER = list(COLUMNS).index("worker")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound file of 20 rows: line 1 is the header, 2 to 21 the rows, 22 the closing line."""
    small(updates=20).save(tmp_path / "run.jsonl")
    return tmp_path / "run.jsonl"


def edit(path: Path, line: int, change: Callable[[str], str]) -> None:
    lines = path.read_text().split("\n")
    lines[line - 1] = change(lines[line - 1])
    path.write_text("\n".join(lines))


def with_value(column: int, value: object) -> Callable[[str], str]:
    def change(line: str) -> str:
        row = json.loads(line)
        row[column] = value
        return json.dumps(row)

    return change


def with_field(name: str, value: object) -> Callable[[str], str]:
    return lambda line: json.dumps({**json.loads(line), name: value})


def refuses(path: Path, line: int, reason: str, *, prefix: bool = False) -> None:
    with pytest.raises(TraceError, match=reason) as caught:
        Trace.load(path, prefix=prefix)
    assert str(path) in str(caught.value)
    assert f"line {line}:" in str(caught.value), caught.value


def test_an_empty_file_is_refused(path: Path) -> None:
    path.write_text("")
    refuses(path, 1, "empty")
    refuses(path, 1, "empty", prefix=True)


def test_a_file_that_is_not_there_is_an_os_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Trace.load(path.with_name("no.jsonl"))


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused(path: Path, version: object) -> None:
    edit(path, 1, with_field("version", version))
    refuses(path, 1, "reads version 1")


@pytest.mark.parametrize("header", ["{}", "[]", "3", '{"format": "other"}', "not json", '"text"', "{"])
def test_another_format_is_refused(path: Path, header: str) -> None:
    edit(path, 1, lambda _: header)
    refuses(path, 1, "header|format")


def test_a_missing_column_is_named(path: Path) -> None:
    edit(path, 1, with_field("columns", [c for c in COLUMNS if c != "read_spread"]))
    refuses(path, 1, "missing column read_spread")


def test_columns_in_another_order_are_refused(path: Path) -> None:
    edit(path, 1, with_field("columns", list(reversed(COLUMNS))))
    refuses(path, 1, "expected worker, batch")


@pytest.mark.parametrize("value", ["12", True, None, 1.0, 2.5, [1], {"a": 1}, 2**31, -(2**40), 10**30])
def test_what_is_no_int32_in_a_whole_column_is_named(path: Path, value: object) -> None:
    edit(path, 7, with_value(WORKER, value))
    refuses(path, 7, "worker must be a whole number")


@pytest.mark.parametrize("value", ["0.5", "nan", "Infinity", True, [0.5], {}, ""])
def test_what_is_no_number_in_a_float_column_is_named(path: Path, value: object) -> None:
    edit(path, 9, with_value(LOSS, value))
    refuses(path, 9, "loss must be a number")


@pytest.mark.parametrize("row", ["[1, 2]", "[]", "{}", '"123456789"', "3", "null", "", "not json", "[1,2,3"])
def test_what_is_no_row_is_refused_with_its_line(path: Path, row: str) -> None:
    edit(path, 12, lambda _: row)
    refuses(path, 12, "expected a list of 9 values|not JSON")
    refuses(path, 12, "expected a list of 9 values|not JSON", prefix=True)


def test_two_rows_on_one_line_are_refused(path: Path) -> None:
    edit(path, 5, lambda line: f"{line},{line}")
    refuses(path, 5, "not JSON")


def test_a_row_too_long_is_refused(path: Path) -> None:
    edit(path, 5, lambda line: line.replace("]", ",1]"))
    refuses(path, 5, "found 10 values")


@pytest.mark.parametrize("line", [1, 3, 22])
def test_a_line_nested_too_deep_is_refused(path: Path, line: int) -> None:
    edit(path, line, lambda _: ("{" if line == 22 else "") + "[" * 100_000)
    refuses(path, line, "JSON")


@pytest.mark.parametrize("rows", [19, 21, -1, "20", None])
def test_a_closing_line_that_counts_wrong_is_refused(path: Path, rows: object) -> None:
    edit(path, 22, with_field("rows", rows))
    refuses(path, 22, "rows")


@pytest.mark.parametrize("ended", [None, "finished", {"how": "exploded"}, {"how": "finished", "mood": "good"}])
def test_a_closing_line_that_says_no_known_end_is_refused(path: Path, ended: object) -> None:
    edit(path, 22, with_field("ended", ended))
    with pytest.raises(TraceError):
        Trace.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("workers", "two"), ("workers", 0), ("seed", "x"), ("trainer", 3), ("devices", 3), ("problem", 1), ("more", 1)],
)
def test_a_header_of_wrong_kind_is_refused(path: Path, name: str, value: object) -> None:
    edit(path, 1, with_field(name, value))
    refuses(path, 1, "header")


@pytest.mark.parametrize("in_flight", [3, [1], [{}], [{"worker": "a", "batch": 0, "read_version": 0, "read_time": 0}]])
def test_gradients_in_flight_of_wrong_kind_are_refused(path: Path, in_flight: object) -> None:
    edit(path, 22, with_field("ended", {"how": "stopped", "in_flight": in_flight}))
    with pytest.raises(TraceError):
        Trace.load(path)


def test_bytes_that_are_not_text_are_refused_with_their_line(path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[5] = b"[\xff\xfe]"
    path.write_bytes(b"\n".join(lines))
    refuses(path, 6, "text")


# --- cut short


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.999])
def test_a_file_cut_in_the_middle_of_a_line_loads_as_a_prefix(path: Path, keep: float) -> None:
    whole, text = Trace.load(path), path.read_text()
    header = text.index("\n") + 1
    cut = text[: header + int((len(text) - header) * keep)].rstrip("\n")[:-1]
    path.write_text(cut)
    refuses(path, cut.count("\n") + 1, "cut in the middle")
    part = Trace.load(path, prefix=True)
    assert same(part, Trace.load(path, prefix=True))
    assert part.header.ended.how == "running"
    assert len(part) == cut.count("\n") - 1
    assert part.apply_version.tolist() == whole.apply_version[: len(part)].tolist()
    assert part.audit() == []


def test_a_file_without_its_closing_line_says_so_and_loads_as_a_prefix(path: Path) -> None:
    path.write_text("\n".join(path.read_text().split("\n")[:21]) + "\n")
    refuses(path, 21, "no closing line")
    assert len(Trace.load(path, prefix=True)) == 20


def test_a_whole_file_loads_alike_as_a_prefix(path: Path) -> None:
    assert same(Trace.load(path, prefix=True), Trace.load(path))


def test_a_header_cut_short_is_refused_even_as_a_prefix(path: Path) -> None:
    path.write_text(path.read_text()[:30])
    refuses(path, 1, "empty|header", prefix=True)


@pytest.mark.parametrize("updates", [300, 30_000])
def test_a_truncated_gzip_loads_as_a_prefix(tmp_path: Path, updates: int) -> None:
    path = tmp_path / "run.jsonl.gz"
    trace = small(updates=updates)
    trace.save(path)
    compressed = path.read_bytes()
    path.write_bytes(compressed[: len(compressed) * 2 // 3])
    with pytest.raises(TraceError, match=r"line \d+"):
        Trace.load(path)
    part = Trace.load(path, prefix=True)
    assert updates / 3 < len(part) < updates
    assert part.apply_version.tolist() == list(range(len(part)))


def test_damage_inside_a_gzip_is_a_trace_error(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl.gz"
    small(updates=300).save(path)
    sound = path.read_bytes()
    for at in range(0, len(sound), 37):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :])
        try:
            Trace.load(path)
        except TraceError:
            continue
        assert at < 40, at  # Time, system and file name in the gzip header say nothing about the content.


def test_plain_text_under_a_gz_name_is_refused(path: Path) -> None:
    renamed = path.rename(path.with_suffix(".jsonl.gz"))
    refuses(renamed, 1, "gzip")


# --- hostile


class Hostile:
    """Would make a file if anything unpickled it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.mark),)


def test_a_hostile_file_executes_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    code = f"__import__('os').mkdir({str(mark)!r})"
    path = tmp_path / "run.jsonl"
    small().save(path)
    sound = path.read_text()
    tag = json.dumps({"__reduce__": code, "py/object": "os.system", "!!python/object/apply:os.mkdir": [str(mark)]})
    attempts = [
        pickle.dumps(Hostile(mark)),
        gzip.compress(pickle.dumps(Hostile(mark))),
        code.encode(),
        sound.replace('"SGD"', tag).encode(),
        sound.replace("[1,0,", f"[{code},0,").encode(),
        sound.replace('"ended"', f'"__class__": {json.dumps(code)}, "ended"').encode(),
    ]
    for attempt in attempts:
        path.write_bytes(attempt)
        try:
            trace = Trace.load(path)
        except TraceError:
            continue
        trace.summary(), trace.audit(), repr(trace), trace.to_frame()
    assert not mark.exists()
    pickle.loads(pickle.dumps(Hostile(mark)))  # The attempt itself is real.
    assert mark.exists()


@pytest.mark.parametrize(
    ("line", "place", "value", "name"),
    [(4, 0, 7, "worker"), (5, 2, 10**15, "read_version"), (6, 3, -5, "apply_version"), (6, 3, 10**12, "apply_version")],
)
def test_numbers_that_no_such_run_can_have_are_refused(
    path: Path, line: int, place: int, value: int, name: str
) -> None:
    def damage(text: str) -> str:
        row = json.loads(text)
        row[place] = value
        return json.dumps(row)

    edit(path, line, damage)
    refuses(path, line, name)


@pytest.mark.parametrize("workers", [8.0, 10**7, 10**30])
def test_a_number_of_workers_that_cannot_be_is_refused(path: Path, workers: float) -> None:
    edit(path, 1, with_field("workers", workers))
    refuses(path, 1, "workers")
