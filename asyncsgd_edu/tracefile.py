"""How a version log lies on disk: JSON lines, readable in an editor.

The first line is the header, each further line one gradient, the last line
says how the run ended. A file without that last line was cut short; what is
whole of it can be loaded as a prefix. Reading never executes anything.
"""

import gzip
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

FORMAT = "asyncsgd-trace"
VERSION = 1
CHUNK = 50_000  # Rows turned into JSON at a time: bounds memory, keeps the loop out of Python.

Columns = Mapping[str, np.ndarray]


class TraceError(ValueError):
    """A trace file that cannot be read: says which line and why."""


def open_text(path: str | os.PathLike[str], mode: str) -> IO[str]:
    """Open `path` as UTF-8 text, through gzip when its name ends in `.gz`."""
    if Path(path).suffix == ".gz":
        return gzip.open(path, mode + "t", encoding="utf-8", compresslevel=5)  # type: ignore[return-value]
    return open(path, mode, encoding="utf-8")


def header_line(header: Mapping[str, Any], names: list[str]) -> str:
    """First line of a file: format, version, column names, then the run's header."""
    return json.dumps({"format": FORMAT, "version": VERSION, "columns": names, **header}) + "\n"


def closing_line(ended: Mapping[str, Any], rows: int) -> str:
    """Last line of a whole file: how the run ended and how many rows came before."""
    return json.dumps({"ended": dict(ended), "rows": rows}) + "\n"


def row_lines(columns: Columns) -> Iterator[str]:
    """Blocks of text, one JSON list a row. NaN is written as null, infinities as "inf" and "-inf"."""
    length = len(next(iter(columns.values())))
    for low in range(0, length, CHUNK):
        lists = []
        for values in columns.values():
            part = values[low : low + CHUNK]
            lists.append(_floats(part) if part.dtype.kind == "f" else part.tolist())
        yield "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in zip(*lists, strict=True))


def _floats(values: np.ndarray) -> list[float | str | None]:
    # float32 goes through its own shortest text: 0.1 rather than 0.10000000149011612.
    plain = [float(str(v)) for v in values] if values.dtype == np.float32 else values.tolist()
    if np.isfinite(values).all():
        return plain
    return [None if math.isnan(v) else str(v) if math.isinf(v) else v for v in plain]


def write(path: str | os.PathLike[str], header: Mapping[str, Any], columns: Columns, ended: Mapping[str, Any]) -> None:
    """Write a whole file. It appears under its name only when it is complete."""
    path = Path(path)
    # The suffix decides about gzip, so the temporary name must keep it.
    partial = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with open_text(partial, "w") as file:
            file.write(header_line(header, list(columns)))
            for block in row_lines(columns):
                file.write(block)
            file.write(closing_line(ended, len(next(iter(columns.values())))))
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read(
    path: str | os.PathLike[str], dtypes: Mapping[str, np.dtype], *, prefix: bool = False
) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, Any] | None]:
    """Return header, columns and closing line (None for a file that was cut and read as a `prefix`).

    Raises TraceError, naming the line, for anything that is not a trace of this version.
    """
    lines, torn = _lines(path, prefix)
    if not lines:
        raise TraceError(f"{path}: line 1: the file is empty; a trace starts with its header")
    header = _header(path, lines[0], dtypes)
    closing = None
    last = len(lines)
    if not torn and last > 1 and lines[-1].startswith("{"):
        closing = _closing(path, lines[-1], last)
        last -= 1
    elif not prefix:
        raise TraceError(f"{path}: line {last}: cut short, no closing line says how the run ended; {_HINT}")
    columns = _columns(path, lines[1:last], dtypes)
    if closing is not None and closing["rows"] != last - 1:
        raise TraceError(f"{path}: line {last + 1}: says {closing['rows']} rows, the file has {last - 1}")
    return header, columns, closing


_HINT = "Trace.load(path, prefix=True) loads the rows that are whole"


def _lines(path: str | os.PathLike[str], prefix: bool) -> tuple[list[str], bool]:
    """The whole lines of a file, and whether something was torn off at its end."""
    data, torn = Path(path).read_bytes(), False
    if Path(path).suffix == ".gz":
        data, torn = _unpacked(path, data)
        if torn and not prefix:
            line = data.count(b"\n") + 1
            raise TraceError(f"{path}: line {line}: the compressed file is cut short; {_HINT}")
    if torn or not data.endswith(b"\n"):
        data, _, rest = data.rpartition(b"\n")
        if rest and not prefix:
            line = data.count(b"\n") + bool(data) + 1
            raise TraceError(f"{path}: line {line}: cut in the middle of the line {rest[:60]!r}; {_HINT}")
        torn = torn or bool(rest)
        data += b"\n" if data else b""
    try:
        return data.decode("utf-8").split("\n")[:-1], torn
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TraceError(f"{path}: line {line}: not UTF-8 text ({error.reason})") from error


def _unpacked(path: object, packed: bytes) -> tuple[bytes, bool]:
    """What a gzip file holds, as far as it goes, and whether it was cut short."""
    parts: list[bytes] = []
    while packed:
        member = zlib.decompressobj(31)  # 31: gzip, not bare zlib.
        try:
            parts.append(member.decompress(packed))
        except zlib.error as error:
            line = b"".join(parts).count(b"\n") + 1
            raise TraceError(f"{path}: line {line}: not a sound gzip file ({error})") from error
        if not member.eof:
            return b"".join(parts), True
        packed = member.unused_data
    return b"".join(parts), not parts


def _header(path: object, line: str, dtypes: Mapping[str, np.dtype]) -> dict[str, Any]:
    where = f"{path}: line 1"
    try:
        header = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: the header is not JSON ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise TraceError(f"{where}: not a trace, its header does not say format {FORMAT!r}")
    if header.get("version") != VERSION:
        raise TraceError(f"{where}: trace version {header.get('version')!r}, this package reads version {VERSION}")
    names = header.get("columns")
    if not isinstance(names, list) or names != list(dtypes):
        missing = [n for n in dtypes if not isinstance(names, list) or n not in names]
        what = f"missing column {', '.join(missing)}" if missing else f"columns {names!r}"
        raise TraceError(f"{where}: {what}; expected {', '.join(dtypes)}")
    return {k: v for k, v in header.items() if k not in ("format", "version", "columns")}


def _closing(path: object, line: str, number: int) -> dict[str, Any]:
    try:
        closing = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: line {number}: the closing line is not JSON ({error})") from error
    if not isinstance(closing.get("ended"), dict) or not isinstance(closing.get("rows"), int):
        raise TraceError(f"{path}: line {number}: the closing line lacks 'ended' or 'rows'")
    return dict(closing)


def _columns(path: object, lines: list[str], dtypes: Mapping[str, np.dtype]) -> dict[str, np.ndarray]:
    columns = {name: np.empty(len(lines), dtype) for name, dtype in dtypes.items()}
    for low in range(0, len(lines), CHUNK):
        part = lines[low : low + CHUNK]
        try:
            rows = json.loads(f"[{','.join(part)}]")
            if len(rows) != len(part) or set(map(len, rows)) != {len(dtypes)}:
                raise ValueError("a row of another length")
            for (name, dtype), values in zip(dtypes.items(), zip(*rows, strict=True), strict=True):
                columns[name][low : low + len(part)] = _column(values, dtype)
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            # Something in this block is wrong: go line by line to say which.
            for offset, line in enumerate(part):
                _row(f"{path}: line {low + offset + 2}", line, dtypes)
            raise
    return columns


def _column(values: tuple[Any, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "f":
        if None in values or not all(type(v) is float for v in values):
            values = tuple(_number(v) for v in values)
        with np.errstate(over="raise"):
            return np.array(values, dtype)
    if not all(type(v) is int for v in values):
        raise ValueError("not a whole number")
    return np.array(values, dtype)


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if value in ("inf", "-inf") or (isinstance(value, int | float) and not isinstance(value, bool)):
        return float(value)
    raise ValueError(f"not a number: {value!r}")


def _row(where: str, line: str, dtypes: Mapping[str, np.dtype]) -> None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: not JSON ({error})") from error
    if not isinstance(row, list) or len(row) != len(dtypes):
        found = f"{len(row)} values" if isinstance(row, list) else type(row).__name__
        raise TraceError(f"{where}: expected a list of {len(dtypes)} values, found {found}")
    for (name, dtype), value in zip(dtypes.items(), row, strict=True):
        try:
            _column((value,), dtype)
        except (ValueError, TypeError, ArithmeticError) as error:
            kind = "a number" if dtype.kind == "f" else f"a whole number ({dtype})"
            raise TraceError(f"{where}: {name} must be {kind}, found {value!r}") from error
