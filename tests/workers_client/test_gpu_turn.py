"""GPU turns and spans: what their records hold, and that nothing of the host's can break them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from tests.support.workers import RUN, command, end_recorder, make_recorder
from workers_client import wire
from workers_client.gpu_turn import merged_ops
from workers_client.recorder import Recorder

WORKLOAD = "trainer-a"


class Lease:
    """A plain lease that knows its runtime."""

    runtime_id = "runtime-7"

    def __enter__(self) -> str:
        return "device-0"

    def __exit__(self, *_: object) -> None:
        return None


class AsyncLease:
    """An async lease."""

    async def __aenter__(self) -> str:
        return "device-1"

    async def __aexit__(self, *_: object) -> None:
        return None


class Nameless:
    """An object that has no name to give."""

    def __str__(self) -> str:
        raise RuntimeError("no name")

    __repr__ = __str__


@pytest.fixture
def recorder(redis_url: str, redis_client: redis.Redis) -> Iterator[Recorder]:
    made = make_recorder(redis_url, interval_seconds=30)
    yield made
    end_recorder(made)


def turns(client: redis.Redis, workload: str = WORKLOAD) -> list[wire.TurnRecord]:
    """Return what stands in a workload's list."""
    raw = client.lrange(wire.turns_key(workload), 0, -1)
    return [wire.parse_turn(element, workload=workload) for element in raw]


def run_op(recorder: Recorder, number: int, **result: Any) -> None:
    """Run one op."""
    with recorder.operation(command(number)) as op:
        op.finish({"type": "done", **result})


def test_a_turn_tells_the_wait_the_hold_and_what_ran_inside(recorder: Recorder, redis_client: redis.Redis) -> None:
    with recorder.gpu_turn(WORKLOAD, Lease()) as given:
        with recorder.span("wake_up"):
            pass
        run_op(recorder, 1)
        run_op(recorder, 2, type="RequestFailedResponse")
        with contextlib.suppress(ValueError), recorder.span("sleep"):
            raise ValueError
    assert given == "device-0"
    assert recorder.flush(20)
    [turn] = turns(redis_client)
    assert turn.requested_at <= turn.started_at <= turn.at
    assert (turn.worker, turn.role) == (recorder.worker, "trainer")
    told = [(op.name, op.status, op.run_id, op.request_id) for op in turn.ops]
    assert told == [
        ("wake_up", "succeeded", None, None),
        ("forward_backward", "succeeded", RUN, "req-1"),
        ("forward_backward", "failed", RUN, "req-2"),
        ("sleep", "failed", None, None),
    ]


def test_a_span_for_one_request_says_which(recorder: Recorder, redis_client: redis.Redis) -> None:
    with recorder.gpu_turn(WORKLOAD, Lease()):
        with recorder.span("sample", command(7)):
            pass
        with recorder.span("sample", "no request"):
            pass
    assert recorder.flush(20)
    [turn] = turns(redis_client)
    assert [(op.name, op.run_id, op.request_id) for op in turn.ops] == [
        ("sample", RUN, "req-7"), ("sample", None, None),
    ]  # fmt: skip
    assert recorder.stats()["hook_errors"] == 1


def test_an_async_lease_and_a_plain_one_work_in_async_code(recorder: Recorder, redis_client: redis.Redis) -> None:
    async def hold() -> list[str]:
        given = []
        for lease in (AsyncLease(), Lease()):
            async with recorder.gpu_turn(WORKLOAD, lease) as device, recorder.span("weight_sync"):
                given.append(device)
        return given

    assert asyncio.run(hold()) == ["device-1", "device-0"]
    assert recorder.flush(20)
    assert [[op.name for op in turn.ops] for turn in turns(redis_client)] == [["weight_sync"]] * 2


@contextlib.contextmanager
def lease_with_value(value: object) -> Iterator[object]:
    """Return a lease that gives a value and has no attributes of its own."""
    yield value


@contextlib.asynccontextmanager
async def async_lease_with_value(value: object) -> AsyncIterator[object]:
    """Return the same for async code."""
    yield value


def test_a_turn_names_its_place(redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"POD_UID": "uid-1", "NODE_NAME": "node-1", "RUNTIME_ID": "runtime-1"}.items():
        monkeypatch.setenv(name, value)
    recorder = make_recorder(redis_url, interval_seconds=30)
    held = SimpleNamespace(runtime_id="runtime-9")

    async def hold() -> None:
        async with recorder.gpu_turn(WORKLOAD, async_lease_with_value(held)):
            pass

    for lease in (Lease(), lease_with_value(held), lease_with_value(None)):
        with recorder.gpu_turn(WORKLOAD, lease):
            pass
    asyncio.run(hold())
    assert recorder.flush(20)
    told = turns(redis_client)
    assert [turn.runtime_id for turn in told] == ["runtime-7", "runtime-9", "runtime-1", "runtime-9"]
    assert {(turn.pod_uid, turn.node) for turn in told} == {("uid-1", "node-1")}
    end_recorder(recorder)


@pytest.mark.parametrize("name", [Nameless(), ""], ids=["raises", "empty"])
def test_a_nameless_workload_costs_one_hook_error(recorder: Recorder, redis_client: redis.Redis, name: object) -> None:
    with recorder.gpu_turn(name, Lease()):
        pass
    assert recorder.stats()["hook_errors"] == 1
    assert recorder.flush(20)
    assert len(turns(redis_client, "unknown")) == 1


@pytest.mark.parametrize("name", [Nameless(), ""], ids=["raises", "empty"])
def test_a_nameless_span_or_phase_costs_one_hook_error_each(
    recorder: Recorder, redis_client: redis.Redis, name: object
) -> None:
    with recorder.gpu_turn(WORKLOAD, Lease()), recorder.span(name):
        pass
    recorder.phase(name)
    assert recorder.stats()["hook_errors"] == 2
    assert recorder.flush(20)
    [turn] = turns(redis_client)
    assert [op.name for op in turn.ops] == ["unknown"]


def test_names_that_no_store_can_hold_stop_no_flush(recorder: Recorder, redis_client: redis.Redis) -> None:
    with recorder.gpu_turn("a\ud800b\x00", Lease()), recorder.span("c\ud800"):
        pass
    run_op(recorder, 1)
    assert recorder.flush(20)
    [turn] = turns(redis_client, "a?b\ufffd")
    assert [op.name for op in turn.ops] == ["c?"]


def test_what_a_lease_raises_reaches_the_host_and_leaves_no_turn(recorder: Recorder) -> None:
    class Broken(Lease):
        def __enter__(self) -> str:
            raise TimeoutError("no device")

    with pytest.raises(TimeoutError, match="no device"), recorder.gpu_turn(WORKLOAD, Broken()):
        pass
    assert recorder.stats()["produced"]["gpu_turn"] == 0
    assert recorder._core.turns == {}


def test_a_lease_may_swallow_an_error_of_what_it_holds(recorder: Recorder) -> None:
    with recorder.gpu_turn(WORKLOAD, contextlib.suppress(ZeroDivisionError)):
        _ = 1 / 0
    assert recorder.stats()["produced"]["gpu_turn"] == 1


def test_concurrent_ops_of_one_name_and_run_become_one_and_64_are_kept() -> None:
    together = [{"name": "sample", "run_id": RUN, "start": at, "end": at + 2.0, "count": 1} for at in (0.0, 1.0, 1.5)]
    apart = [{"name": "sample", "run_id": RUN, "start": 10.0 + at, "end": 10.5 + at, "count": 1} for at in range(100)]
    merged = merged_ops([*apart, *together])
    assert merged[0] == {"name": "sample", "run_id": RUN, "start": 0.0, "end": 3.5, "count": 3}
    assert len(merged) == wire.TURN_OPS_LIMIT
    assert [op["start"] for op in merged[1:3]] == [10.0, 11.0]
