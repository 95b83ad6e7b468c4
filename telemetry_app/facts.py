"""Gather what `run_state` and the worker lists are told from: live records, healths, typical seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from telemetry_app.health import Health, worker_health
from telemetry_app.models import Run
from telemetry_app.rates import percentile_95
from telemetry_app.readers import LiveRun, LiveWorkers
from telemetry_app.run_facts import Learned, RunFacts, WorkerFact, finishes_by_redis_clock
from telemetry_app.run_state import RunVerdict, run_state
from workers_client.wire import SAMPLE, OpRecord, SampleGroup
from workers_client.wire_worker import Ledger, WorkerRecord


def health_of(record: WorkerRecord, heartbeat_at: float, now: float) -> Health:
    """Return the health of a worker, by the newest of its record and its entry in the index.

    `now` is Redis's clock; the worker's own is brought to it by the offset the worker measured.
    """
    return worker_health(
        heartbeat_at=max(record.at, heartbeat_at) - (record.clock_offset_seconds or 0.0),
        interval_seconds=record.interval_seconds,
        exited=record.exited_at is not None,
        now=now,
    )


def known_workers(workers: LiveWorkers, now: float) -> list[WorkerFact]:
    """Return all workers with a record, with their health at `now` (unix seconds, Redis's clock where it is known)."""
    return [
        WorkerFact(record, health_of(record, workers.heartbeats.get(worker, 0.0), now))
        for worker, record in workers.records.items()
    ]


def typical_seconds(runs: Iterable[LiveRun]) -> dict[str, float]:
    """Return the 95th percentile of each op's seconds over the newest records of the runs, sampling among them."""
    return {operation: percentile_95(values) or 0.0 for operation, values in seconds_of_runs(runs).items()}


def seconds_of_runs(runs: Iterable[LiveRun]) -> dict[str, list[float]]:
    """Return how long ops took over the newest records of the runs, and the longest answers of groups of samples."""
    known = list(runs)
    seconds = seconds_by_operation(record for run in known for record in run.operations.records)
    sampled = [taken for run in known for taken in sample_seconds(run)]
    return seconds | ({SAMPLE: sampled} if sampled else {})


def seconds_by_operation(records: Iterable[OpRecord]) -> dict[str, list[float]]:
    """Return how long the records of each op took, where they say so."""
    seconds: dict[str, list[float]] = {}
    for record in records:
        if record.elapsed_seconds is not None:
            seconds.setdefault(record.operation, []).append(record.elapsed_seconds)
    return seconds


def sample_seconds(live: LiveRun) -> list[float]:
    """Return how long the slowest answer of each group of samples took, where the group says so."""
    groups = (record for record in live.samples.records if isinstance(record, SampleGroup))
    return [record.seconds_max for record in groups if record.seconds_max is not None]


def state_of_run(
    live: LiveRun,
    workers: Sequence[WorkerFact],
    *,
    expected_seconds: Mapping[str, float],
    now: float,
    learned: Mapping[str, Learned] | None = None,
) -> RunVerdict:
    """Return what a run is doing, from what Redis holds of it and of the workers."""
    return run_state(
        RunFacts(
            run_id=live.run_id,
            now=now,
            ledger=live.ledger,
            workers=workers,
            expected_seconds=expected_seconds,
            learned=learned or {},
            sample_seconds=sample_seconds(live),
            **finishes_by_redis_clock(live.operations.records, live.samples.records, live.last_activity_at, workers),
        )
    )


def state_of_row(row: Run, workers: Sequence[WorkerFact], *, now: float) -> RunVerdict:
    """Return what a run is doing that Redis does not hold: from its totals and last activity."""
    ledger = Ledger(enqueued=row.enqueued, popped=row.popped, answered=row.answered, delivered=row.delivered)
    activity = row.last_activity_at.timestamp()
    return run_state(RunFacts(run_id=row.run_id, now=now, last_activity_at=activity, ledger=ledger, workers=workers))
