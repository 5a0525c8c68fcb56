"""Imports go one way, and each kind of library stays in its room.

Reads the source with ast: nothing is imported, so imports within functions count too.
"""

import ast
from pathlib import Path

import pytest

import asyncsgd_edu

ROOT = Path(asyncsgd_edu.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
BUDGET = 300  # Lines. A file that outgrows it wants a better idea.

# What each room may import from the package, itself always. The trace's laws and file know no trace.
MAY = {
    "rules": set(),
    "staleness": {"rules"},
    "tracefile": {"rules"},
    "header": {"tracefile"},
    "perfetto": {"trace"},  # For its type only.
    "trace": {"rules", "staleness", "tracefile", "header", "perfetto"},
    "fairness": set(),  # Quantities and words; no trace.
    "comparison": {"fairness", "trace", "header"},
    "quiet": set(),  # Loads TensorFlow without its noise.
    "problems": {"quiet", "rules", "staleness", "tracefile", "trace"},
    "engines": {"quiet", "rules", "staleness", "tracefile", "header", "trace", "problems"},
    "view": {"rules", "staleness", "tracefile", "trace", "comparison", "problems", "engines"},
    "lessons": {"rules", "staleness", "tracefile", "trace", "comparison", "problems", "engines", "view"},
}
COMMANDS = {"command_options", "commands_races", "commands_train"}
# Who may use a library: nobody else, the command line and the package itself included.
ROOMS_OF = {
    "plotly": {"view"},
    "ipywidgets": {"view"},
    "anywidget": {"view"},
    "IPython": {"view"},
    "traitlets": {"view"},
    "tensorflow": {"problems", "engines", "quiet"},
    "keras": {"problems", "engines", "quiet"},
    "sklearn": {"problems"},
    "rich": {"commands_train"},
    "threading": {"engines", "view"},
    "multiprocessing": {"engines"},
    "socket": {"engines"},
    "pandas": {"trace", "comparison", "view"},
}
# The names that the package offers, and where they lie.
PUBLIC = asyncsgd_edu._HOMES | asyncsgd_edu._ROOMS


def room(path: Path) -> str:
    """The folder of a module, or the module itself where it lies in the package's root."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imports(source: str) -> set[str]:
    """Full dotted names that a source imports, anywhere in it: `from a import b` gives a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return found


def wrong(source: str, home: str) -> list[str]:
    """What a source in the room `home` imports and may not."""
    complaints = []
    for name in sorted(imports(source)):
        top, *rest = name.split(".")
        if top in ROOMS_OF and home not in ROOMS_OF[top]:
            complaints.append(f"{home} must not import {top}")
        if top == "asyncsgd_edu" and home in MAY and rest:
            target = PUBLIC[rest[0]].split(".")[0] if rest[0] in PUBLIC else rest[0]
            if target != home and target not in MAY[home]:
                complaints.append(f"{home} must not import {name}")
    return complaints


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    assert wrong(path.read_text(encoding="utf-8"), room(path)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_says_its_rule(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= BUDGET
    assert ast.get_docstring(ast.parse(text)), "the module docstring says what lives here"
    assert not {"utils", "helpers", "core", "util", "helper", "misc", "common"} & set(path.relative_to(ROOT).parts)
    assert path.stem not in {"utils", "helpers", "core", "util", "helper", "misc", "common"}


def test_every_module_lies_in_a_known_room() -> None:
    assert {room(path) for path in FILES} <= {*MAY, "__init__", "__main__", *COMMANDS}


@pytest.mark.parametrize(
    ("source", "home"),
    [
        ("from asyncsgd_edu.engines import trainer", "trace"),
        ("def f():\n    import asyncsgd_edu.view.lab", "engines"),
        ("from asyncsgd_edu import AsyncTrainer", "problems"),
        ("from asyncsgd_edu import view", "engines"),
        ("from asyncsgd_edu.trace import Trace", "staleness"),
        ("import tensorflow as tf", "rules"),
        ("def f():\n    from keras import ops", "view"),
        ("from plotly import graph_objects", "engines"),
        ("import plotly.io", "__main__"),
        ("import ipywidgets", "lessons"),
        ("import threading", "problems"),
        ("class A:\n    def f(self):\n        import threading", "trace"),
        ("import importlib\nimportlib.import_module('tensorflow.keras')", "view"),
        ("import asyncsgd_edu.lessons.presets", "view"),
    ],
)
def test_this_test_sees_what_it_forbids(source: str, home: str) -> None:
    assert wrong(source, home)


def test_this_test_allows_what_is_needed() -> None:
    assert wrong("from asyncsgd_edu import Trace\nfrom asyncsgd_edu.rules import laws\nimport plotly", "view") == []
