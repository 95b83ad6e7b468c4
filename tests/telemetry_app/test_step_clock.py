"""The step clock: parts are exclusive, never negative, and add up to the wall time exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.device_time import DeviceTime, device_time_of
from telemetry_app.step_clock import CLIENT, GPU_WAIT, PARTS, StepWindow, step_times
from telemetry_app.turn_spans import Use, spans_of
from tests.support.records import START, turn
from workers_client.wire import TurnOp

_instants = st.integers(0, 1_000)
_spans = st.lists(st.tuples(_instants, _instants), max_size=12)
_claims = st.fixed_dictionaries({}, optional={part: _spans for part in PARTS if part != CLIENT})
_windows = st.lists(_instants, min_size=2, max_size=6, unique=True).map(
    lambda edges: [
        StepWindow(step, True, start, end)
        for step, (start, end) in enumerate(zip(sorted(edges), sorted(edges)[1:], strict=False))
    ]
)
_turns = st.lists(
    st.builds(
        lambda start, length, ops, name: turn(
            at=(start + length) / 1e6,
            started_at=start / 1e6,
            workload=name,
            ops=tuple(TurnOp(op, begin / 1e6, finish / 1e6, run_id=run) for op, begin, finish, run in ops),
        ),
        st.integers(1, 1_000),
        st.integers(0, 300),
        st.lists(st.tuples(st.sampled_from(["wake_up", "optim_step"]), _instants, _instants, st.none() | st.just("b"))),
        st.sampled_from(["w-1", "w-2"]),
    ),
    max_size=6,
)


def halved(span, at):
    start, end = span
    return [(start, at), (at, end)] if start < at < end else [span]


def device_time(turns) -> DeviceTime:
    return device_time_of(map(spans_of, turns))


def told(windows, claims, turns=()):
    return [(time.parts, time.gpu_wait_by, time.overlap) for time in step_times(windows, claims, device_time(turns))]


@given(windows=_windows, claims=_claims, turns=_turns)
def test_parts_are_never_negative_and_add_up_to_the_wall_time_exactly(windows, claims, turns):
    for time in step_times(windows, claims, device_time(turns)):
        assert list(time.parts) == list(PARTS)
        assert min(time.parts.values()) >= 0
        assert sum(time.parts.values()) == time.wall == time.window.end - time.window.start
        assert sum(time.gpu_wait_by.values()) == time.parts[GPU_WAIT]
        assert all(length > 0 for length in time.gpu_wait_by.values())


@given(windows=_windows, claims=_claims, turns=_turns, data=st.data())
def test_the_order_of_what_comes_in_changes_nothing(windows, claims, turns, data):
    shuffled = {part: data.draw(st.permutations(spans)) for part, spans in claims.items()}
    assert told(windows, shuffled, data.draw(st.permutations(turns))) == told(windows, claims, turns)


@given(windows=_windows, claims=_claims, turns=_turns, at=_instants)
def test_spans_cut_in_two_change_nothing(windows, claims, turns, at):
    cut = {part: [piece for span in spans for piece in halved(span, at)] for part, spans in claims.items()}
    assert told(windows, cut, turns) == told(windows, claims, turns)


@given(windows=_windows, claims=_claims, turns=_turns, at=_instants)
def test_a_step_cut_in_two_has_the_same_parts_in_sum(windows, claims, turns, at):
    whole = StepWindow(0, True, windows[0].start, windows[-1].end)
    at = min(max(at, whole.start), whole.end)
    halves = [StepWindow(0, True, whole.start, at), StepWindow(1, True, at, whole.end)]
    [expected] = step_times([whole], claims, device_time(turns))
    first, second = step_times(halves, claims, device_time(turns))
    assert {part: first.parts[part] + second.parts[part] for part in PARTS} == expected.parts
    assert first.overlap + second.overlap == expected.overlap
    uses = {**first.gpu_wait_by, **second.gpu_wait_by}
    sums = {use: first.gpu_wait_by.get(use, 0) + second.gpu_wait_by.get(use, 0) for use in uses}
    assert sums == expected.gpu_wait_by


@given(windows=_windows, claims=_claims, turns=_turns)
def test_turns_told_twice_count_once(windows, claims, turns):
    assert told(windows, claims, [*turns, *turns]) == told(windows, claims, turns)


def test_the_first_part_that_claims_an_instant_has_it():
    claims = {part: [(0, 10 * (place + 1))] for place, part in enumerate(part for part in PARTS if part != CLIENT)}
    [time] = step_times([StepWindow(0, True, 0, 100)], claims, device_time([]))
    assert time.parts == {part: 20 if part == CLIENT else 10 for part in PARTS}


# --- Who had the device ---------------------------------------------------------------------------------------
def at(seconds):
    return round((START + seconds) * 1e6)


def held(first, last, *ops, **fields):
    return turn(at=START + last, started_at=START + first, ops=ops, **fields)


def ran(first, last, name="forward_backward", run_id="run-b"):
    return TurnOp(name, START + first, START + last, run_id=run_id)


def during(turns, first, last):
    found = device_time(turns).during([(at(first), at(last))])
    return {use and (use.workload, use.run_id, use.operation): length / 1e6 for use, length in found.items()}


def test_each_instant_of_a_wait_is_told_by_what_the_holder_ran_then():
    holder = held(0, 100, ran(10, 40), ran(50, 90, "optim_step"), ran(0, 10, "wake_up", None), workload="w-b")
    assert during([holder], -5, 95) == {
        ("w-b", "run-b", "wake_up"): 10.0,
        ("w-b", "run-b", "forward_backward"): 30.0,
        ("w-b", "run-b", None): 15.0,
        ("w-b", "run-b", "optim_step"): 40.0,
        None: 5.0,
    }


def test_a_turn_for_two_runs_is_of_neither_between_their_ops():
    holder = held(0, 30, ran(0, 10), ran(20, 30, run_id="run-c"), workload="w")
    assert during([holder], 0, 30) == {
        ("w", "run-b", "forward_backward"): 10.0, ("w", None, None): 10.0, ("w", "run-c", "forward_backward"): 10.0,
    }  # fmt: skip


def test_turns_that_overlap_are_reported_and_the_first_counts():
    turns = [held(0, 20, ran(0, 20), workload="w-1"), held(19, 30, ran(19, 30, run_id="run-c"), workload="w-2")]
    found = device_time(turns)
    assert found.overlaps == [(at(19), at(20))]
    assert during(turns, 0, 30) == {
        ("w-1", "run-b", "forward_backward"): 20.0,
        ("w-2", "run-c", "forward_backward"): 10.0,
    }


def test_nobody_is_told_where_nobody_held_it():
    assert device_time([]).during([(0, 5)]) == {None: 5}
    assert Use("w", None, None) not in device_time([]).during([(0, 5)])
