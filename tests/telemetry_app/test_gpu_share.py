"""What GPUs did over a span of time: the parts add up to all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.gpu_share import gpu_share
from tests.support.records import START, turn
from workers_client.wire import TurnOp


def held(first, last, *ops, requested=None, **fields):
    asked = None if requested is None else START + requested
    return turn(at=START + last, started_at=START + first, requested_at=asked, ops=ops, **fields)


def ran(first, last, *, name="forward_backward", run_id="run-a"):
    return TurnOp(name, START + first, START + last, run_id=run_id)


def share_of(*turns, until=100):
    return gpu_share(turns, start=START, end=START + until)


def total(share):
    parts = (share.switching_seconds, share.idle_while_waited_seconds, share.idle_seconds)
    return sum(share.computing_seconds.values()) + sum(parts)


def test_an_hour_without_turns_has_no_devices():
    share = share_of()
    assert (share.devices, share.total_seconds, total(share)) == (0, 0.0, 0.0)


def test_each_instant_is_one_of_computing_switching_waited_for_and_idle():
    first = held(10, 50, ran(10, 14, name="wake_up", run_id=None), ran(14, 44), ran(44, 50, name="sleep", run_id=None))
    second = held(55, 80, ran(60, 80, run_id="run-b"), requested=5)
    share = share_of(first, second)
    assert share.computing_seconds == {"run-a": 30.0, "run-b": 20.0}
    assert share.switching_seconds == 10.0
    assert share.idle_while_waited_seconds == 10.0  # 5 to 10, and 50 to 55
    assert share.idle_seconds == 30.0
    assert total(share) == share.total_seconds == 100.0


def test_what_lies_outside_of_the_span_is_cut_off():
    share = share_of(held(-50, 20, ran(-50, 20)), held(90, 500, ran(90, 500)), held(-90, -60, ran(-90, -60)))
    assert share.computing_seconds == {"run-a": 30.0}
    assert total(share) == 100.0


def test_runs_that_compute_at_once_share_the_time():
    share = share_of(held(0, 40, ran(0, 40), ran(20, 40, run_id="run-b")))
    assert share.computing_seconds == {"run-a": 30.0, "run-b": 10.0}


def test_each_node_is_a_device_of_its_own():
    share = share_of(held(0, 50, ran(0, 50), node="n-1"), held(0, 50, ran(0, 50), node="n-2"))
    assert (share.devices, share.total_seconds, share.computing_seconds) == (2, 200.0, {"run-a": 100.0})
    assert (share.idle_seconds, share.overlap_seconds) == (100.0, 0.0)


def test_turns_that_overlap_on_a_device_are_reported():
    share = share_of(held(0, 50, ran(0, 50)), held(49, 60, ran(49, 60, run_id="run-b")))
    assert share.overlap_seconds == 1.0
    assert total(share) == 100.0


def test_a_wait_that_goes_on_counts():
    share = share_of(held(100, 100, requested=70))
    assert (share.idle_while_waited_seconds, share.idle_seconds) == (30.0, 70.0)


def test_a_turn_held_without_an_op_computes_nothing():
    assert share_of(held(0, 50)).idle_seconds == 100.0


@pytest.mark.parametrize("broken", [held(50, 10, ran(50, 10)), held(10, 50, ran(90, 20)), held(10, 50, requested=60)])
def test_turns_that_end_before_they_begin_change_no_sum(broken):
    share = share_of(broken, held(60, 70, ran(60, 70, run_id="run-b")))
    assert total(share) == pytest.approx(100.0)
    assert share.computing_seconds == {"run-b": 10.0}


_instants = st.floats(-50, 150)


@given(
    turns=st.lists(
        st.tuples(_instants, _instants, _instants, _instants, _instants, st.sampled_from([None, "n-1"])), max_size=20
    )
)
def test_the_parts_always_add_up(turns):
    share = share_of(*(held(a, b, ran(c, d), requested=e, node=node) for a, b, c, d, e, node in turns))
    assert total(share) == pytest.approx(share.total_seconds)
    assert share.total_seconds == share.devices * 100.0
