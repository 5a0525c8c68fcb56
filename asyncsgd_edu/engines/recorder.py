"""Writes a run's trace to a file while it grows.

Whole lines only, flushed several times a second: after a crash what is there
loads as a prefix.
"""

import os
import threading
from typing import TYPE_CHECKING

from asyncsgd_edu import tracefile
from asyncsgd_edu.header import header_dict
from asyncsgd_edu.trace import COLUMNS

if TYPE_CHECKING:
    from asyncsgd_edu.engines.trainer import Trainer

PERIOD = 0.2  # Seconds between two flushes.


class Recorder(threading.Thread):
    """Thread that records `trainer` to `path` from its first row on.

    Opens the file at once, so that a bad path is an OSError before the run starts.
    """

    def __init__(self, path: str | os.PathLike[str], trainer: "Trainer") -> None:
        super().__init__(name="asyncsgd-recorder", daemon=True)
        self.error: OSError | None = None
        self._path = path
        self._trainer = trainer
        self._file = tracefile.open_text(path, "w")
        self._file.write(tracefile.header_line(header_dict(trainer.header)[0], list(COLUMNS)))
        self._file.flush()

    def begin(self, over: threading.Event) -> None:
        """Start; `over` is set when the run that is recorded has ended."""
        self._over = over
        self.start()

    def run(self) -> None:
        """Write new rows until the run is over, then how it ended; keep what goes wrong as `error`."""
        try:
            self._write()
        except OSError as error:
            self.error = OSError(f"the run was not recorded in {self._path}: {error}")

    def _write(self) -> None:
        written = 0
        with self._file as file:
            while True:
                ended = self._over.wait(PERIOD)
                trace = self._trainer.trace
                for block in tracefile.row_lines({k: v[written:] for k, v in trace.columns.items()}):
                    file.write(block)
                written = len(trace)
                if ended:
                    break
                file.flush()
            file.write(tracefile.closing_line(header_dict(trace.header)[1], written))
