"""Worker records and ledgers, read back and checked."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import records
from workers_client import wire
from workers_client.codec import encode_object
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_worker import CurrentOp, CurrentTurn, Ledger, OutstandingWork, parse_ledger, parse_worker

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FULL = records.worker(
    at=50.0,
    started_at=10.0,
    parent="trainer-pod-6-1",
    pod="pod-7",
    pod_uid="uid-7",
    node="node-1",
    host="host-1",
    pid=7,
    interval_seconds=2.0,
    phase="running",
    phase_since=45.0,
    last_progress_at=44.0,
    runs=("run-a", "Qwen/Qwen3-8B"),
    outstanding=(OutstandingWork("run-a", "forward_backward", 3, 41.0, ("q1", "q2", "q3")),),
    current=CurrentOp("forward_backward", "run-a", "q1", 45.0),
    turn=CurrentTurn("workload-1", 42.0, 44.0),
    turns={"count": 3, "held_seconds": 4.5},
    settings={"OPEN_RL_MODE": "async"},
    versions={"python": "3.11"},
    buffer={"sent": 10, "dropped": {"operation": {"queue_full": 2}}},
    clock_offset_seconds=-0.25,
    exited_at=49.0,
    exit_reason="closed",
    wire=1,
)


def parsed(**fields):
    essentials = {"worker": "w", "role": "trainer", "at": 50.0}
    return parse_worker(encode_object(essentials | fields), worker="w")


def test_a_worker_record_reads_as_it_was_written():
    raw = encode_object(records.worker_fields(FULL))
    assert parse_worker(raw, worker=FULL.worker) == FULL


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"worker": "other"}, "other_worker"),
        ({"role": None}, "bad_role"),
        ({"role": ["trainer"]}, "bad_role"),
        ({"at": "now"}, "bad_at"),
        ({"at": 0}, "bad_at"),
    ],
)
def test_a_worker_record_without_its_essentials_is_refused(fields, reason):
    with pytest.raises(MalformedRecordError) as caught:
        parsed(**fields)
    assert caught.value.reason == reason


@given(st.dictionaries(st.sampled_from(sorted(records.worker_fields(FULL))), JSON, max_size=10))
def test_any_other_content_of_a_worker_record_is_read_or_left_out(fields):
    fields = fields | {"worker": "w", "role": "trainer", "at": 50.0}
    record = parse_worker(json.dumps(fields), worker="w")
    assert record.interval_seconds > 0
    assert all(wire.checked_run_id(run) == run for run in record.runs)
    encoded = encode_object(records.worker_fields(record))
    assert parse_worker(encoded, worker="w") == record


@given(st.binary(max_size=100))
def test_no_bytes_crash_the_reader_of_workers(raw):
    with pytest.raises(MalformedRecordError) as caught:
        parse_worker(raw, worker="w")
    assert caught.value.reason in {"not_json", "not_an_object", "bad_role", "bad_at", "other_worker"}


@pytest.mark.parametrize("interval", [0, -1, None, "5", float(10**300)])
def test_an_interval_that_no_worker_keeps_reads_as_the_contracts(interval):
    assert parsed(interval_seconds=interval).interval_seconds == wire.HEARTBEAT_INTERVAL_SECONDS


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63, 10**30])
def test_a_number_that_no_json_reader_holds_is_left_out(number):
    raw = json.dumps({"role": "trainer", "at": 50.0, "buffer": {"sent": number, "produced": 3}})
    assert parse_worker(raw, worker="w").buffer == {"produced": 3}


@pytest.mark.parametrize("offset", [1.1e9, -1.1e9, 1e300, "1", True, None])
def test_an_offset_that_no_clock_has_is_left_out(offset):
    assert parsed(clock_offset_seconds=offset).clock_offset_seconds is None


def test_outstanding_work_that_cannot_be_used_is_left_out():
    good = {"run_id": "run-a", "operation": "forward", "count": 2}
    bad = [7, None, {}, {**good, "count": 0}, {**good, "run_id": "a:samples"}, {**good, "operation": None}]
    assert parsed(outstanding=[*bad, good]).outstanding == (OutstandingWork("run-a", "forward", 2),)


def test_outstanding_work_names_the_oldest_20_requests():
    ids = [f"q{number}" for number in range(50)]
    [work] = parsed(outstanding=[{"run_id": "r", "operation": "o", "count": 50, "request_ids": ids}]).outstanding
    assert work.request_ids == tuple(ids[:20])


def test_a_reference_among_a_workers_runs_means_its_run():
    assert parsed(runs=["tinker://run-a/weights", 7, "", "x:samples", "run-b"]).runs == ("run-a", "run-b")


def test_mappings_deeper_than_three_levels_are_cut():
    assert parsed(buffer={"a": {"b": {"c": {"d": 1}}}}).buffer == {"a": {"b": {"c": {}}}}


def test_a_role_that_is_no_word_is_refused_and_such_a_phase_left_out():
    assert parsed(phase="x" * 33).phase is None
    with pytest.raises(MalformedRecordError):
        parsed(role="x" * 33)


# --- The ledger -----------------------------------------------------------------------------------------------
def test_a_ledger_reads_as_redis_returns_it():
    fields = {b"enqueued": b"7", b"answered": b"5", b"recorded": b"4", b"last_answered_at": b"99.5", b"other": b"x"}
    assert parse_ledger(fields) == Ledger(enqueued=7, answered=5, recorded=4, last_answered_at=99.5)


@pytest.mark.parametrize("value", [b"-3", b"1.5", b"seven", b"", b"9" * 30, b"\xff"])
def test_a_count_that_cannot_be_used_counts_as_not_said(value):
    assert parse_ledger({b"enqueued": value, b"recorded": value}) == Ledger(enqueued=0, recorded=None)


@pytest.mark.parametrize("value", [b"nan", b"inf", b"-5", b"yesterday", b"1e300"])
def test_an_instant_of_a_ledger_that_cannot_be_used_is_none(value):
    assert parse_ledger({b"last_popped_at": value}).last_popped_at is None


@given(
    st.dictionaries(st.binary(max_size=12) | st.sampled_from([b"enqueued", b"last_popped_at"]), st.binary(max_size=24))
)
def test_no_bytes_crash_the_reader_of_ledgers(fields):
    assert parse_ledger(fields).outstanding_count >= 0


def test_outstanding_is_never_negative():
    assert Ledger(enqueued=3, answered=5).outstanding_count == 0
