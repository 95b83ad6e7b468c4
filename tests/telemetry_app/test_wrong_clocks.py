"""Records of a clock that can't be right are told by a time that can, the same at each reading."""

from __future__ import annotations

import pytest

from telemetry_app.wrong_clocks import by_neighbours, by_receipt_time, is_plausible
from tests.support.records import START, op

YEAR = 365 * 86_400
AHEAD, BEHIND, LAST = START + 14 * YEAR, START - 9 * YEAR, 253_402_300_799.0


def ends(records, now):
    return [record.at - START for record in by_neighbours(records, now)]


def test_a_record_of_a_wrong_clock_ends_with_the_one_before_it_whenever_it_is_read():
    records = [op(at=START), op(at=AHEAD), op(at=START + 5), op(at=BEHIND), op(at=LAST)]
    assert ends(records, START + 10) == ends(records, START + 600) == [0, 0, 5, 5, 5]


def test_the_first_of_a_list_ends_with_the_first_whose_clock_may_be_right():
    assert ends([op(at=AHEAD), op(at=START + 5)], START + 600) == [5, 5]


def test_where_no_clock_may_be_right_they_end_when_they_are_read():
    assert ends([op(at=AHEAD)], START + 600) == [600]


def test_durations_stay_where_the_whole_record_is_moved():
    [_, moved] = by_neighbours([op(at=START), op(at=AHEAD, started_at=AHEAD - 3, id="w:2")], START + 9)
    assert (moved.at - moved.started_at, moved.id) == (3, "w:2")


@pytest.mark.parametrize("at", [AHEAD, BEHIND, LAST, 1.0])
@pytest.mark.parametrize("started_at", [AHEAD, BEHIND, LAST, 1.0])
def test_no_instant_is_left_that_can_not_be(at, started_at):
    [moved], reported = by_receipt_time([op(at=at, started_at=started_at, enqueued_at=started_at)], START)
    assert all(is_plausible(instant, START) for instant in (moved.at, moved.started_at, moved.enqueued_at))
    assert reported == {moved.identity: at}
