"""Who held a GPU while a turn waited for it."""

from __future__ import annotations

import pytest

from telemetry_app.gpu_turns import TurnsByEnd
from tests.support.records import START, turn
from workers_client.wire import TurnOp


def held(first, last, *, workload="a", name="forward_backward", run_id="run-a", **fields):
    op = TurnOp(name, START + first, START + last, run_id=run_id)
    return turn(
        at=START + last, started_at=START + first, workload=workload, worker=f"t-{workload}", ops=(op,), **fields
    )


def waiting(requested, started, **fields):
    return turn(
        at=START + started + 10, workload="b", worker="t-b",
        **{"requested_at": START + requested, "started_at": START + started} | fields,
    )  # fmt: skip


def told(turns, wait):
    return [(holder.workload, holder.seconds) for holder in TurnsByEnd([*turns, wait]).holders(wait)]


def test_who_held_the_device_is_named_with_what_ran():
    wait = waiting(0, 180)
    [holder] = TurnsByEnd([held(-50, 180), wait]).holders(wait)
    assert (holder.workload, holder.worker, holder.seconds) == ("a", "t-a", 180.0)
    assert (holder.run_ids, holder.operations) == ({"run-a"}, {"forward_backward"})


def test_who_held_it_longest_comes_first():
    turns = [held(0, 30, workload="a"), held(30, 100, workload="c"), held(100, 110, workload="a")]
    assert told(turns, waiting(0, 110)) == [("c", 70.0), ("a", 40.0)]


def test_only_what_ran_during_the_wait_is_named():
    wait = waiting(50, 60)
    early, late = TurnOp("optim_step", START, START + 40, run_id="x"), TurnOp("save_state", START + 45, START + 60)
    [holder] = TurnsByEnd([turn(at=START + 60, started_at=START, ops=(early, late)), wait]).holders(wait)
    assert (holder.run_ids, holder.operations) == (set(), {"save_state"})


@pytest.mark.parametrize("interval", [(-20, 0), (10, 30), (5, 5)])
def test_turns_outside_of_the_wait_hold_nothing(interval):
    assert told([held(*interval)], waiting(0, 10)) == []


def test_a_turn_that_was_never_asked_for_waited_for_nobody():
    assert told([held(0, 10)], waiting(0, 10, requested_at=None)) == []


@pytest.mark.parametrize(("node", "expected"), [("n-1", ["a"]), (None, ["a"]), ("n-2", [])])
def test_turns_of_another_node_hold_nothing(node, expected):
    found = told([held(0, 10, node="n-1")], waiting(0, 10, node=node))
    assert [workload for workload, _ in found] == expected


def test_a_long_turn_is_found_among_many_short_ones():
    short = [held(n, n + 1, workload="c") for n in range(50)]
    assert told([held(-1_000, 1_000), *short], waiting(10, 20))[0] == ("a", 10.0)
