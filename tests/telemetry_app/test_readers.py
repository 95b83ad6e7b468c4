"""Bytes of a real Redis in, checked records out; an outage is never emptiness."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from telemetry_app import readers
from telemetry_app.exceptions import LiveDataUnavailableError
from tests.support.records import RUN, START, foreign_op, op, sample_failure, sample_group, turn, worker
from workers_client import wire
from workers_client.wire_worker import Ledger


def parse(raw):
    return wire.parse_operation(raw, run_id=RUN)


def ids_after(newest_record_id, **fields):
    found = readers.read_list_after(wire.operations_key(RUN), newest_record_id, parse, **fields)
    return [record.id for record in found.records]


# --- One run --------------------------------------------------------------------------------------------------
def test_a_run_reads_as_it_was_written(writer):
    operation, failure, group = op(at=START), sample_failure(at=START + 1), sample_group(at=START + 2, count=7)
    writer.operations(operation)
    writer.samples(failure, group)
    writer.ledger(enqueued=5, popped=4, answered=3, last_enqueued_at=START)
    writer.steps(12, finished_at=(START - 5, START))
    writer.client.rpush(wire.queue_key(RUN), "a", "b")
    live = readers.read_run(RUN)
    assert live.operations.records == [operation]
    assert live.samples.records == [failure, group]
    assert live.ledger == Ledger(enqueued=5, popped=4, answered=3, last_enqueued_at=START)
    assert (live.steps_completed, live.step_times, live.queue_depth) == (12, [START - 5, START], 2)
    assert live.last_activity_at == START + 2


def test_a_run_that_redis_does_not_know_does_not_exist(writer):
    live = readers.read_run(RUN)
    assert not live.exists
    assert (live.operations.records, live.queue_depth, live.last_activity_at) == ([], None, None)


@pytest.mark.parametrize(
    "write",
    [
        lambda writer: writer.active(RUN, START),
        lambda writer: writer.client.rpush(wire.operations_key(RUN), wire.encode(op(at=START))),
        lambda writer: writer.client.rpush(wire.samples_key(RUN), wire.encode(sample_group(at=START))),
        lambda writer: writer.ledger(enqueued=1),
        lambda writer: writer.steps(1),
    ],
    ids=["index", "operations", "samples", "ledger", "steps"],
)
def test_a_run_exists_whatever_redis_holds_of_it(writer, write):
    write(writer)
    assert readers.read_run(RUN).exists


def test_runs_are_read_apart(writer):
    writer.operations(op(at=START, id="a:1"), op(at=START, id="b:1", run_id="run-b"))
    runs = readers.read_runs([RUN, "run-b", "run-c"])
    assert {run: [record.id for record in live.operations.records] for run, live in runs.items()} == {
        RUN: ["a:1"],
        "run-b": ["b:1"],
        "run-c": [],
    }


def test_reading_no_runs_at_all_is_fine(writer):
    assert readers.read_runs([]) == {}


def test_of_a_list_the_newest_are_read_and_its_whole_length_told(writer):
    writer.operations(*(op(at=START + n, id=f"w:{n}") for n in range(10)))
    operations = readers.read_runs([RUN], newest=3)[RUN].operations
    assert [record.id for record in operations.records] == ["w:7", "w:8", "w:9"]
    assert operations.length == 10


def test_a_record_that_stands_twice_is_read_once_as_it_was_first(writer):
    writer.operations(op(at=START, id="w:1", elapsed_seconds=1.0), op(at=START, id="w:1", elapsed_seconds=9.0))
    assert [record.elapsed_seconds for record in readers.read_run(RUN).operations.records] == [1.0]


def test_bad_elements_are_counted_and_the_others_read(writer):
    writer.operations(op(at=START, id="w:1"))
    other_run = wire.encode(op(at=START, run_id="run-b"))
    writer.raw_operations(RUN, b"\x80\x04", "{", "[]", "{}", other_run, active_at=START)
    writer.operations(op(at=START, id="w:2"))
    writer.client.rpush(wire.samples_key(RUN), "nonsense")
    live = readers.read_run(RUN)
    assert [record.id for record in live.operations.records] == ["w:1", "w:2"]
    assert (live.operations.malformed_count, live.samples.malformed_count, live.malformed_count) == (5, 1, 6)


def test_a_list_of_another_redis_type_is_one_bad_record_and_the_rest_of_the_run_reads(writer):
    writer.client.set(wire.operations_key(RUN), "no list")
    writer.samples(sample_group(at=START, count=3))
    live = readers.read_run(RUN)
    assert (live.operations.records, live.operations.malformed_count) == ([], 1)
    assert live.samples.records[0].count == 3


def test_every_key_of_a_run_may_have_another_redis_type(writer):
    builders = (wire.operations_key, wire.samples_key, wire.step_times_key, wire.queue_key)
    for key in (*(builder(RUN) for builder in builders), wire.ledger_key(RUN)):
        writer.client.set(key, "no list and no hash")
    writer.client.rpush(wire.steps_key(RUN), "no string")
    writer.client.set(wire.RUNS_KEY, "no sorted set")
    live = readers.read_run(RUN)
    assert live.malformed_count == 2
    assert (live.ledger, live.steps_completed, live.step_times, live.queue_depth) == (Ledger(), 0, [], None)


@pytest.mark.parametrize("raw", ["-3", "seven", "1.5", "9" * 19, "", b"\xff"])
def test_a_step_count_that_cannot_be_used_is_0(writer, raw):
    writer.client.set(wire.steps_key(RUN), raw)
    assert readers.read_run(RUN).steps_completed == 0


def test_step_times_that_cannot_be_used_are_left_out(writer):
    writer.client.rpush(wire.step_times_key(RUN), "nan", "inf", "-5", "0", "yesterday", b"\xff", "1e300", str(START))
    assert readers.read_run(RUN).step_times == [START]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)
@given(elements=st.lists(st.binary(max_size=60), min_size=1, max_size=10))
def test_no_bytes_in_a_list_crash_the_reader(writer, elements):
    writer.client.flushdb()
    for key in (wire.operations_key(RUN), wire.samples_key(RUN), wire.step_times_key(RUN)):
        writer.client.rpush(key, *elements)
    assert readers.read_run(RUN).operations.malformed_count == len(elements)


# --- Indexes --------------------------------------------------------------------------------------------------
def test_runs_come_newest_activity_first(writer):
    for run_id, at in (("old", START), ("new", START + 9), ("middle", START + 5)):
        writer.active(run_id, at)
    assert list(readers.read_run_index().items()) == [("new", START + 9), ("middle", START + 5), ("old", START)]


@pytest.mark.parametrize("run_id", ["Qwen/Qwen3-8B", "a#b%20c", "läuft 🚀", "x:train:0", "tinker://run-a/weights"])
def test_a_run_is_listed_under_the_id_it_has(writer, run_id):
    writer.active(run_id, START)
    assert list(readers.read_run_index()) == [run_id]


@pytest.mark.parametrize("run_id", ["", "x:samples", "x" * 257, "a\x00b"])
def test_a_member_that_can_be_no_run_is_left_out(writer, run_id):
    writer.active(run_id, START)
    writer.active(RUN, START)
    assert list(readers.read_run_index()) == [RUN]


@pytest.mark.parametrize("score", ["inf", "1e300", "-inf", "-5", "0"])
def test_a_run_whose_activity_is_no_instant_is_listed_last_and_has_none(writer, score):
    writer.client.zadd(wire.RUNS_KEY, {"odd": float(score), RUN: START})
    assert list(readers.read_run_index()) == [RUN, "odd"]
    assert readers.read_run("odd").last_activity_at is None


@pytest.mark.parametrize("name", ["", "x" * 499, "a\x00b"])
def test_a_member_that_can_be_no_workload_is_left_out(writer, name):
    writer.client.zadd(wire.WORKLOADS_KEY, {name: START})
    writer.turns(turn(at=START))
    assert list(readers.read_workload_index()) == ["workload-1"]


@pytest.mark.parametrize(
    "read", [readers.read_run_index, readers.read_workload_index, lambda: readers.read_workers().records]
)
def test_an_index_of_another_redis_type_reads_as_empty(writer, read):
    for key in (wire.RUNS_KEY, wire.WORKLOADS_KEY, wire.WORKERS_KEY):
        writer.client.set(key, "no sorted set")
    assert not read()


# --- Workers --------------------------------------------------------------------------------------------------
def test_workers_read_as_they_were_written(writer):
    record = worker(at=START, node="node-1")
    writer.workers(record)
    workers = readers.read_workers()
    assert workers.records == {record.worker: record}
    assert workers.heartbeats == {record.worker: START}
    assert workers.malformed_count == 0


def test_a_worker_whose_record_expired_leaves_its_heartbeat(writer):
    writer.client.zadd(wire.WORKERS_KEY, {"gone": START})
    workers = readers.read_workers()
    assert (workers.records, workers.heartbeats) == ({}, {"gone": START})


def test_bad_worker_records_are_counted_and_the_others_read(writer):
    writer.workers(worker("good", at=START))
    writer.raw_worker("other", {"worker": "someone-else", "role": "trainer", "at": START}, heartbeat_at=START)
    writer.raw_worker("bare", {}, heartbeat_at=START)
    writer.client.zadd(wire.WORKERS_KEY, {"list": START})
    writer.client.rpush(wire.worker_key("list"), "no string")
    workers = readers.read_workers()
    assert (list(workers.records), workers.malformed_count) == (["good"], 3)


@pytest.mark.parametrize("name", ["", "x" * 513, "a\x00b"])
def test_a_member_that_can_be_no_worker_is_counted_and_left_out(writer, name):
    writer.raw_worker(name, {"role": "trainer", "at": START}, heartbeat_at=START)
    workers = readers.read_workers()
    assert (workers.records, workers.heartbeats, workers.malformed_count) == ({}, {}, 1)


@pytest.mark.parametrize("score", ["inf", "-inf", "1e300"])
def test_a_heartbeat_that_is_no_instant_leaves_that_of_the_record(writer, score):
    writer.workers(worker("odd", at=START))
    writer.client.zadd(wire.WORKERS_KEY, {"odd": float(score)})
    workers = readers.read_workers()
    assert "odd" in workers.records
    assert workers.heartbeats["odd"] == 0.0


# --- What is behind a cursor ----------------------------------------------------------------------------------
@pytest.fixture
def ten_records(writer):
    writer.operations(*(op(at=START + n, id=f"w:{n}") for n in range(10)))
    return writer


@pytest.mark.parametrize("chunk", [1, 2, 3, 10, 500])
def test_records_behind_the_cursor_are_read_oldest_first(ten_records, chunk):
    assert ids_after("w:6", chunk=chunk) == ["w:7", "w:8", "w:9"]


@pytest.mark.parametrize("chunk", [1, 3, 10, 11, 500])
@pytest.mark.parametrize("cursor", ["", "w:trimmed"])
def test_all_is_new_where_the_cursor_is_not_in_the_list(ten_records, cursor, chunk):
    assert ids_after(cursor, chunk=chunk) == [f"w:{n}" for n in range(10)]


def test_nothing_is_new_where_the_cursor_is_the_newest(ten_records):
    assert ids_after("w:9") == []


def test_a_list_that_is_missing_has_nothing_new(writer):
    found = readers.read_list_after(wire.operations_key(RUN), "w:1", parse)
    assert (found.records, found.malformed_count) == ([], 0)


def test_a_list_of_another_redis_type_is_one_bad_record_behind_the_cursor(writer):
    writer.client.set(wire.operations_key(RUN), "no list")
    found = readers.read_list_after(wire.operations_key(RUN), "w:1", parse)
    assert (found.records, found.malformed_count, found.malformed_tail_count) == ([], 1, 1)


def test_bad_elements_behind_the_cursor_are_counted_and_those_at_the_tail_apart(ten_records):
    ten_records.raw_operations(RUN, "bad", active_at=START)
    ten_records.operations(op(at=START + 11, id="w:11"))
    ten_records.raw_operations(RUN, "bad", "bad", active_at=START)
    found = readers.read_list_after(wire.operations_key(RUN), "w:9", parse, chunk=2)
    assert [record.id for record in found.records] == ["w:11"]
    assert (found.malformed_count, found.malformed_tail_count) == (3, 2)


def test_a_record_behind_the_cursor_that_stands_twice_is_read_once_as_it_was_first(ten_records):
    ten_records.operations(op(at=START, id="w:10", elapsed_seconds=1.0), op(at=START, id="w:10", elapsed_seconds=9.0))
    found = readers.read_list_after(wire.operations_key(RUN), "w:9", parse)
    assert [record.elapsed_seconds for record in found.records] == [1.0]


def test_the_cursors_record_delivered_again_hides_nothing_before_it(writer):
    first = op(at=START, id="a:1")
    writer.operations(first, op(at=START + 1, id="b:1"), first, op(at=START + 2, id="b:2"))
    assert ids_after("a:1") == ["b:1", "b:2"]


def test_a_record_before_the_cursor_delivered_again_is_not_new(writer):
    first = op(at=START, id="a:1")
    writer.operations(first, op(at=START + 1, id="b:1"), first, op(at=START + 2, id="b:2"))
    assert ids_after("b:1") == ["b:2"]


def test_the_cursors_record_of_openrl_delivered_again_hides_nothing_before_it(writer):
    first = foreign_op(at=START, request_id="q1")
    writer.operations(first, op(at=START + 1, id="b:1"), first)
    found = readers.read_list_after(wire.operations_key(RUN), first.identity, parse)
    assert [record.id for record in found.records] == ["b:1"]


# --- Outages --------------------------------------------------------------------------------------------------
READS = {
    "run_index": readers.read_run_index,
    "workload_index": readers.read_workload_index,
    "run": lambda: readers.read_run(RUN),
    "runs": lambda: readers.read_runs([RUN]),
    "workers": readers.read_workers,
    "list_after": lambda: readers.read_list_after(wire.operations_key(RUN), "", parse),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_redis_that_refuses_is_unavailable(redis_out, read):
    with pytest.raises(LiveDataUnavailableError):
        read()


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_redis_that_never_answers_is_unavailable(point_site_at, silent_redis_url, read):
    point_site_at(silent_redis_url)
    with pytest.raises(LiveDataUnavailableError, match="TimeoutError"):
        read()


def test_a_redis_that_asks_for_a_password_is_unavailable(writer, redis_client):
    redis_client.acl_setuser("limited", enabled=True, nopass=True, commands=["+ping"])
    with pytest.raises(LiveDataUnavailableError):
        _read_as(redis_client, "limited")


def _read_as(client, user):
    """Read with the rights of another user on the site's own connections."""
    connection = readers._connection()
    pool = connection.connection_pool
    with pytest.MonkeyPatch.context() as patch:
        other = type(connection)(
            connection_pool=type(pool)(**{**_connection_arguments(pool), "username": user, "password": "x"})
        )
        patch.setattr(readers, "_connection", lambda: other)
        try:
            readers.read_run(RUN)
        finally:
            other.close()
            other.connection_pool.disconnect()
            client.acl_deluser(user)


def _connection_arguments(pool):
    return {"connection_class": pool.connection_class, **pool.connection_kwargs}


def test_the_error_of_an_outage_names_no_address(redis_out, tmp_path):
    with pytest.raises(LiveDataUnavailableError) as caught:
        readers.read_run_index()
    assert str(tmp_path) not in str(caught.value)


def test_the_ledger_is_read_before_the_lists_whose_records_it_counts():
    keys = [(name, key) for name, key, *_ in readers._run_commands("run-a", 1, 1, 1)]
    lists = [keys.index(("LRANGE", key)) for key in (wire.operations_key("run-a"), wire.samples_key("run-a"))]
    assert keys.index(("HGETALL", wire.ledger_key("run-a"))) < min(lists)
