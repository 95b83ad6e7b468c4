"""What PostgreSQL keeps, read as records: the same that was written, however often it was read before."""

from __future__ import annotations

import pytest
from django.db import transaction

from telemetry_app import bulk, partitions, rows, stored_activity
from telemetry_app.instants import from_unix
from telemetry_app.models import Turn
from tests.support.records import START, turn
from workers_client.wire import TurnOp

pytestmark = pytest.mark.django_db


def store(*turns):
    with transaction.atomic():
        partitions.ensure_days(Turn, {from_unix(each.at).date() for each in turns})
        bulk.insert_once(rows.TURNS, [rows.turn_row(each) for each in turns], are_new=True)


def held(number, **fields):
    begin = START + number + 0.123457
    ops = (
        TurnOp("wake_up", begin, begin + 0.1),
        TurnOp("forward_backward", begin + 0.1, begin + 0.700001, 3, "failed", "run-ü", "r-1"),
    )
    given = {"workload": f"w-{number}", "worker": "t-1", "node": "node-a", "requested_at": begin - 2, "ops": ops}
    return turn(at=begin + 0.9, started_at=begin, role="trainer", **given | fields)


def test_turns_come_as_they_were_written_newest_first():
    turns = [held(0), held(1, requested_at=None, node=None, worker=None), held(2, ops=())]
    store(*turns)
    expected = [rows.turn_of(row) for row in Turn.objects.order_by("-at")]
    for _ in range(2):
        found = stored_activity.turns_between(START, START + 10)
        assert found == expected
        assert [each.ops for each in found] == [each.ops for each in reversed(turns)]
        assert [(each.at, each.requested_at) for each in found] == [
            (each.at, each.requested_at) for each in reversed(turns)
        ]


def test_a_turn_that_comes_late_is_seen_and_one_that_went_is_not():
    store(held(0), held(2))
    assert [each.workload for each in stored_activity.turns_between(START, START + 10)] == ["w-2", "w-0"]
    store(held(1))
    Turn.objects.filter(workload="w-2").delete()
    assert [each.workload for each in stored_activity.turns_between(START, START + 10)] == ["w-1", "w-0"]


def test_turns_beside_the_stretch_are_left_out_and_of_too_many_the_newest_are_told(monkeypatch):
    store(*(held(number) for number in range(6)))
    assert [each.workload for each in stored_activity.turns_between(START + 2, START + 4)] == ["w-3", "w-2", "w-1"]
    monkeypatch.setattr(stored_activity, "MOST_RECORDS", 2)
    assert [each.workload for each in stored_activity.turns_between(START, START + 10)] == ["w-5", "w-4"]
