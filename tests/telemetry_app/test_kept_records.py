"""Records that are kept parsed: the same as if they were parsed each time, and never large."""

from __future__ import annotations

import pytest

from telemetry_app import kept_records, readers
from tests.support.records import RUN, op, turn, worker
from workers_client import wire
from workers_client.exceptions import MalformedRecordError


def operation_of(run_id, raw):
    return kept_records.parser_of(run_id, [raw], is_whole=True)(raw)


def test_a_kept_record_is_the_one_that_parsing_gives():
    raw = wire.encode(op(at=1.0, metrics={"loss:mean": 1.5}))
    first = operation_of(RUN, raw)
    assert first == wire.parse_operation(raw, run_id=RUN)
    assert operation_of(RUN, bytes(bytearray(raw))) is first


def test_a_record_is_kept_for_its_run_alone():
    raw = wire.encode(op(at=1.0))
    operation_of(RUN, raw)
    with pytest.raises(MalformedRecordError):
        operation_of("run-b", raw)


def test_of_large_records_nothing_is_kept():
    raw = wire.encode(op(at=1.0, metrics={f"metric-{number}:{'x' * 60}": 1.0 for number in range(80)}))
    assert len(raw) > kept_records.LARGEST_BYTES
    assert operation_of(RUN, raw) is not operation_of(RUN, raw)


def test_lists_of_many_runs_drive_out_nothing(redis_client, writer):
    records = [op(at=1.0 + number) for number in range(3)]
    writer.operations(*records)
    readers.read_run(RUN)
    before = kept_records._kept_operation.cache_info().misses
    writer.operations(*(op(at=1.0, run_id=f"run-{number}") for number in range(3)))
    readers.read_runs([f"run-{number}" for number in range(3)], newest=readers.SUMMARY_RECORDS)
    readers.read_run(RUN)
    assert kept_records._kept_operation.cache_info().misses == before


def test_a_worker_whose_record_changed_is_told_anew(redis_client, writer):
    for phase in ("idle", "running"):
        writer.workers(worker("t-1", at=1.0, phase=phase))
        assert readers.read_workers().records["t-1"].phase == phase


def test_a_turn_is_told_of_its_own_workload(redis_client, writer):
    for workload in ("trainer-a", "trainer-b"):
        writer.turns(turn(workload=workload, at=2.0))
    found = readers.read_turns(["trainer-a", "trainer-b"])
    assert [found[name].records[0].workload for name in found] == ["trainer-a", "trainer-b"]
    again = readers.read_turns(["trainer-a"])["trainer-a"].records[0]
    assert again is found["trainer-a"].records[0]
