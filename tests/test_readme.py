"""The README's example runs, and prints what the README says it prints, numbers apart."""

import re
import runpy
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d+(\.\d+)?")


@pytest.mark.slow
@pytest.mark.usefixtures("eight_devices")
def test_the_example_prints_what_it_says(capsys, tmp_path):
    example, promised = re.search(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", README, re.S).groups()
    assert len(example.splitlines()) <= 10
    script = tmp_path / "example.py"
    script.write_text(example)
    runpy.run_path(str(script))
    printed = capsys.readouterr().out
    expected = re.sub("^    ", "", promised, flags=re.M)
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected)
    same = ["1000 updates (1000 gradients applied, 0 dropped)", "N - 1 = 7", "audit: sound"]
    for promise in same:
        assert promise in printed
        assert promise in expected
    for text in (printed, expected):
        assert float(re.search(r"accuracy ([\d.]+)", text)[1]) > 0.8


def test_every_file_that_the_readme_names_is_there():
    root = Path(__file__).resolve().parent.parent
    for path in re.findall(r"(?:notebooks|docs|asyncsgd_edu|benchmarks)/[\w./]*", README):
        assert (root / path).exists(), path
