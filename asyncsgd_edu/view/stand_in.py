"""Something in the place of a package that another imports only to read its version.

Plotly imports nbformat for that, as soon as a figure is to be shown, and with it comes a parser of web addresses that
takes a second of work to build. Whoever loads that part of plotly here has something stand in meanwhile. Nothing of
it is left in `sys.modules`, and whoever else imports the package, then or later, gets it.
"""

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_LEAVING = threading.Lock()


class StandIn(ModuleType):
    """Says the version of the package whose name it has, and imports that when it is asked for anything else."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            with suppress(PackageNotFoundError):
                return version(self.__name__)
        self.leave()
        return getattr(importlib.import_module(self.__name__), name)

    def leave(self) -> None:
        """Make way for the package itself, if it has not come yet."""
        with _LEAVING:  # Another thread might do so too and import it, between the look and the removal.
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]


@contextmanager
def stand_in(name: str) -> Iterator[None]:
    """Have something stand in for the package `name`, unless it is imported already or is not there to be imported.

    >>> with stand_in("tabnanny"):
    ...     import tabnanny
    >>> type(tabnanny).__name__, tabnanny.check.__name__  # Asked for, it is loaded.
    ('StandIn', 'check')
    """
    if name in sys.modules or (spec := find_spec(name)) is None:
        yield
        return
    standing = StandIn(name)
    standing.__spec__ = spec  # Others may look for the package meanwhile.
    sys.modules[name] = standing
    try:
        yield
    finally:
        standing.leave()
