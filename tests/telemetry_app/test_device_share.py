"""What a device did: every instant in one class, by run and day, and what a run cost its neighbours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.device_share import days_of, device_rows
from telemetry_app.device_sums import device_sums
from telemetry_app.device_turns import device_turn
from telemetry_app.spans import microseconds
from tests.support.records import START, turn
from workers_client.wire import TurnOp

DAY = 86_400.0


def held(first, last, *ops, requested=None, **fields):
    asked = None if requested is None else START + requested
    return turn(at=START + last, started_at=START + first, requested_at=asked, ops=ops, **fields)


def ran(first, last, name="forward_backward", run_id="run-a"):
    return TurnOp(name, START + first, START + last, run_id=run_id)


def rows_of(turns, start=START, end=START + 100.0):
    return device_rows(device_sums(map(device_turn, turns), microseconds(start), microseconds(end)), start, end)


def told(turns, until=100.0):
    return {
        (row.activity, row.run_id): (row.seconds, row.neighbours_waited_seconds)
        for row in rows_of(turns, end=START + until)
    }


@pytest.fixture
def shared():
    """Run a holds from 0 to 60 with a switch at its end; run b waits from 10, and holds from 65 to 90."""
    return [
        held(0, 60, ran(0, 50), ran(50, 60, "sleep", None)),
        held(65, 90, ran(65, 90, run_id="run-b"), requested=10),
    ]


def test_each_instant_is_in_one_class(shared):
    assert told(shared) == {
        ("computing", "run-a"): (50.0, 50.0), ("computing", "run-b"): (25.0, 0.0),
        ("switching", None): (10.0, 0.0), ("idle_while_waited", None): (5.0, 0.0), ("idle", None): (10.0, 0.0),
    }  # fmt: skip


def test_shares_are_of_the_span(shared):
    assert sum(row.share for row in rows_of(shared)) == pytest.approx(1.0)


def test_a_run_does_not_cost_itself(shared):
    shared.append(held(95, 96, ran(95, 96), requested=0))
    assert told(shared)["computing", "run-a"][1] == 50.0  # run b alone waited for it
    assert told(shared)["computing", "run-b"][1] == 25.0  # and run a for run b


def test_a_device_without_turns_in_a_day_was_idle():
    assert told([], until=10.0) == {
        ("switching", None): (0.0, 0.0), ("idle_while_waited", None): (0.0, 0.0), ("idle", None): (10.0, 0.0),
    }  # fmt: skip


def test_days_begin_at_midnight_utc():
    midnight = START - START % DAY + DAY
    assert days_of(START, midnight + DAY + 5) == [
        (START, midnight), (midnight, midnight + DAY), (midnight + DAY, midnight + DAY + 5),
    ]  # fmt: skip
    assert days_of(midnight, midnight + DAY) == [(midnight, midnight + DAY)]


_instants = st.floats(-1_000, 200_000)
_turns = st.lists(st.tuples(_instants, _instants, _instants, _instants, _instants), max_size=8)


@given(turns=_turns, end=st.floats(1, 180_000))
def test_the_rows_add_up_to_the_span(turns, end):
    rows = rows_of([held(a, b, ran(c, d), requested=e) for a, b, c, d, e in turns], end=START + end)
    assert all(row.seconds >= 0 and row.neighbours_waited_seconds >= 0 for row in rows)
    whole = microseconds(START + end) - microseconds(START)
    assert sum(microseconds(row.seconds) for row in rows) == whole
    assert sum(row.share for row in rows) == pytest.approx(1.0)
