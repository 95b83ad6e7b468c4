"""What is idle leaves Redis once history has it, and nothing before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from telemetry_app import redis_removal
from telemetry_app.models import Execution, ListCursor, Operation, Run, Sample, Turn, Worker
from telemetry_app.redis_trimming import is_taken, trim_idle
from telemetry_app.removal import Removal
from telemetry_app.retention import apply_retention
from telemetry_app.snapshots import take_snapshot
from tests.support.policies import keep
from tests.support.records import RUN, START, foreign_op, op, sample_group, step_of_ops, turn, worker
from tests.support.workers import end_recorder, make_recorder, record_ops
from workers_client import wire
from workers_client.codec import encode_object

pytestmark = pytest.mark.django_db
NOW = datetime.fromtimestamp(START, UTC)
LATER = NOW + timedelta(days=8)
BEFORE = LATER - timedelta(days=7)
RUN_KEYS = [wire.operations_key(RUN), wire.samples_key(RUN), wire.ledger_key(RUN), wire.step_times_key(RUN)]
WORKLOAD = "workload-1"


@pytest.fixture
def filled(writer):
    """A run with something under every key, its worker and its workload, all in PostgreSQL."""
    for step in range(3):
        writer.operations(*step_of_ops(step, at=START - 30 + step))
    writer.samples(sample_group(at=START - 20, count=4))
    writer.ledger(enqueued=6, popped=6, answered=6, delivered=6, recorded=6, samples_recorded=1)
    writer.steps(3, finished_at=(START - 30, START - 29, START - 28))
    writer.turns(turn(at=START - 10))
    writer.workers(worker(at=START - 5))
    take_snapshot(now=NOW)
    return writer


def trim(*, now=LATER, before=BEFORE):
    """Trim; return how many keys went."""
    execution = Execution.objects.create(task="retention", policy="redis", started_at=now)
    trim_idle(before, Removal(execution))
    execution.refresh_from_db()
    return execution.keys_removed


def keys(client):
    return {key.decode() for key in client.scan_iter()}


# --- What goes ------------------------------------------------------------------------------------------------
def test_an_idle_run_leaves_nothing_but_its_step_count(filled):
    filled.client.delete(wire.worker_key(worker(at=0).worker))  # Redis's clock is not ours: it expires in a day
    assert trim() == 5
    assert keys(filled.client) == {wire.steps_key(RUN)}
    assert 364 * 86_400 < filled.client.ttl(wire.steps_key(RUN)) <= 365 * 86_400
    assert filled.client.get(wire.steps_key(RUN)) == b"3"


def test_history_is_whole_after_redis_was_trimmed(filled):
    before = (Operation.objects.count(), Sample.objects.count(), Turn.objects.count(), Worker.objects.count())
    run = Run.objects.values().get()
    trim()
    take_snapshot(now=LATER)
    assert (Operation.objects.count(), Sample.objects.count(), Turn.objects.count(), Worker.objects.count()) == before
    after = Run.objects.values().get()
    same = ("steps_completed", "enqueued", "answered", "recorded", "operations_count", "missing_records")
    assert {name: after[name] for name in same} == {name: run[name] for name in same}


def test_trimming_again_removes_nothing(filled):
    trim()
    assert trim() == 0


def test_an_execution_says_how_many_keys_and_bytes_went(filled):
    keep()
    result = next(result for result in apply_retention(now=LATER).policies if result.policy == "redis")
    assert (result.keys_removed, result.error) == (6, "")  # also the worker's record, which Redis has still
    assert result.bytes_removed > 1_000


@pytest.mark.parametrize("days", [0, 9])
def test_what_was_not_idle_for_long_enough_stays(filled, settings, days):
    settings.TELEMETRY_REDIS_IDLE_DAYS = days  # 0 is never
    before = keys(filled.client)
    apply_retention(now=LATER)
    assert keys(filled.client) == before


def test_every_key_expires_or_is_gone_after_a_real_worker_and_its_run_ended(redis_client, redis_url):
    recorder = make_recorder(redis_url)
    record_ops(recorder, range(4), wire.OPTIM_STEP)
    recorder.close(timeout=5)
    end_recorder(recorder)
    take_snapshot()
    now = datetime.now(UTC) + timedelta(days=8)
    redis_client.delete(*redis_client.keys("open_rl:worker:*"), *redis_client.keys("open_rl:flush:*"))
    trim(now=now, before=now - timedelta(days=7))
    assert keys(redis_client) == {wire.steps_key("run-a")}
    assert all(redis_client.ttl(key) > 0 for key in redis_client.scan_iter())


def test_lists_that_no_index_names_go_too(writer):
    """OpenRL's own lists: their run is known from the time when they were taken."""
    writer.operations(*(foreign_op(at=START - number) for number in range(3)))
    take_snapshot(now=NOW)
    writer.client.delete(wire.RUNS_KEY)
    assert trim() == 1
    assert keys(writer.client) == set()


# --- What stays -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["op", "sample", "malformed", "ledger", "steps"])
def test_a_run_with_something_that_no_snapshot_has_seen_stays(filled, what):
    client = filled.client
    if what == "op":
        client.rpush(wire.operations_key(RUN), wire.encode(op(at=START - 1)))
    elif what == "sample":
        client.rpush(wire.samples_key(RUN), wire.encode(sample_group(at=START - 1)))
    elif what == "malformed":
        client.rpush(wire.operations_key(RUN), "no record")
    elif what == "ledger":
        client.hincrby(wire.ledger_key(RUN), "enqueued", 1)
    else:
        client.incr(wire.steps_key(RUN))
    before = {key: client.dump(key) for key in [*RUN_KEYS, wire.steps_key(RUN), wire.RUNS_KEY]}
    seen = Run.objects.get().ledger_seen
    cursors = list(ListCursor.objects.filter(list_key__in=RUN_KEYS).values())
    trim()
    assert {key: client.dump(key) for key in before} == before
    assert Run.objects.get().ledger_seen == seen
    assert list(ListCursor.objects.filter(list_key__in=RUN_KEYS).values()) == cursors


def test_a_run_that_history_does_not_know_stays(writer):
    writer.operations(op(at=START))
    before = keys(writer.client)
    assert trim() == 0
    assert keys(writer.client) == before


def test_turns_that_no_snapshot_has_seen_stay(filled):
    filled.client.rpush(wire.turns_key(WORKLOAD), wire.encode(turn(at=START - 9)))
    trim()
    assert filled.client.llen(wire.turns_key(WORKLOAD)) == 2
    assert filled.client.zscore(wire.WORKLOADS_KEY, WORKLOAD) is not None


def test_a_worker_whose_record_no_snapshot_has_seen_stays(writer):
    writer.workers(worker(at=START - 5))
    trim()
    assert writer.client.zcard(wire.WORKERS_KEY) == 1


def test_what_another_session_takes_right_now_stays(filled, monkeypatch):
    monkeypatch.setattr("telemetry_app.locks.take_until_commit", lambda name: False)
    assert trim() == 1  # the worker's record alone
    assert {*RUN_KEYS, wire.turns_key(WORKLOAD)} <= keys(filled.client)


@pytest.mark.parametrize(
    "push",
    [
        lambda client: client.rpush(wire.operations_key(RUN), wire.encode(op(at=START + 1))),
        lambda client: client.rpush(wire.samples_key(RUN), wire.encode(sample_group(at=START + 1))),
        lambda client: client.hincrby(wire.ledger_key(RUN), "answered", 1),
        lambda client: client.incr(wire.steps_key(RUN)),
        lambda client: client.rpush(wire.step_times_key(RUN), "1"),
    ],
)
def test_what_is_pushed_between_looking_and_removing_is_not_lost(filled, monkeypatch, push):
    remove = redis_removal.WatchedKeys.remove

    def remove_after_a_push(self, *arguments, **options):
        push(filled.client)
        return remove(self, *arguments, **options)

    seen = Run.objects.get().ledger_seen
    monkeypatch.setattr(redis_removal.WatchedKeys, "remove", remove_after_a_push)
    trim()
    assert set(RUN_KEYS) <= keys(filled.client)
    assert filled.client.zscore(wire.RUNS_KEY, RUN) is not None
    assert Run.objects.get().ledger_seen == seen
    assert ListCursor.objects.get(list_key=wire.operations_key(RUN)).newest_record_id


def test_a_key_of_another_redis_type_stays(filled):
    filled.client.delete(wire.samples_key(RUN))
    filled.client.set(wire.samples_key(RUN), "text")
    trim()
    assert set(RUN_KEYS) <= keys(filled.client)


def test_an_outage_of_redis_stands_in_the_execution(redis_out):
    keep()
    assert "LiveDataUnavailableError" in apply_retention(now=LATER).errors["redis"]


# --- What comes back ------------------------------------------------------------------------------------------
def test_a_run_that_comes_back_goes_on_with_totals_and_steps(filled):
    trim()
    at = LATER.timestamp() + 10
    filled.operations(*step_of_ops(3, at=at))
    filled.client.hincrby(wire.ledger_key(RUN), "enqueued", 2)  # an empty ledger counts from 0
    filled.ledger(popped=2, answered=2, delivered=2, recorded=2)
    filled.client.incr(wire.steps_key(RUN))
    take_snapshot(now=LATER + timedelta(seconds=20))
    run = Run.objects.get()
    assert (run.enqueued, run.answered, run.recorded, run.steps_completed) == (8, 8, 8, 4)
    assert (run.operations_count, run.missing_records) == (8, 0)


def test_a_run_that_comes_back_with_more_than_it_had_counts_all_of_it(filled):
    """Nobody saw the ledger while it was smaller than before: that it began anew has to be known."""
    trim()
    filled.ledger(enqueued=100, popped=100, answered=100, delivered=100, recorded=0)
    filled.active(RUN, LATER.timestamp())
    take_snapshot(now=LATER + timedelta(seconds=20))
    assert Run.objects.get().enqueued == 106


def test_a_new_step_keeps_the_step_count_for_good(redis_client, redis_url):
    redis_client.set(wire.steps_key("run-a"), 7, ex=3600)
    recorder = make_recorder(redis_url)
    record_ops(recorder, range(2), wire.OPTIM_STEP)
    recorder.close(timeout=5)
    end_recorder(recorder)
    assert redis_client.get(wire.steps_key("run-a")) == b"9"
    assert redis_client.ttl(wire.steps_key("run-a")) == -1


def test_cursors_of_lists_that_a_killed_execution_removed_begin_anew(filled):
    filled.client.flushdb()  # removed, and the transaction was never committed
    trim()
    assert set(ListCursor.objects.filter(list_key__in=RUN_KEYS).values_list("newest_record_id", flat=True)) == {""}
    assert Run.objects.get().ledger_seen == {}


# --- Odd contents ---------------------------------------------------------------------------------------------
def test_an_activity_of_a_wrong_clock_does_not_stay_for_years(filled):
    for index, member in ((wire.RUNS_KEY, RUN), (wire.WORKLOADS_KEY, WORKLOAD)):
        filled.client.zadd(index, {member: START + 14 * 365 * 86_400})
    filled.client.zadd(wire.WORKERS_KEY, {"worker-2040": START + 14 * 365 * 86_400})
    trim()
    assert not filled.client.exists(wire.RUNS_KEY, wire.WORKLOADS_KEY, wire.WORKERS_KEY)


def test_many_idle_entries_go_though_some_stay(writer):
    heartbeats = {f"worker-{number}": START - number for number in range(1_300)}
    writer.client.zadd(wire.WORKERS_KEY, heartbeats)
    kept = worker("worker-7", at=START)
    writer.workers(kept)
    trim()
    assert writer.client.zrange(wire.WORKERS_KEY, 0, -1) == [b"worker-7"]


def test_names_that_are_no_texts_do_no_harm(filled):
    for index in (wire.RUNS_KEY, wire.WORKLOADS_KEY, wire.WORKERS_KEY):
        filled.client.zadd(index, {b"\xff\xfe": START, b"a\x00b": START, b"x" * 600: START, b"": START})
    keep()
    assert apply_retention(now=LATER).errors == {}
    assert filled.client.zscore(wire.RUNS_KEY, RUN) is None


def parse(raw):
    return wire.parse_operation(raw, run_id=RUN)


def cursor(record, malformed_behind=0):
    return ListCursor(newest_record_id=record.identity if record else "", malformed_behind=malformed_behind)


FIRST, SECOND = op(at=START), op(at=START + 1)
A, B = wire.encode(FIRST), wire.encode(SECOND)
BAD = b"no record"


@pytest.mark.parametrize(
    ("elements", "at", "expected"),
    [
        ([], None, True),
        ([], cursor(FIRST, 3), True),
        ([A], None, False),
        ([A], cursor(None), False),
        ([A, B], cursor(SECOND), True),
        ([A, B], cursor(FIRST), False),
        ([A, B], cursor(op(at=1.0)), False),
        ([A, BAD], cursor(FIRST, 1), True),
        ([A, BAD, BAD], cursor(FIRST, 1), False),
        ([A, BAD], cursor(FIRST), False),
        ([BAD, BAD], cursor(None, 2), True),
        ([BAD], None, False),
        ([A, B, A], cursor(SECOND), True),  # delivered twice
        ([B, A, BAD, B], cursor(SECOND), True),
    ],
)
def test_a_list_is_taken_up_to_its_cursor(elements, at, expected):
    assert is_taken(elements, at, parse) is expected


def test_other_content_under_a_known_id_is_not_taken_for_a_second_delivery():
    other = encode_object({**wire.to_wire(FIRST), "elapsed_seconds": 9.0})
    assert not is_taken([A, B, other], cursor(SECOND), parse)
