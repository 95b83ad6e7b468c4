"""Turns in whole microseconds: what is kept of them is that of the very turn, on the very clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app import turn_spans
from telemetry_app.turn_spans import kept_spans_of, spans_of
from tests.support.records import START, turn
from workers_client.wire import TurnOp


def held(first, last, *ops, **fields):
    return turn(at=START + last, started_at=START + first, ops=ops, **fields)


def ran(first, last, name="forward_backward", run_id="run-b"):
    return TurnOp(name, START + first, START + last, run_id=run_id)


def told(spans):
    return spans.start, spans.end, spans.wait, spans.runs, spans.ops, spans.order, spans.pieces(spans.start, spans.end)


def test_a_turn_is_moved_to_the_clock_that_is_asked_for():
    one = held(10, 20, ran(11, 19), requested_at=START + 5)
    for offset in (0.0, 3.0, 0.0, -2.0):
        found = kept_spans_of(one, offset)
        assert told(found) == told(spans_of(one, offset))
        assert found.wait == (round((START + 5 - offset) * 1e6), round((START + 10 - offset) * 1e6))


def test_of_two_turns_with_one_identity_each_is_told_as_it_is():
    """As after a heartbeat: the turn that a worker holds has got longer."""
    first, second = held(0, 10, ran(1, 9), id="t-1:now"), held(0, 15, ran(1, 14), id="t-1:now")
    assert told(kept_spans_of(first)) == told(spans_of(first))
    assert told(kept_spans_of(second)) == told(spans_of(second))
    assert kept_spans_of(second).end - kept_spans_of(first).end == 5_000_000


def test_turns_that_come_and_go_are_never_told_by_others(monkeypatch):
    monkeypatch.setattr(turn_spans, "KEPT", 8)
    for number in range(100):  # addresses are used again as soon as a turn is gone
        one = held(number, number + 1, ran(number, number + 0.5, run_id=f"run-{number}"))
        assert told(kept_spans_of(one)) == told(spans_of(one))
        assert len(turn_spans._kept) <= 8


def test_what_is_kept_is_as_much_as_is_read_again(monkeypatch):
    monkeypatch.setattr(turn_spans, "_kept", {})
    one = held(0, 1, ran(0, 1))
    assert kept_spans_of(one) is kept_spans_of(one)


_instants = st.integers(0, 100)


@given(
    ops=st.lists(st.tuples(_instants, _instants, st.sampled_from("ab"), st.none() | st.sampled_from(["r", "s"]))),
    first=_instants,
    last=_instants,
)
def test_a_part_of_a_turn_is_cut_as_the_whole_is(ops, first, last):
    first, last = min(first, last), max(first, last)
    spans = spans_of(held(0, 100, *(ran(begin, end, name, run) for begin, end, name, run in ops)))
    first, last = round((START + first) * 1e6), round((START + last) * 1e6)
    expected = [
        (max(begin, first), min(end, last), use)
        for begin, end, use in spans.pieces(spans.start, spans.end)
        if max(begin, first) < min(end, last)
    ]
    assert spans.pieces(first, last) == expected


@pytest.mark.parametrize("offset", [0.0, 0.25])
def test_a_turn_without_ops_is_its_workloads(offset):
    found = spans_of(held(1, 2, workload="w"), offset)
    assert found.pieces(found.start, found.end) == [(found.start, found.end, turn_spans.Use("w", None, None))]
