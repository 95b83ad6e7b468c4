"""Gather what `run_state` and the worker lists are told from: live records, healths, typical seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from telemetry_app.health import Health, worker_health
from telemetry_app.models import Run
from telemetry_app.one_clock import by_redis_clock
from telemetry_app.rates import percentile_95
from telemetry_app.readers import LiveRun, LiveWorkers
from telemetry_app.run_facts import Learned, RunFacts, WorkerFact
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


@dataclass(frozen=True, slots=True)
class Typical:
    """The 95th percentile of each op's seconds anywhere, and of how many records; the same by base model.

    `of_model` has the seconds and the count of each op, by model.
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    of_model: Mapping[str, Mapping[str, tuple[float, int]]] = field(default_factory=dict)

    def facts(self, model: str | None) -> dict[str, Any]:
        """Return what `RunFacts` says of other runs, for a run of this model."""
        of_model = self.of_model.get(model or "", {})
        learned = {name: Learned(seconds, count, seconds) for name, (seconds, count) in of_model.items()}
        return {"expected_seconds": self.seconds, "expected_from": self.counts, "expected_of_model": learned}


def typical_of(
    runs: Iterable[LiveRun], records: Iterable[OpRecord] = (), *, models: Mapping[str, str] | None = None
) -> Typical:
    """Return what each op takes over the newest records of the runs, sampling among them, and over other records.

    `models` are the base models of runs, as far as they are known.
    """
    found = seconds_by_operation(records)
    of_model: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        taken = _seconds_of(run)
        _extend(found, taken)
        if model := (models or {}).get(run.run_id):
            _extend(of_model.setdefault(model, {}), taken)
    return Typical(
        {name: percentile_95(seconds) or 0.0 for name, seconds in found.items()},
        {name: len(seconds) for name, seconds in found.items()},
        {
            model: {name: (percentile_95(seconds) or 0.0, len(seconds)) for name, seconds in taken.items()}
            for model, taken in of_model.items()
        },
    )


def models_of(workers: Sequence[WorkerFact]) -> dict[str, str]:
    """Return the base model of each run whose workers name one (their setting BASE_MODEL)."""
    return {run_id: model for worker in reversed(workers) if (model := _model(worker)) for run_id in worker.record.runs}


def _model_of(run_id: str, workers: Iterable[WorkerFact]) -> str | None:
    return next((model for worker in workers if run_id in worker.record.runs and (model := _model(worker))), None)


def _model(worker: WorkerFact) -> str | None:
    model = worker.record.settings.get("BASE_MODEL")
    return model if isinstance(model, str) and model else None


def _seconds_of(run: LiveRun) -> dict[str, list[float]]:
    """Return how long ops of a run took over its newest records, and the longest answers of groups of samples."""
    seconds, sampled = seconds_by_operation(run.operations.records), sample_seconds(run)
    return seconds | ({SAMPLE: sampled} if sampled else {})


def _extend(found: dict[str, list[float]], taken: Mapping[str, list[float]]) -> None:
    for name, seconds in taken.items():
        found.setdefault(name, []).extend(seconds)


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
    typical: Typical,
    now: float,
    learned: Mapping[str, Learned] | None = None,
) -> RunVerdict:
    """Return what a run is doing, from what Redis holds of it and of the workers."""
    return run_state(
        RunFacts(
            run_id=live.run_id,
            now=now,
            workers=workers,
            learned=learned or {},
            sample_seconds=sample_seconds(live),
            **typical.facts(_model_of(live.run_id, workers)),
            **by_redis_clock(
                live.run_id,
                live.ledger,
                live.operations.records,
                live.samples.records,
                live.last_activity_at,
                workers,
            ),
        )
    )


def state_of_row(row: Run, workers: Sequence[WorkerFact], *, now: float) -> RunVerdict:
    """Return what a run is doing that Redis does not hold: from its totals and last activity."""
    ledger = Ledger(enqueued=row.enqueued, popped=row.popped, answered=row.answered, delivered=row.delivered)
    activity = row.last_activity_at.timestamp()
    return run_state(RunFacts(run_id=row.run_id, now=now, last_activity_at=activity, ledger=ledger, workers=workers))
