"""The fold: what is counted reaches the next flush, wherever a flush comes between two calls."""

from __future__ import annotations

import functools
import itertools
import json
import time
from collections import Counter
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from tests.support.workers import RUN, command, end_recorder, ledger, make_recorder
from workers_client import ledger as folding
from workers_client import operation, wire
from workers_client.core import Core
from workers_client.recorder import Recorder

NOBODY = "redis://127.0.0.1:1/0"
CALLS = ("enqueued", "popped", "ran", "answered", "delivered")


@functools.cache
def the_command(number: int, run: str) -> dict[str, Any]:
    """Return the command of a number: the same object in each call, as a host holds it."""
    return command(number, run=run)


def call(recorder: Recorder, number: int, name: str, run: str = RUN) -> None:
    """Make one call about one request; an op that ran succeeds."""
    wanted = the_command(number, run)
    if name == "ran":
        with recorder.operation(wanted) as op:
            op.finish({"type": "done", "metrics": {}})
    elif name == "delivered":
        recorder.delivered(wanted["request_id"])
    else:
        getattr(recorder, name)([wanted] if name == "popped" else wanted)


def take(core: Core) -> Counter[tuple[str, str]]:
    """Take one flush; return what it adds to the ledgers."""
    with core.fold_lock:
        core.fold_events()
        for totals in core.fold.changed.values():
            totals.steps_base = totals.steps_base or 0
        taken = core.take(max_records=10_000, max_bytes=10**9)
        core.fold.records.settle()
    counted: Counter[tuple[str, str]] = Counter()
    for word, key, *rest in taken.total_commands:
        if word == "HINCRBY":
            counted[str(key), str(rest[0])] += int(rest[1])
    return counted


@pytest.fixture
def recorder() -> Recorder:
    made = make_recorder(NOBODY, interval_seconds=3600)
    made._core.flusher.start = lambda: None  # type: ignore[method-assign] # the test takes each flush itself
    return made


def test_an_answer_after_the_flush_of_its_op_is_in_the_next(redis_client: redis.Redis, redis_url: str) -> None:
    recorder = make_recorder(redis_url, interval_seconds=60)
    for name in CALLS[:3]:
        call(recorder, 1, name)
    assert recorder.flush(20)
    call(recorder, 1, "answered")
    assert recorder.flush(20)
    assert ledger(redis_client)["answered"] == 1
    end_recorder(recorder)


@given(
    flushes=st.sets(st.integers(0, 19)),
    order=st.permutations(range(4)),
    names=st.sampled_from([CALLS, CALLS[:-1], CALLS[1:-1], CALLS[-2:-1]]),
)
def test_counts_do_not_depend_on_where_flushes_come(
    flushes: set[int], order: list[int], names: tuple[str, ...]
) -> None:
    made = make_recorder(NOBODY, interval_seconds=3600)
    made._core.flusher.start = lambda: None  # type: ignore[method-assign]
    counted: Counter[tuple[str, str]] = Counter()
    for place, (number, name) in enumerate(itertools.product(order, names)):
        call(made, number, name, run=f"run-{number % 2}")
        if place in flushes:
            counted += take(made._core)
    counted += take(made._core)
    told = [name for name in names if name != "ran"]
    assert counted == {(wire.ledger_key(f"run-{run}"), name): 2 for run in range(2) for name in told}


def test_a_run_that_was_forgotten_while_its_record_waits_loses_no_count(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "RUNS_LIMIT", 2)
    core = recorder._core
    call(recorder, 1, "ran", run="run-1")
    with core.fold_lock:
        core.fold_events()
        core.fold.take_totals([])  # a flush that had no room for the record
    call(recorder, 2, "popped", run="run-2")
    call(recorder, 3, "popped", run="run-3")  # one too many: run-1 is forgotten, its record waits
    call(recorder, 1, "answered", run="run-1")
    counted = take(core)
    assert counted[wire.ledger_key("run-1"), "answered"] == 1


def test_an_op_that_is_timed_on_the_monotonic_clock_is_told_in_unix_seconds() -> None:
    made = make_recorder(NOBODY, interval_seconds=3_600)
    wanted = command(1)
    before = time.time()
    with made.operation(wanted):
        inside = time.time()
    after = time.time()
    time.sleep(0.01)
    made.answered(wanted)
    answered = time.time()
    with made._core.fold_lock:
        made._core.fold_events()
        [op] = [json.loads(record.encode(record.data)) for record in made._core.fold.records._queues["operation"]]
    slack = 0.001  # two clocks, read one after the other
    assert before - slack <= op["started_at"] <= inside + slack
    assert inside - slack <= op["at"] <= after + slack
    [totals] = made._core.fold.runs.values()
    assert after + 0.01 - slack <= totals.last_activity_at <= answered + slack
    end_recorder(made)


def test_what_a_host_does_with_an_op_that_ended_changes_nothing_of_its_record(recorder: Recorder) -> None:
    with recorder.operation(command(1)) as op:
        op.finish({"type": "done", "metrics": {"loss:mean": 1.5}}, tokens=7)
    op.finish({"type": "done", "metrics": {"loss:mean": 2.5}}, tokens=8)
    with op:
        op.finish({"type": "RequestFailedResponse", "error_type": "Late"}, tokens=9)
    core = recorder._core
    with core.fold_lock:
        core.fold_events()
        [record] = [json.loads(record.encode(record.data)) for record in core.fold.records._queues["operation"]]
    assert (record["status"], record["metrics"], record["tokens"]) == ("succeeded", {"loss:mean": 1.5}, 7)
    stats = recorder.stats()
    assert (stats["produced"]["failure"], stats["hook_errors"]) == (0, 1)  # the op that ran a second time


@pytest.mark.parametrize(("every_seconds", "samples"), [(3_600.0, 1), (0.0, 20)])
def test_the_cost_of_a_hook_is_measured_now_and_then(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, every_seconds: float, samples: int
) -> None:
    monkeypatch.setattr(operation, "COST_EVERY_SECONDS", every_seconds)
    for number in range(20):
        call(recorder, number, "ran")
    assert len(recorder._core.hook_costs) == samples
    assert recorder.stats()["hook_p99_us"] > 0


def test_a_shutdown_command_that_is_run_and_answered_counts_as_nothing() -> None:
    made = make_recorder(NOBODY, interval_seconds=3_600)
    sentinel = {**command(1), "request_id": wire.SHUTDOWN_REQUEST_ID, "op": "shutdown_workers"}
    made.popped([sentinel])
    with made.operation(sentinel) as op:
        op.finish({"type": "done"})
    made.answered(sentinel, {"type": "done"})
    assert take(made._core) == {}
    stats = made.stats()
    assert (sum(stats["produced"].values()), stats["hook_errors"]) == (0, 0)
    end_recorder(made)
