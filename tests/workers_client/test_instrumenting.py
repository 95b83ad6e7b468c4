"""The examples of docs/instrumenting.md run as they stand, and record what the page says."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.support.workers import ROOT, RUN, command, end_recorder, ledger, make_recorder
from workers_client import wire
from workers_client.recorder import Recorder

PAGE = (ROOT / "docs" / "instrumenting.md").read_text()


def example(heading: str) -> str:
    """Return the Python of a section."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))


class Slicer:
    """A time slicer that gives the device at once."""

    @contextlib.contextmanager
    def lease(self, workload: str) -> Iterator[None]:
        yield


class Kept:
    """A queue, and a store of results; what is put into either is kept."""

    def __init__(self) -> None:
        self.pushed: list[Any] = []
        self.saved: dict[str, Any] = {}

    def push(self, pushed: Any) -> None:
        self.pushed.append(pushed)

    def save_first(self, request_id: str, result: Any) -> bool:
        return self.saved.setdefault(request_id, result) is result


@pytest.fixture
def recorder(redis_url: str, redis_client: redis.Redis) -> Iterator[Recorder]:
    made = make_recorder(redis_url, interval_seconds=30)
    yield made
    end_recorder(made)


def operations(client: redis.Redis) -> list[wire.OpRecord]:
    """Return the op records of the run."""
    return [wire.parse_operation(raw, run_id=RUN) for raw in client.lrange(wire.operations_key(RUN), 0, -1)]


def test_the_trainer(recorder: Recorder, redis_client: redis.Redis) -> None:
    loop, sanitize = re.findall(r"```python\n(.*?)```", PAGE.split("\n## A trainer\n")[1], re.DOTALL)[:2]
    saved: dict[str, Any] = {}

    def run(wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted["request_id"] == "req-1":
            raise ValueError("of the host")
        names = {"recorder": recorder, "metrics": {"loss:sum": float("nan"), "kl": 0.5}}
        exec(sanitize, names)
        return {"type": "done", "metrics": names["metrics"]}

    names = {
        "recorder": recorder, "commands": [command(0), command(1)], "run": run, "save": saved.__setitem__,
        "failed_answer": lambda error: {"type": "RequestFailedResponse", "category": "server"},
    }  # fmt: skip
    exec(loop, names)
    assert recorder.flush(20)
    good, bad = operations(redis_client)
    assert (good.status, good.metrics, dict(good.nonfinite)) == ("succeeded", {"kl": 0.5}, {"loss:sum": "nan"})
    assert (good.tokens, good.datums) == (4096, 8)
    assert (bad.status, bad.error_type) == ("failed", "ValueError")
    assert saved["req-0"]["metrics"] == {"loss:sum": 0.0, "kl": 0.5}
    assert saved["req-1"]["type"] == "RequestFailedResponse"
    counts = ledger(redis_client)
    assert (counts["popped"], counts["answered"], counts["failed"]) == (2, 2, 1)


def test_the_time_slicer(recorder: Recorder, redis_client: redis.Redis) -> None:
    def train(commands: list[dict[str, Any]]) -> None:
        for wanted in commands:
            with recorder.operation(wanted) as op:
                op.finish({"type": "done"})

    nothing = {"bring_weights_to_the_device": lambda: None, "take_them_away": lambda: None}
    exec(
        example("A time slicer"),
        {"recorder": recorder, "slicer": Slicer(), "train": train, "commands": [command(0)], **nothing},
    )
    assert recorder.flush(20)
    [raw] = redis_client.lrange(wire.turns_key("trainer-a"), 0, -1)
    assert [op["name"] for op in json.loads(raw)["ops"]] == ["wake_up", "forward_backward", "sleep"]


def test_the_dispatcher(recorder: Recorder, redis_client: redis.Redis) -> None:
    store = Kept()
    request = command(0, wire.SAMPLE) | {"accepted_at": 1_800_000_000.0}
    for tokens in ([1, 2, 3], [4]):  # the second loses the race
        result = {"type": "sample_completed", "sequences": [{"tokens": tokens}]}
        exec(
            example("A sampler and its dispatcher"),
            {"recorder": recorder, "store": store, "request": request, "result": result},
        )
    assert recorder.flush(20)
    [raw] = redis_client.lrange(wire.samples_key(RUN), 0, -1)
    group = wire.parse_sample(raw, run_id=RUN)
    assert (group.count, group.tokens_sum, group.first_accepted_at) == (1, 3, 1_800_000_000.0)


def test_the_api_server(redis_url: str, redis_client: redis.Redis) -> None:
    recorder = make_recorder(redis_url, "api_server", interval_seconds=30)
    queue, shared = Kept(), {"traceparent": "00-a-b-01"}
    wanted = command(0) | {"trace_context": shared}
    exec(
        example("An API server"),
        {"recorder": recorder, "queue": queue, "command": wanted, "request_id": wanted["request_id"]},
    )
    assert recorder.flush(20)
    assert shared == {"traceparent": "00-a-b-01"}
    assert set(queue.pushed[0]["trace_context"]) == {"traceparent", wire.ENQUEUED_AT_ENTRY}
    counts = ledger(redis_client)
    assert (counts["enqueued"], counts["delivered"]) == (1, 1)
    end_recorder(recorder)


def test_every_counter_that_the_page_names_is_there(recorder: Recorder) -> None:
    [sentence] = re.findall(r"`recorder\.stats\(\)` returns the counters: (.*?)\. ", PAGE, re.DOTALL)
    named = set(re.findall(r"`(\w+)`", sentence))
    assert named <= set(recorder.stats())
    assert {"produced", "hook_p99_us"} <= named
