"""An API server that trains in its own process: one recorder, two roles, one worker, and exact counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.support.workers import RUN, check_sums, command, end_recorder, ledger, make_recorder
from workers_client import wire
from workers_client.recorder import Recorder

FAILED = {"type": "RequestFailedResponse", "error_message": "not told", "category": "user"}


@pytest.fixture
def server(redis_url: str, redis_client: redis.Redis) -> Iterator[Recorder]:
    made = make_recorder(redis_url, "api_server", interval_seconds=30)
    yield made
    end_recorder(made)


def train(trainer: Recorder, commands: list[dict[str, Any]]) -> None:
    """Run commands as a trainer does; the third fails."""
    trainer.popped(commands)
    for number, wanted in enumerate(commands):
        result = FAILED if number == 2 else {"type": "done", "metrics": {"loss:sum": 1.0}}
        with trainer.operation(wanted) as op:
            op.finish(result)
        trainer.answered(wanted, result)


def test_a_process_that_did_not_enqueue_counts_a_delivery_once_for_the_run_it_is_told(
    server: Recorder, redis_client: redis.Redis
) -> None:
    server.delivered("other-1")  # whose it was, nobody knows
    for _ in range(2):
        server.delivered("other-2", RUN)
        server.delivered("other-3", f"tinker://{RUN}/weights/000001")
    server.delivered("other-4", ["no run"])
    assert server.flush(20)
    assert ledger(redis_client)["delivered"] == 2
    assert server.stats()["hook_errors"] == 1


def test_each_side_counts_its_own_of_the_same_requests(server: Recorder, redis_client: redis.Redis) -> None:
    trainer = server.as_role("trainer")
    commands = [command(number) for number in range(6)] + [command(6, wire.OPTIM_STEP)]
    for wanted in commands:
        server.enqueued(wanted)
    train(trainer, commands[:5] + commands[6:])
    server.answered(commands[5], FAILED)  # it could not be parsed: no trainer ever had it
    trainer.answered(commands[5], FAILED)  # both answer; it counts once
    for wanted in commands[:4]:
        server.delivered(wanted["request_id"])
        server.delivered(wanted["request_id"])
    assert server.flush(20)

    counts = ledger(redis_client)
    told = {name: counts[name] for name in ("enqueued", "popped", "answered", "delivered", "failed", "recorded")}
    assert told == {"enqueued": 7, "popped": 6, "answered": 7, "delivered": 4, "failed": 2, "recorded": 7}
    records = [wire.parse_operation(raw, run_id=RUN) for raw in redis_client.lrange(wire.operations_key(RUN), 0, -1)]
    assert Counter((record.role, record.status) for record in records) == {
        ("trainer", "succeeded"): 5, ("trainer", "failed"): 1, ("api_server", "failed"): 1,
    }  # fmt: skip
    assert {record.worker for record in records} == {server.worker}
    assert redis_client.get(wire.steps_key(RUN)) == b"1"
    check_sums(server, redis_client)


def test_there_is_one_worker_and_its_role_is_that_of_start(server: Recorder, redis_client: redis.Redis) -> None:
    trainer = server.as_role("trainer")
    wanted = [command(number) for number in range(3)]
    for each in wanted:
        server.enqueued(each)
    train(trainer, wanted[:1])
    assert trainer.flush(20)
    assert trainer.worker == server.worker
    [worker] = redis_client.zrange(wire.WORKERS_KEY, 0, -1)
    record = json.loads(redis_client.get(wire.worker_key(worker.decode())))
    assert record["role"] == "api_server"
    [outstanding] = record["outstanding"]
    assert (outstanding["count"], outstanding["request_ids"]) == (3, ["req-0", "req-1", "req-2"])  # none is delivered
    assert trainer.stats() == server.stats()


def test_turns_and_samples_of_either_role_say_whose_they_are(server: Recorder, redis_client: redis.Redis) -> None:
    class Lease:
        def __enter__(self) -> None:
            return None

        def __exit__(self, *_: object) -> None:
            return None

    sampler = server.as_role("sampler")
    with sampler.gpu_turn("shared", Lease()), server.as_role("trainer").operation(command(1, wire.SAMPLE)) as op:
        op.finish({"type": "sample_completed"}, tokens=7)
    server.sample_accepted(command(2, wire.SAMPLE))
    server.sample_answered(command(2, wire.SAMPLE), {"sequences": [{"tokens": [1, 2]}]}, source="in_process")
    assert server.flush(20)
    [turn] = redis_client.lrange(wire.turns_key("shared"), 0, -1)
    assert json.loads(turn)["role"] == "sampler"
    [group] = redis_client.lrange(wire.samples_key(RUN), 0, -1)
    told = json.loads(group)
    assert (told["kind"], told["count"], told["tokens_sum"]) == ("group", 2, 9)


@pytest.mark.parametrize("role", ["conductor", None, ["trainer"]])
def test_a_role_that_is_none_counts_and_leaves_the_recorder_as_it_is(server: Recorder, role: object) -> None:
    assert server.as_role(role) is server  # type: ignore[arg-type]
    assert server.stats()["hook_errors"] == 1
