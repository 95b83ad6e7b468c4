"""Devices part by part: what is kept of parts never tells anything else than all turns would."""

from __future__ import annotations

from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry_app.device_parts import DAY, HOUR, DeviceFold, Mark, parts_between, seen_of
from telemetry_app.device_sums import DeviceSums, device_sums
from telemetry_app.kept_parts import KeptParts
from tests.support.device_turns import MINUTE, a_turn, some_turns

DAYS = 4 * 24 * 60  # minutes


class Stored:
    """Turns with ids, and the spans of those that were read."""

    def __init__(self):
        self.turns, self.reads, self.kept = {}, [], KeptParts(1_000)
        self.ids = count(1)

    def add(self, *turns):
        self.turns |= {next(self.ids): turn for turn in turns}

    def read(self, spans):
        self.reads.append(list(spans))
        found = [turn for turn in self.turns.values() if any(first <= turn.end < last for first, last in spans)]
        return iter(sorted(found, key=lambda turn: -turn.end))

    def marks(self, spans):
        own = {span: [n for n, turn in self.turns.items() if span[0] <= turn.end < span[1]] for span in spans}
        return {span: Mark(len(ids), sum(ids)) for span, ids in own.items() if ids}

    def told(self, start, end, fresh=()):
        """Return what each device did, and which turns were seen, as the parts tell it."""
        spans = parts_between(start, end)
        later = [turn for turn in self.turns.values() if turn.end >= end and turn.first < end]
        own = [turn for turn in fresh if turn.end > start and turn.first < end]
        sums, seen = {}, seen_of([*later, *own])
        self.reads.clear()
        for _, part in DeviceFold(spans, self.marks(spans), self.kept, self.read).parts(later, own):
            for device, found in part.sums.items():
                sums.setdefault(device, DeviceSums()).add(found)
            for device, found in part.seen.items():
                seen[device] = seen[device] | found if device in seen else found
        return sums, seen


def renamed(turn, name):
    return replace(turn, identity=name)


def told_by_all(turns, start, end):
    own = [turn for turn in turns if turn.end >= start and turn.first < end]
    devices = {turn.device for turn in own}
    sums = {name: device_sums([t for t in own if t.device == name], start, end) for name in devices}
    return sums, seen_of(own)


def something(sums):
    return {device: found for device, found in sums.items() if found != DeviceSums()}


_round = st.fixed_dictionaries(
    {
        "more": some_turns(minutes=DAYS, nodes=(None, "n-1")),
        "gone": st.integers(0, 3),
        "fresh": some_turns(minutes=DAYS, most=3, nodes=(None, "n-1")),
        "start": st.integers(0, DAYS // 2),
        "length": st.integers(1, DAYS),
    }
)


@given(rounds=st.lists(_round, min_size=1, max_size=5))
def test_parts_tell_what_all_turns_do_whatever_was_kept_before(rounds):
    stored = Stored()
    for number, each in enumerate(rounds):
        stored.add(*(renamed(turn, f"{number}:{turn.identity}") for turn in each["more"]))
        for gone in list(stored.turns)[: each["gone"]]:
            del stored.turns[gone]
        start, end = each["start"] * MINUTE, (each["start"] + each["length"]) * MINUTE
        fresh = [renamed(turn, f"fresh:{turn.identity}") for turn in each["fresh"] if turn.end > start]
        sums, seen = stored.told(start, end, fresh)
        expected_sums, expected_seen = told_by_all([*stored.turns.values(), *fresh], start, end)
        assert (something(sums), seen) == (something(expected_sums), expected_seen)
        assert len(stored.reads) <= 2


@pytest.fixture
def busy():
    """A turn each quarter of an hour over four days."""
    stored = Stored()
    stored.add(*(a_turn(number, 15 * number, 5, wait=5) for number in range(DAYS // 15)))
    return stored


def test_what_is_kept_is_not_read_again(busy):
    assert busy.told(10 * MINUTE, 4 * DAY - 10 * MINUTE) == busy.told(10 * MINUTE, 4 * DAY - 10 * MINUTE)
    assert busy.reads == [[(4 * DAY - HOUR, 4 * DAY - 10 * MINUTE), (10 * MINUTE, HOUR)]]


def test_a_turn_that_comes_late_has_its_part_and_those_it_reaches_into_folded_anew(busy):
    busy.told(0, 4 * DAY)
    busy.add(a_turn(9_000, 2 * 24 * 60 - 60, 120))  # about midnight between the second and the third day
    late, _ = busy.told(0, 4 * DAY)
    assert busy.reads == [[(2 * DAY, 3 * DAY)], [(DAY, 2 * DAY)]]
    busy.kept.clear()
    assert busy.told(0, 4 * DAY)[0] == late == told_by_all(busy.turns.values(), 0, 4 * DAY)[0]


def test_a_turn_that_is_waited_for_since_days_reads_nothing_again(busy):
    busy.told(0, 4 * DAY)
    waiting = a_turn(9_000, DAYS, 0, wait=DAYS)
    sums, _ = busy.told(0, 4 * DAY, [waiting])
    assert busy.reads == [[]]
    assert sums == told_by_all([*busy.turns.values(), waiting], 0, 4 * DAY)[0]


def test_another_device_that_is_held_since_days_reads_nothing_again(busy):
    busy.told(0, 4 * DAY)
    held = a_turn(9_000, 30, DAYS, node="n-2")
    assert busy.told(0, 4 * DAY, [held])[0] == told_by_all([*busy.turns.values(), held], 0, 4 * DAY)[0]
    assert busy.reads == [[]]


def test_parts_are_whole_days_and_hours_at_both_ends():
    spans = parts_between(DAY - 90 * MINUTE, 3 * DAY + 90 * MINUTE)
    assert [(end - start) // MINUTE for start, end in spans] == [30, 60, 1440, 1440, 60, 30]
    assert all(earlier[1] == later[0] for later, earlier in pairwise(spans))
    assert parts_between(5, 6) == [(5, 6)]
    assert parts_between(0, DAY) == [(0, DAY)]


def test_what_is_kept_is_bounded_and_the_newest_asked_for_stays():
    kept = KeptParts(3)
    for number in range(3):
        kept.put((number, number + 1), "mark", number, 1)
    assert kept.get((0, 1), "mark") == 0
    kept.put((3, 4), "mark", 3, 2)
    assert [kept.get((number, number + 1), "mark") for number in range(4)] == [0, None, None, 3]
    assert kept.get((0, 1), "another") is None
