"""The command `claims`: what it prints and writes of the laws, and what it refuses. The others are in test_main.py."""

from pathlib import Path

import pytest
from commands import refused

from asyncsgd_edu.__main__ import main


def test_claims_prints_what_holds_and_writes_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "claims.html"
    assert main(["claims", "--law", "8", "--law", "12", "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "outside its assumptions" in said
    assert "0 fails" in said
    assert "stale" in page.read_text(encoding="utf-8")


def test_the_whole_page_says_in_one_line_what_it_leaves_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    def instead(*given: object) -> list[object]:
        asked.append(given)
        return []

    monkeypatch.setattr("asyncsgd_edu.lessons.claims.claims", instead)
    page = tmp_path / "claims.html"
    assert main(["claims", "--seed", "4", "--html", str(page)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("law 6 was not run: ")
    assert last in page.read_text(encoding="utf-8")
    for options in (["--delays", str(tmp_path)], ["--law", "8"]):
        assert main(["claims", *options]) == 0
        assert "not run" not in capsys.readouterr().out
    assert asked == [(None, 4, None), (None, 0, str(tmp_path)), ([8], 0, None)]


def test_claims_reads_logs_of_delays(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "BCD_turns.csv").write_text("".join(f"{min(t, 3)}\n" for t in range(1000)))
    assert main(["claims", "--law", "6", "--delays", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "BCD_turns.csv, 1000 updates of 4 workers" in said
    assert "1 holds, 0 fails, 1 outside its assumptions" in said


def test_logs_that_are_none_or_for_no_law_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert f"BCD_*.csv, one delay a line, got '{tmp_path}'" in refused(capsys, "claims", "--delays", str(tmp_path))
    assert "law 6 was not run" in refused(capsys, "claims", "--law", "6")
    (tmp_path / "BCD_x.csv").write_text("0\nfast\n")
    assert "BCD_x.csv: line 2 must be one number" in refused(capsys, "claims", "--delays", str(tmp_path))
    (tmp_path / "BCD_x.csv").write_text("0\n")
    assert "delays are for law 6" in refused(capsys, "claims", "--law", "8", "--delays", str(tmp_path))


def test_claims_names_the_laws_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "--law", "99"]) == 2
    assert "law must be one of 1, 2" in capsys.readouterr().err
