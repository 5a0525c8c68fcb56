"""Law 6: logs that are read, logs that are none, and what is said of memoryless and other machines."""

from pathlib import Path

import numpy as np
import pytest

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.lessons import delay_claims
from asyncsgd_edu.lessons.claim import Claim
from asyncsgd_edu.lessons.claims import claims
from asyncsgd_edu.rules.durations import Duration, Exponential, Uniform
from asyncsgd_edu.rules.policies import Asynchronous

LOGS = Path(__file__).parents[1] / ".." / "shared" / "data" / "delays"


def write(folder: Path, durations: Duration, name: str = "BCD_made.csv", workers: int = 8) -> None:
    """A log as such machines write it, one delay a line."""
    np.savetxt(folder / name, simulate(workers, Asynchronous(), durations, 3000, seed=2).staleness)


def law_6(folder: Path) -> list[Claim]:
    return claims([6], delays=folder)


def test_a_log_of_even_workers_is_outside_the_geometric_law(tmp_path: Path) -> None:
    write(tmp_path, Uniform(0.8, 1.2))
    mean, deviation = law_6(tmp_path)
    assert (mean.law, mean.verdict, mean.prediction) == (6, "holds", 7)
    assert "BCD_made.csv, 3000 updates of 8 workers" in mean.what
    assert deviation.verdict == "outside its assumptions"
    assert "not memoryless" in deviation.outside
    assert deviation.prediction == pytest.approx(7.48, abs=0.01)
    assert deviation.measured == pytest.approx(1.2, abs=0.1)


def test_a_log_of_memoryless_workers_is_within_it(tmp_path: Path) -> None:
    write(tmp_path, Exponential(1.0))
    assert [claim.verdict for claim in law_6(tmp_path)] == ["holds", "holds"]


def test_every_log_is_read_in_order_and_no_other_file(tmp_path: Path) -> None:
    for name in ("BCD_b.csv", "BCD_a.csv", "PIAG_a.csv", "README.md"):
        write(tmp_path, Uniform(0.8, 1.2), name, workers=3)
    assert [claim.what.split(", ")[1] for claim in law_6(tmp_path)] == [
        "BCD_a.csv",
        "BCD_a.csv",
        "BCD_b.csv",
        "BCD_b.csv",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0\n1\nfast\n", "BCD_x.csv: line 3 must be one number, got 'fast'"),
        ("0\n0,1\n", "BCD_x.csv: line 2 must be one number, got '0,1'"),
        ("0\n\n1\n", "BCD_x.csv: line 2 must be one number, got ''"),
        ("0\n2\n", "BCD_x.csv: delay 1 is 2, but before update 1 there were only 1 updates"),
        ("0\n0.5\n", "BCD_x.csv: delay 1 must be a finite whole number not below 0, got 0.5"),
        ("nan\n", "BCD_x.csv: delay 0 must be a finite whole number"),
        ("", "BCD_x.csv: delays must be one row of at least one whole number"),
        ("\udcff", "BCD_x.csv: 'utf-8' codec"),
    ],
)
def test_a_log_that_is_none_is_told_with_its_file(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "BCD_x.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=sentence):
        law_6(tmp_path)


def test_a_folder_without_logs_is_told(tmp_path: Path) -> None:
    (tmp_path / "PIAG_a.csv").write_text("0\n")
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "PIAG_a.csv"):
        with pytest.raises(ValueError, match=r"delays must be a folder that holds BCD_\*.csv, one delay a line, got '"):
            law_6(place)


def test_law_6_without_logs_and_logs_without_law_6_are_refused(tmp_path: Path) -> None:
    write(tmp_path, Uniform(0.8, 1.2))
    with pytest.raises(ValueError, match="law 6 was not run: .*--delays FOLDER"):
        claims([6])
    with pytest.raises(ValueError, match=r"delays are for law 6, which is not among the laws asked for: \[17\]"):
        claims([17], delays=tmp_path)


@pytest.mark.skipif(not LOGS.is_dir(), reason="no public delay logs beside the repository (shared/data/delays)")
def test_real_machines_are_not_memoryless() -> None:
    found = law_6(LOGS)
    assert len(found) == 2 * len(delay_claims.read(LOGS)) == 6
    for mean, deviation in zip(found[::2], found[1::2], strict=True):
        assert mean.verdict == "holds"
        assert 6.98 <= mean.measured <= 6.99
        assert deviation.verdict == "outside its assumptions"
        assert deviation.prediction == pytest.approx(7.5, abs=0.02)
        assert 1.3 < deviation.measured < 1.8
