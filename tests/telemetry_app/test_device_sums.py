"""What a device did, in one sweep: the same as by looking at each instant."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.device_sums import DeviceSums, device_sums
from telemetry_app.spans import microseconds
from tests.support.device_turns import MINUTE, a_turn, some_turns
from workers_client.wire import TurnOp


def by_instant(turns, start, end):
    """Return what the one device of these turns did: between two neighbouring instants nothing changes."""
    sums = DeviceSums()
    told = [(at, at) for at in (start, end)] + [span for turn in turns for span in spans(turn)]
    for begin, finish in pairwise(sorted({min(max(at, start), end) for span in told for at in span})):

        def goes_on(span, begin=begin, finish=finish):
            return span[0] <= begin and finish <= span[1]

        taken = finish - begin
        holding = [turn for turn in turns if goes_on((turn.start, turn.end))]
        waiting = [turn for turn in turns if turn.asked_at is not None and goes_on((turn.asked_at, turn.start))]
        ops = [(op.name, op.run_id) for turn in holding for op in turn.ops if goes_on(span_of(op))]
        running = {run for name, run in ops if name != "sleep"}
        for run in running:
            sums.computing[run] = sums.computing.get(run, 0) + taken // len(running)
        if not running and ops:
            sums.switching += taken
        elif not running and waiting:
            sums.idle_while_waited += taken
        sums.overlap += taken * (len(holding) > 1)
        if holding:
            oldest = min(holding, key=lambda turn: (turn.start, turn.end, turn.workload, turn.identity))
            own = sorted((*span_of(op), op.name, op.run_id or "") for op in oldest.ops if goes_on(span_of(op)))
            only = oldest.runs[0] if len(oldest.runs) == 1 else None
            holder = (own[0][3] if own else "") or only
            sums.held[holder] = sums.held.get(holder, 0) + taken
            if others := [turn for turn in waiting if holder not in turn.runs]:
                sums.neighbours_waited[holder] = sums.neighbours_waited.get(holder, 0) + taken * len(others)
    return sums


def spans(turn):
    return [(turn.first, turn.start), (turn.start, turn.end), *map(span_of, turn.ops)]


def span_of(op):
    return microseconds(op.start), microseconds(op.end)


@given(turns=some_turns(), first=st.integers(0, 200), minutes=st.integers(1, 200))
def test_one_sweep_tells_what_each_instant_does(turns, first, minutes):
    start, end = first * MINUTE, (first + minutes) * MINUTE
    sums = device_sums(turns, start, end)
    assert sums == by_instant(turns, start, end)
    assert sums.idle(end - start) >= 0


@given(turns=some_turns(), at=st.integers(1, 199), order=st.randoms())
def test_splitting_and_reordering_change_nothing(turns, at, order):
    shuffled = [*turns, *turns]
    order.shuffle(shuffled)
    halves = device_sums(shuffled, 0, at * MINUTE)
    halves.add(device_sums(turns, at * MINUTE, 200 * MINUTE))
    assert halves == device_sums(turns, 0, 200 * MINUTE)


@given(turns=some_turns(), run_id=st.sampled_from(["run-a", "run-d"]))
def test_a_turn_that_waits_throughout_can_be_counted_afterwards(turns, run_id):
    ops = (TurnOp("forward_backward", 60.0 * 300, 60.0 * 310, run_id=run_id),)
    waiting = a_turn(99, 300, 10, wait=300, ops=ops)
    afterwards = device_sums(turns, 0, 200 * MINUTE)
    afterwards.add_wait(waiting, 200 * MINUTE)
    assert afterwards == device_sums([*turns, waiting], 0, 200 * MINUTE)
