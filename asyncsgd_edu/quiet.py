"""TensorFlow and Keras, loaded without their greetings.

While it is imported, and when it first looks for GPUs, TensorFlow writes lines
such as "Could not find cuda drivers" straight to the process's standard error,
whatever the log level (tensorflow#100442), and a notebook shows them in red.
They are left out here; anything else that is said meanwhile is passed on.
"""

import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

GREETING = re.compile(
    rb"\s*$|I0000 |WARNING: All log messages before absl::|To enable the following instructions"
    rb"|E0000 .*failed call to cuInit"
)


@contextmanager
def without_greetings() -> Iterator[None]:
    """Hold back what is written to file descriptor 2, then pass on all of it but the greetings."""
    try:
        kept = os.dup(2)
    except OSError:  # No standard error, as under pythonw: nobody to be quiet for.
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not GREETING.match(line):
                    os.write(2, line)


def _load() -> tuple[Any, Any]:
    if "tensorflow" in sys.modules:
        return importlib.import_module("tensorflow"), importlib.import_module("keras")
    with without_greetings():
        tensorflow, keras_ = importlib.import_module("tensorflow"), importlib.import_module("keras")
        tensorflow.config.list_physical_devices("GPU")  # Looks; starts nothing.
    return tensorflow, keras_


tf, keras = _load()
