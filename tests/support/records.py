"""The one builder of records for tests: pure ones by function, and in a real Redis through the wire contract.

Every record has an id of its own unless one is given, and instants are given by the test: nothing here reads a clock.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import redis

from workers_client import wire
from workers_client.codec import encode_object
from workers_client.wire_worker import WorkerRecord

RUN = "run-a"
WORKER = "trainer-pod-7-1"
# An instant for tests whose answer depends on differences alone: 20 May 2026, 8:00 UTC. Never in the future.
START = 1_779_264_000.0
_numbers = itertools.count(1)


def op(operation: str = wire.FORWARD_BACKWARD, *, at: float, **fields: Any) -> wire.OpRecord:
    """Return a succeeded op record of `run-a`."""
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "run_id": RUN,
        "status": "succeeded",
        "id": f"{WORKER}:{number}",
        "request_id": f"request-{number}",
        "worker": WORKER,
    }
    return wire.OpRecord(operation=operation, at=at, **(defaults | fields))


def foreign_op(operation: str = wire.FORWARD_BACKWARD, *, at: float, **fields: Any) -> wire.OpRecord:
    """Return an op record as OpenRL itself writes them: no id, no step, no worker; a pod in their place."""
    plain: dict[str, Any] = {"id": None, "step": None, "worker": None, "pod": "openrl-pod", "runtime_id": "runtime-1"}
    return op(operation, at=at, **(plain | fields))


def step_of_ops(step: int, *, at: float, **fields: Any) -> list[wire.OpRecord]:
    """Return the two ops of one step; its `optim_step` ends at `at`, its `forward_backward` a second before."""
    return [
        op(wire.FORWARD_BACKWARD, at=at - 1, step=step, **fields),
        op(wire.OPTIM_STEP, at=at, step=step, **fields),
    ]


def sample_failure(*, at: float, **fields: Any) -> wire.SampleFailure:
    """Return a failed sampling answer of `run-a`."""
    number = next(_numbers)
    defaults = {
        "run_id": RUN,
        "id": f"{WORKER}:{number}",
        "request_id": f"request-{number}",
        "error_type": "ValueError",
    }
    return wire.SampleFailure(at=at, **(defaults | fields))


def sample_group(*, at: float, count: int = 1, **fields: Any) -> wire.SampleGroup:
    """Return a record of `count` answered sampling requests of `run-a`."""
    defaults = {"run_id": RUN, "id": f"{WORKER}:{next(_numbers)}"}
    return wire.SampleGroup(at=at, count=count, **(defaults | fields))


def turn(*, at: float, workload: str = "workload-1", **fields: Any) -> wire.TurnRecord:
    """Return a GPU turn that held the device for one second."""
    defaults: dict[str, Any] = {"id": f"{WORKER}:{next(_numbers)}", "started_at": at - 1}
    return wire.TurnRecord(workload=workload, at=at, **(defaults | fields))


def worker(name: str = WORKER, *, at: float, **fields: Any) -> WorkerRecord:
    """Return a trainer's record whose heartbeat is `at`."""
    return WorkerRecord(**({"worker": name, "role": "trainer", "at": at, "runs": (RUN,)} | fields))


class RecordWriter:
    """Puts records into a real Redis under the contract's keys, as a worker's flush does."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client

    def operations(self, *records: wire.OpRecord) -> None:
        """Append op records to the lists of their runs."""
        self._append((wire.operations_key(record.run_id), record) for record in records)

    def raw_operations(self, run_id: str, *elements: bytes | str, active_at: float) -> None:
        """Append elements of any content to a run's operations list."""
        self.client.rpush(wire.operations_key(run_id), *elements)
        self.active(run_id, active_at)

    def samples(self, *records: wire.SampleRecord) -> None:
        """Append sampling records to the lists of their runs."""
        self._append((wire.samples_key(record.run_id), record) for record in records)

    def turns(self, *records: wire.TurnRecord) -> None:
        """Append turn records to the lists of their workloads."""
        for record in records:
            self.client.rpush(wire.turns_key(record.workload), wire.encode(record))
            self.client.zadd(wire.WORKLOADS_KEY, {record.workload: record.at}, gt=True)

    def workers(self, *records: WorkerRecord) -> None:
        """Write worker records with their heartbeats."""
        for record in records:
            self.raw_worker(record.worker, worker_fields(record), heartbeat_at=record.at)

    def raw_worker(self, name: str, fields: dict[str, Any], *, heartbeat_at: float) -> None:
        """Write a worker record of any content."""
        self.client.set(wire.worker_key(name), encode_object(fields), ex=wire.WORKER_TTL_SECONDS)
        self.client.zadd(wire.WORKERS_KEY, {name: heartbeat_at})

    def ledger(self, run_id: str = RUN, **fields: float) -> None:
        """Set fields of a run's ledger."""
        self.client.hset(wire.ledger_key(run_id), mapping={name: str(value) for name, value in fields.items()})

    def steps(self, count: int, *, run_id: str = RUN, finished_at: tuple[float, ...] = ()) -> None:
        """Set how many steps a run completed, and add when some of them did."""
        self.client.set(wire.steps_key(run_id), count)
        if finished_at:
            self.client.rpush(wire.step_times_key(run_id), *map(str, finished_at))

    def active(self, run_id: str, at: float) -> None:
        """Say that a run was active at an instant, if nothing later is known of it."""
        self.client.zadd(wire.RUNS_KEY, {run_id: at}, gt=True)

    def _append(self, records: Iterable[tuple[str, Any]]) -> None:
        """Append records to their lists in one round trip, and say that their runs were active."""
        with self.client.pipeline(transaction=False) as pipeline:
            for key, record in records:
                pipeline.rpush(key, wire.encode(record))
                pipeline.zadd(wire.RUNS_KEY, {record.run_id: record.at}, gt=True)
            pipeline.execute()


def worker_fields(record: WorkerRecord) -> dict[str, Any]:
    """Return a worker record's fields as they stand on the wire: those with no value are left out."""
    return {name: value for name, value in dataclasses.asdict(record).items() if value not in (None, (), {})}
