"""Law 18: the distance moved predicts the harm, the count less so."""

import pytest

from asyncsgd_edu.lessons.gap_claims import law_18

pytestmark = pytest.mark.usefixtures("eight_devices")


def test_the_gap_says_more_than_the_count():
    claims = list(law_18(0))
    assert [claim.verdict for claim in claims] == ["holds"] * 4
    # Not by a hair: what staleness says of the harm is far from all.
    assert all(claim.measured > claim.prediction + 0.05 for claim in claims if claim.relation == ">=")
