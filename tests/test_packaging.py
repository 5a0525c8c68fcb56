"""What is shipped: bounds, pins, notebooks, public names, and an import that stays light."""

import ast
import importlib.metadata
import inspect
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import asyncsgd_edu

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXTRAS = PROJECT["optional-dependencies"]


def bounds(requirements: list[str]) -> dict[str, SpecifierSet]:
    parsed = map(Requirement, requirements)
    return {canonicalize_name(r.name): r.specifier for r in parsed}


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    matches = [re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!_-]+)", line) for line in lines if line[:1] != "#"]
    assert all(matches), "constraints.txt holds name==version and nothing else"
    return {canonicalize_name(m[1]): m[2] for m in matches if m}


# --- bounds and pins


def test_environment_has_the_bounds_of_pyproject() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["name"] == "asyncsgd_edu"
    assert environment["channels"] == ["conda-forge"]
    *conda, by_pip = environment["dependencies"]
    assert bounds(conda) == {"python": SpecifierSet(PROJECT["requires-python"]), "pip": SpecifierSet()}
    assert by_pip["pip"][-1] == "-e ."
    assert bounds(by_pip["pip"][:-1]) == bounds(PROJECT["dependencies"])


def test_makefile_and_ci_accept_the_pythons_of_pyproject() -> None:
    allowed = SpecifierSet(PROJECT["requires-python"])
    fit = [minor for minor in range(8, 20) if f"3.{minor}.1" in allowed]
    condition = f"(3, {fit[0]}) <= sys.version_info[:2] <= (3, {fit[-1]})"
    for name in ("Makefile", ".ci/run"):
        assert condition in (ROOT / name).read_text(encoding="utf-8"), name


def test_constraints_are_pins_only() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "@" not in text
    assert len(pins()) > 50


@pytest.mark.parametrize("group", ["dependencies", *EXTRAS])
def test_every_dependency_is_pinned_within_its_bounds(group: str) -> None:
    pinned = pins()
    for name, allowed in bounds(EXTRAS.get(group) or PROJECT["dependencies"]).items():
        assert pinned[name] in allowed, name


def test_what_the_dependencies_need_is_pinned() -> None:
    pinned, seen = pins(), set()
    groups = [PROJECT["dependencies"], *EXTRAS.values()]
    waiting = [r for group in groups for r in map(Requirement, group)]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = wanted.extras or {""}
        if (name, *sorted(extras)) in seen:
            continue
        seen.add((name, *sorted(extras)))
        assert name in pinned, f"{name} is needed but not pinned"
        needs = map(Requirement, importlib.metadata.requires(name) or [])
        waiting += [n for n in needs if n.marker is None or any(n.marker.evaluate({"extra": e}) for e in extras)]


def test_the_version_has_one_home() -> None:
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", asyncsgd_edu.__version__)


def test_no_file_of_pins_names_an_address() -> None:
    for name in ("constraints.txt", "environment.yml", "Makefile", "pyproject.toml", ".ci/run"):
        assert "://" not in (ROOT / name).read_text(encoding="utf-8"), name


# --- the import


def test_import_loads_nothing_heavy() -> None:
    program = "import sys, asyncsgd_edu; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "asyncsgd_edu" in loaded
    assert not loaded & {"tensorflow", "keras", "plotly", "ipywidgets", "pandas", "sklearn", "numpy", "IPython"}


def test_the_trace_loads_no_tensorflow() -> None:
    program = "import sys; from asyncsgd_edu import Trace, Exponential; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"tensorflow", "keras", "plotly", "pandas"} & set(done.stdout.split())


# --- public names


@pytest.mark.parametrize("name", asyncsgd_edu.__all__)
def test_a_public_name_can_be_imported_and_is_documented(name: str) -> None:
    value = getattr(asyncsgd_edu, name)
    assert inspect.getdoc(value)
    if not inspect.isclass(value):
        return
    for member, thing in vars(value).items():
        if not member.startswith("_") and (inspect.isfunction(thing) or isinstance(thing, property)):
            assert inspect.getdoc(thing), f"{name}.{member} has no docstring"


def test_public_names_are_listed_for_tools_and_type_checkers() -> None:
    assert set(asyncsgd_edu.__all__) <= set(dir(asyncsgd_edu))
    source = ast.parse(Path(asyncsgd_edu.__file__).read_text(encoding="utf-8"))
    for_checkers = next(node for node in source.body if isinstance(node, ast.If))
    shown = [node for node in for_checkers.body if isinstance(node, ast.Import | ast.ImportFrom)]
    # Only `import a as a` is an export to a type checker.
    assert {alias.asname for node in shown for alias in node.names} == set(asyncsgd_edu.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Histroy'"):
        _ = asyncsgd_edu.Histroy


# --- notebooks as they are kept


def test_the_first_notebook_is_there() -> None:
    assert "00_start_here.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_thin_and_clean(path: Path) -> None:
    assert path.stat().st_size < 500_000
    notebook = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3", "without it JupyterLab asks for a kernel"
    assert "widgets" not in notebook["metadata"], "widget state is megabytes; make format strips it"
    assert notebook["cells"][0]["cell_type"] == "markdown", "the question comes first"
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert len(source.splitlines()) <= 15, source
            # Outputs are kept only where nbval compares them.
            assert not cell["outputs"] or source.startswith("# NBVAL_CHECK_OUTPUT"), source
