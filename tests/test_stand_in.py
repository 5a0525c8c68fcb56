"""What plotly loads only to read a version is not loaded, and is there for whoever asks for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from asyncsgd_edu.view.stand_in import StandIn, stand_in

# nbformat's, and what a Lab needs not before it runs or a table or a law is asked for.
NEEDLESS = (
    "tensorflow", "keras", "nbformat", "jsonschema", "rfc3987_syntax", "lark", "pandas", "scipy", "sklearn",
    "jupyterlab",
)  # fmt: skip
SHOWN = "import sys; from asyncsgd_edu import Lab; Lab()._repr_mimebundle_(); "


def said(program: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package that can be imported, has not been, and is of no distribution."""
    folder = tmp_path / "seldom_asked_for"
    folder.mkdir()
    (folder / "__init__.py").write_text("from seldom_asked_for import part\n__version__ = '7.5'\nvalue = 3\n")
    (folder / "part.py").write_text("inner = 4\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("seldom_asked_for", "seldom_asked_for.part"):
        monkeypatch.setitem(sys.modules, name, sys)  # So that it is taken out again afterwards.
        del sys.modules[name]
    return "seldom_asked_for"


def test_a_lab_is_shown_without_what_it_does_not_need() -> None:
    assert said(SHOWN + f"print([name for name in {NEEDLESS} if name in sys.modules])") == "[]"


def test_addresses_are_checked_as_ever_once_somebody_wants_them_checked() -> None:
    pytest.importorskip("rfc3987_syntax")
    check = (
        "import nbformat, nbformat.v4, jsonschema; nbformat.validate(nbformat.v4.new_notebook()); "
        "found = [jsonschema.FormatChecker().conforms(text, 'iri') for text in ('http://é.org/', 'no address')]; "
        "print(found, type(nbformat).__name__, nbformat is sys.modules['nbformat'])"
    )
    assert said(SHOWN + check) == "[True, False] module True"
    assert said("import nbformat; " + SHOWN + check) == "[True, False] module True"


def test_plotly_shows_a_figure_and_reads_the_version_of_what_stands_in() -> None:
    pytest.importorskip("nbformat")
    code = (
        "import sys, plotly.io; from asyncsgd_edu import Trace, figures; "
        "figures.timeline(Trace.from_schedule('0r 0a')).show('plotly_mimetype'); "
        "import importlib.metadata as m; held = plotly.io._renderers.nbformat; "
        "print('nbformat' in sys.modules, held.__version__ == m.version('nbformat'), held.NO_CONVERT is not None)"
    )
    assert said(code).splitlines()[-1] == "False True True"


def test_a_stand_in_gives_all_that_the_package_has(package: str) -> None:
    with stand_in(package):
        import seldom_asked_for as held  # type: ignore[import-not-found]

        assert type(held) is StandIn
        assert held.value == 3
        assert type(sys.modules[package]) is not StandIn
        from seldom_asked_for import value  # type: ignore[import-not-found]
    assert value == 3
    assert held.__version__ == sys.modules[package].__version__ == "7.5"
    assert held.part is sys.modules[f"{package}.part"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = held.nothing


def test_a_part_of_a_package_is_imported_while_something_stands_in(package: str) -> None:
    with stand_in(package):
        from seldom_asked_for.part import inner  # type: ignore[import-not-found]
    assert inner == 4
    assert type(sys.modules[package]) is not StandIn


def test_nothing_stands_in_afterwards_even_if_the_import_failed(package: str) -> None:
    with pytest.raises(ZeroDivisionError), stand_in(package):
        raise ZeroDivisionError
    assert package not in sys.modules


def test_nothing_stands_in_for_what_is_there_or_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in("pytest"):
        assert sys.modules["pytest"] is pytest
    monkeypatch.setitem(sys.modules, "seldom_asked_for", None)  # Forbidden.
    for name in ("seldom_asked_for", "asked_for_and_absent"):
        with stand_in(name), pytest.raises(ImportError):
            __import__(name)
    assert sys.modules["seldom_asked_for"] is None
    assert "asked_for_and_absent" not in sys.modules
