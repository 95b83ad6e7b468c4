"""Records of a clock that can't be right are told by a time that can."""

from __future__ import annotations

import pytest

from telemetry_app.wrong_clocks import by_receipt_time, is_plausible
from tests.support.records import START, op

YEAR = 365 * 86_400
AHEAD, BEHIND, LAST = START + 14 * YEAR, START - 9 * YEAR, 253_402_300_799.0


def test_durations_stay_where_the_whole_record_is_moved():
    [moved], _ = by_receipt_time([op(at=AHEAD, started_at=AHEAD - 3, id="w:2")], START)
    assert (moved.at, moved.started_at, moved.id) == (START, START - 3, "w:2")


@pytest.mark.parametrize("at", [AHEAD, BEHIND, LAST, 1.0])
@pytest.mark.parametrize("started_at", [AHEAD, BEHIND, LAST, 1.0])
def test_no_instant_is_left_that_can_not_be(at, started_at):
    [moved], reported = by_receipt_time([op(at=at, started_at=started_at, enqueued_at=started_at)], START)
    assert all(is_plausible(instant, START) for instant in (moved.at, moved.started_at, moved.enqueued_at))
    assert reported == {moved.identity: at}
