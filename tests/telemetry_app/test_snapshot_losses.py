"""What a snapshot says of records that are missing, malformed, told twice, of a wrong clock, or in no index."""

from __future__ import annotations

import pytest

from telemetry_app import readers
from telemetry_app.models import Gap, Operation, Run, Sample, Turn
from telemetry_app.partitions import existing_days
from tests.support.records import (
    RUN,
    START,
    foreign_op,
    op,
    sample_group,
    step_of_ops,
    turn,
)
from tests.support.snapshots import snapshot, stored_ids
from workers_client import wire

pytestmark = pytest.mark.django_db


# --- What is missing, malformed or implausible ----------------------------------------------------------------
def test_records_that_the_ledger_counts_and_nobody_holds_are_missing(writer):
    writer.operations(*step_of_ops(0, at=START))
    writer.ledger(enqueued=9, answered=9, recorded=7)
    snapshot()
    assert Run.objects.get().missing_records == 5


def test_without_a_count_of_records_each_answered_request_is_one(writer):
    writer.operations(*step_of_ops(0, at=START))
    writer.ledger(enqueued=9, answered=6)
    snapshot()
    assert Run.objects.get().missing_records == 4


def test_records_that_were_trimmed_between_two_snapshots_are_missing(writer):
    writer.operations(*step_of_ops(0, at=START))
    writer.ledger(recorded=2)
    snapshot()
    writer.client.delete(wire.operations_key(RUN))
    writer.operations(*step_of_ops(5, at=START + 15))
    writer.ledger(recorded=12)
    snapshot(after_seconds=20)
    assert Run.objects.get().missing_records == 8


def test_more_records_than_the_ledger_counts_are_nothing_missing(writer):
    writer.operations(*step_of_ops(0, at=START))
    writer.ledger(answered=1)
    snapshot()
    assert Run.objects.get().missing_records == 0


def test_a_malformed_record_is_counted_once_and_is_not_missing(writer):
    writer.operations(op(at=START))
    writer.raw_operations(RUN, "nonsense", active_at=START)
    writer.ledger(recorded=2)
    for number in range(3):
        snapshot(after_seconds=10 + number)
    run = Run.objects.get()
    assert (run.malformed_count, run.missing_records) == (1, 0)


def test_malformed_records_among_good_ones_are_counted_once_each(writer):
    for number in range(3):
        writer.raw_operations(RUN, "nonsense", "[]", active_at=START + number)
        snapshot(after_seconds=10 + number)
        writer.operations(op(at=START + number))
        snapshot(after_seconds=10 + number)
        writer.client.rpush(wire.samples_key(RUN), "nonsense")
    snapshot(after_seconds=20)
    assert Run.objects.get().malformed_count == 9


def test_a_list_of_another_redis_type_is_counted_once(writer):
    writer.client.set(wire.operations_key(RUN), "no list")
    writer.active(RUN, START)
    for number in range(3):
        snapshot(after_seconds=10 + number)
    assert Run.objects.get().malformed_count == 1


# --- Wrong clocks ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("days", [-401, 2, 365 * 14, 365 * 5_000])
def test_a_record_of_a_wrong_clock_is_stored_by_its_receipt_time_and_flagged(writer, days):
    at = START + days * 86_400
    writer.operations(op(at=START, id="w:1"), op(at=at, id="w:2", started_at=at - 3, elapsed_seconds=3.0))
    writer.active(RUN, START)
    days_before = existing_days(Operation._meta.db_table)
    snapshot()
    right, wrong = Operation.objects.order_by("record_id")
    assert right.reported_at is None
    assert (wrong.at.timestamp(), wrong.started_at.timestamp()) == (START + 10, START + 7)
    assert wrong.reported_at.timestamp() == at
    assert wrong.queue_seconds is None
    assert Run.objects.get().malformed_count == 0
    assert len(existing_days(Operation._meta.db_table) - days_before) <= 9


def test_a_record_of_a_wrong_clock_is_stored_once_whenever_it_is_told_again(writer):
    record = op(at=START + 365 * 14 * 86_400, id="w:1")
    writer.client.rpush(wire.operations_key(RUN), wire.encode(record))
    writer.active(RUN, START)
    snapshot()
    writer.client.rpush(wire.operations_key(RUN), wire.encode(op(at=START + 5, id="w:2")), wire.encode(record))
    snapshot(after_seconds=20)
    writer.client.flushdb()  # a Redis that came back empty, two days later
    writer.client.rpush(wire.operations_key(RUN), wire.encode(record))
    writer.active(RUN, START + 2 * 86_400)
    snapshot(after_seconds=2 * 86_400)
    assert stored_ids() == ["w:1", "w:2"]
    assert Run.objects.get().operations_count == 2


def test_a_sample_and_a_turn_of_a_wrong_clock_are_flagged_too(writer):
    future = START + 365 * 14 * 86_400
    writer.samples(sample_group(at=future, count=7))
    writer.turns(turn(at=future))
    writer.active(RUN, START)
    snapshot()
    assert Sample.objects.get().reported_at.timestamp() == future
    assert Turn.objects.get().reported_at.timestamp() == future
    assert Turn.objects.get().at.timestamp() == START + 10


def test_a_record_behind_one_of_a_wrong_clock_is_taken(writer):
    writer.client.rpush(wire.operations_key(RUN), wire.encode(op(at=START + 99 * 86_400, id="w:1")))
    writer.active(RUN, START)
    snapshot()
    writer.operations(op(at=START + 15, id="w:2"))
    snapshot(after_seconds=20)
    assert stored_ids() == ["w:1", "w:2"]


# --- The same identity, other content -------------------------------------------------------------------------
def test_a_record_told_again_with_other_content_is_a_conflict_and_the_first_stays(writer):
    writer.operations(op(at=START, id="w:1", elapsed_seconds=1.0))
    snapshot()
    writer.operations(op(at=START, id="w:1", elapsed_seconds=9.0), op(at=START + 12, id="w:2"))
    snapshot(after_seconds=20)
    assert Operation.objects.get(record_id="w:1").elapsed_seconds == 1.0
    run = Run.objects.get()
    assert (run.operations_count, run.conflicts_count) == (2, 1)


def test_a_record_told_again_as_it_was_is_no_conflict(writer):
    writer.operations(op(at=START, id="w:1"))
    snapshot()
    writer.client.flushdb()
    writer.operations(op(at=START, id="w:1"), op(at=START + 12, id="w:2"))
    snapshot(after_seconds=20)
    assert Run.objects.get().conflicts_count == 0


# --- Gaps -----------------------------------------------------------------------------------------------------
def test_records_that_left_redis_untaken_leave_a_gap_with_its_span_and_count(writer):
    writer.operations(op(at=START, id="w:1"))
    writer.ledger(recorded=1)
    snapshot()
    writer.client.delete(wire.operations_key(RUN))
    writer.operations(op(at=START + 15, id="w:9"))
    writer.ledger(recorded=9)
    execution = snapshot(after_seconds=20)
    gap = Gap.objects.get()
    assert (gap.run_id, gap.after_record_id, gap.records_count) == (RUN, "w:1", 7)
    assert (gap.after_at.timestamp(), gap.before_at.timestamp()) == (START, START + 15)
    assert execution.missing_records == Run.objects.get().missing_records == 7


def test_a_list_that_was_cut_behind_the_cursor_leaves_no_gap_where_nothing_is_missing(writer):
    writer.operations(op(at=START, id="w:1"))
    writer.ledger(recorded=1)
    snapshot()
    writer.client.delete(wire.operations_key(RUN))
    writer.operations(op(at=START + 15, id="w:2"))
    writer.ledger(recorded=2)
    snapshot(after_seconds=20)
    assert not Gap.objects.exists()


def test_a_flush_while_a_run_is_taken_makes_nothing_missing(writer, monkeypatch):
    writer.operations(op(at=START, id="w:1"))
    writer.ledger(recorded=1)
    original = readers.read_list_after

    def read_and_flush(key, *arguments, **fields):
        found = original(key, *arguments, **fields)
        if key == wire.operations_key(RUN):
            writer.operations(op(at=START + 1, id="w:2"))
            writer.ledger(recorded=2)
        return found

    monkeypatch.setattr(readers, "read_list_after", read_and_flush)
    execution = snapshot()
    assert (execution.rows_written, execution.missing_records) == (1, 0)


def test_sampling_records_that_left_redis_untaken_are_missing_too(writer):
    writer.samples(sample_group(at=START, count=7))
    writer.ledger(recorded=0, samples_recorded=3)
    snapshot()
    assert Run.objects.get().missing_records == 2


# --- Lists of others ------------------------------------------------------------------------------------------
def test_lists_that_stand_in_no_index_are_found_and_taken(writer):
    writer.client.rpush(
        wire.operations_key("theirs"), *[wire.encode(foreign_op(at=START + n, run_id="theirs")) for n in range(3)]
    )
    execution = snapshot()
    assert Operation.objects.filter(run_id="theirs").count() == 3
    assert Run.objects.get().last_activity_at.timestamp() == START + 2
    assert execution.runs_count == 1


@pytest.mark.parametrize("days", [-300, -30, 0])
def test_a_record_of_a_day_without_partition_is_stored(writer, days):
    writer.operations(op(at=START + days * 86_400))
    writer.active(RUN, START)
    snapshot()
    assert Operation.objects.count() == 1


def test_an_activity_in_the_future_counts_as_now(writer):
    writer.active(RUN, START + 10 * 365 * 86_400)
    snapshot()
    assert Run.objects.get().last_activity_at.timestamp() == START + 10


def test_an_index_of_a_wrong_clock_does_not_keep_a_run_active(writer):
    writer.operations(op(at=START, id="w:1"))
    writer.active(RUN, START + 10 * 365 * 86_400)
    snapshot()
    snapshot(after_seconds=3_600)
    run = Run.objects.get()
    assert (run.last_activity_at.timestamp(), run.state) == (START, "idle")
