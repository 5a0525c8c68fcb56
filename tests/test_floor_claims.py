"""Error floors: asynchronous is far above synchronous, and a wrong prediction would be found."""

import pytest

from asyncsgd_edu.lessons.floor_claims import RATE, law_13
from asyncsgd_edu.rules import error_floor


def test_asynchronous_keeps_the_higher_floor() -> None:
    claims = {claim.what.split("8 workers, ")[1]: claim for claim in law_13(3)}
    assert {claim.verdict for claim in claims.values()} == {"holds"}
    together, scaled, memoryless, constant = (claim.measured for claim in claims.values())
    assert next(iter(claims)).startswith(f"synchronous, learning rate {RATE:g}")
    assert memoryless > 4 * together
    assert constant > memoryless
    # Eight times the learning rate uses up what the averaging of eight had gained.
    assert scaled == pytest.approx(memoryless, rel=0.1)


def test_without_the_cost_of_staleness_the_prediction_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def fresh(workers: int, rate: float, noise: float) -> float:
        return error_floor.synchronous_floor(1, rate, noise)

    monkeypatch.setattr(error_floor, "memoryless_floor", fresh)
    assert [claim.verdict for claim in law_13(0)] == ["holds", "holds", "fails", "holds"]
