"""Memory is bounded; what goes first is written down, and every loss is counted."""

from __future__ import annotations

import redis

from tests.support.workers import RUN, check_sums, command, end_recorder, ledger, make_recorder, record_ops
from workers_client import wire
from workers_client.buffer import FAILURE, OPERATION, Counters, Pending, RecordBuffer

NOBODY = "redis://127.0.0.1:1/0"


def fail_ops(recorder: object, numbers: range) -> None:
    """Record so many failed ops."""
    for number in numbers:
        wanted = command(number)
        with recorder.operation(wanted) as op:  # type: ignore[attr-defined]
            op.finish({"type": "RequestFailedResponse"})


def test_successful_ops_go_first_oldest_first_and_are_counted() -> None:
    counters = Counters()
    held = RecordBuffer(max_records=3, max_bytes=10**9, counters=counters)
    for number, kind in enumerate([OPERATION, FAILURE, OPERATION, OPERATION, FAILURE]):
        held.add(Pending(number, kind, "key", 1, str, number))
    taken = held.take(max_records=10, max_bytes=10**9, is_ready=lambda record: True)
    assert [record.number for record in taken] == [1, 3, 4]
    assert counters.dropped[OPERATION] == {"queue_full": 2}
    assert counters.dropped[FAILURE] == {}


def test_bytes_are_bounded_too() -> None:
    counters = Counters()
    held = RecordBuffer(max_records=1_000, max_bytes=250, counters=counters)
    for number in range(5):
        held.add(Pending(number, OPERATION, "key", 100, str, number))
    assert len(held) == 2
    assert held.size_bytes == 200
    assert counters.dropped[OPERATION] == {"bytes_full": 3}


def test_a_full_buffer_keeps_failures_and_exact_totals(redis_client: redis.Redis, redis_url: str) -> None:
    recorder = make_recorder(NOBODY, max_records=50, interval_seconds=30)
    record_ops(recorder, range(200), wire.OPTIM_STEP)
    fail_ops(recorder, range(200, 220))
    stats = recorder.stats()
    assert stats["dropped"] == {"operation": {"queue_full": 170}}
    assert stats["buffered"]["failure"] == 20
    recorder._core.transport._url = redis_url  # the outage ends
    recorder._core.transport.close()
    assert recorder.flush(20)
    check_sums(recorder, redis_client)
    counts = ledger(redis_client)
    assert (counts["enqueued"], counts["popped"], counts["answered"], counts["failed"]) == (200, 200, 200, 20)
    assert redis_client.get(wire.steps_key(RUN)) == b"200"
    end_recorder(recorder)


def test_dropped_records_leave_gaps_in_the_numbers(redis_client: redis.Redis, redis_url: str) -> None:
    recorder = make_recorder(NOBODY, max_records=5, interval_seconds=30)
    record_ops(recorder, range(8))
    recorder.stats()
    recorder._core.transport._url = redis_url
    recorder._core.transport.close()
    assert recorder.flush(20)
    raw = redis_client.lrange(wire.operations_key(RUN), 0, -1)
    numbers = [int(str(wire.parse_operation(element, run_id=RUN).id).rsplit(":", 1)[1]) for element in raw]
    assert numbers == [4, 5, 6, 7, 8]
    end_recorder(recorder)


def test_a_large_backlog_goes_in_bounded_flushes(redis_client: redis.Redis, redis_url: str) -> None:
    recorder = make_recorder(redis_url, interval_seconds=30)
    record_ops(recorder, range(12_000))
    assert recorder.flush(60)
    assert recorder.stats()["flushes"] >= 3
    assert redis_client.llen(wire.operations_key(RUN)) == wire.LIST_LIMIT
    assert ledger(redis_client)["recorded"] == 12_000
    end_recorder(recorder)


def test_events_beyond_the_bound_are_folded_where_the_thread_starves() -> None:
    recorder = make_recorder(NOBODY, max_records=100, interval_seconds=30)
    recorder._core.flusher.start = lambda: None  # type: ignore[method-assign] # a host that can't start threads
    record_ops(recorder, range(30_000))
    assert len(recorder._core.events) <= 20_001
    stats = recorder.stats()
    assert stats["produced"]["operation"] == 30_000
    assert stats["buffered"]["operation"] == 100


def test_hooks_after_close_stay_bounded_and_start_nothing(redis_client: redis.Redis, redis_url: str) -> None:
    recorder = make_recorder(redis_url, max_records=100)
    record_ops(recorder, range(1))
    assert recorder.close(10)
    record_ops(recorder, range(1, 30_000))
    assert not recorder._core.flusher.is_running
    assert len(recorder._core.events) <= 20_001
    assert recorder.stats()["buffered"]["operation"] == 100
    end_recorder(recorder)
