"""Runs: the list, and all about one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.facts import Typical, known_workers, models_of, state_of_row, state_of_run, typical_of
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.every_run import RECENT_RUNS, EveryRun, every_run, verdict_of
from telemetry_app.inspection.known_runs import (
    FleetWorkers,
    KnownRun,
    add_stored_workers,
    facts_of_runs,
    read_fleet_workers,
    typical_anywhere,
)
from telemetry_app.inspection.run_candidates import (
    ORDERINGS,
    Candidate,
    Cut,
    RunFilter,
    RunPosition,
    Wanted,
    live_alone,
    position_types,
    stored_and_live,
)
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.inspection.workers import KnownWorker, worker_fields
from telemetry_app.instants import rfc3339, to_unix
from telemetry_app.models import Run, Worker
from telemetry_app.op_history import learned_of
from telemetry_app.rates import per_hour, per_second
from telemetry_app.run_state import RunVerdict, WorkerFact
from workers_client import wire

__all__ = [
    "ORDERINGS",
    "RunFilter",
    "RunPosition",
    "RunsPage",
    "detail_fields",
    "list_runs",
    "position_types",
    "run_detail",
]

RATE_SECONDS = 300.0  # ops and tokens a second are taken over so long
_LEDGER_FIELDS = ("enqueued", "popped", "answered", "delivered", "failed")


@dataclass(slots=True)
class RunsPage:
    """One page of runs as the API shows them."""

    results: list[dict[str, Any]]
    next_position: RunPosition | None
    total_matching: int
    live: bool
    has_history: bool
    as_of: float  # unix seconds


def list_runs(wanted: RunFilter, after: RunPosition | None, size: int, *, now: float) -> RunsPage:
    """Return a page of runs. Filters come before the limit; the state of each is told live where Redis answers.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    index = or_none_where_live_is_out(readers.read_run_index)
    told = every_run(now=now) if wanted.state is not None and index is not None else None
    fleet = told.fleet if told else read_fleet_workers(now=now, is_live=index is not None)
    of_worker = None if wanted.worker is None else _runs_of_worker(wanted.worker, fleet)
    since = wanted.active_since.timestamp() if wanted.active_since else None
    listing = _Listing(
        index, fleet, told, now, Wanted(q=wanted.q, tag=wanted.tag, active_since=since, of_worker=of_worker)
    )
    try:
        return listing.page(wanted, after, size)
    except HistoryUnavailableError as error:
        if index is None:
            raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.") from None
        fleet.lose_history(error)
        return listing.page(wanted, after, size)


@dataclass
class _Listing:
    """One reading of the list: Redis's index (None: Redis is out), the workers, and what was told of all runs.

    `told` is None where the list does not filter by state.
    """

    index: Mapping[str, float] | None
    fleet: FleetWorkers
    told: EveryRun | None
    now: float
    filters: Wanted

    def page(self, wanted: RunFilter, after: RunPosition | None, size: int) -> RunsPage:
        """Return one page."""
        filters, verdicts = self.filters, dict[str, RunVerdict]()
        if self.told is not None:
            verdicts = self._verdicts(self.told)
            in_state = {run_id for run_id, verdict in verdicts.items() if verdict.state == wanted.state}
            filters = dataclasses.replace(filters, in_state=(str(wanted.state), in_state, set(verdicts)))
        cut = self._cut(filters, wanted.ordering, after, size)
        results = [
            _list_fields(candidate, run.sources, verdicts.get(candidate.run_id) or verdict_of(run), self.now)
            for candidate, run in zip(cut.runs, self._runs_of(cut), strict=True)
        ]
        as_of = self.now if self.told is None else self.told.fleet.now
        live, has_history = self.index is not None, self.fleet.has_history
        return RunsPage(results, cut.next_position, cut.total_matching, live, has_history, as_of)

    def _cut(self, filters: Wanted, ordering: str, after: RunPosition | None, size: int) -> Cut:
        cut = stored_and_live if self.fleet.has_history else live_alone
        return cut(self.index or {}, filters, ordering, after, size)

    def _runs_of(self, cut: Cut) -> Iterator[KnownRun]:
        run_ids = [run.run_id for run in cut.runs]
        if self.told is None and self.index is not None:
            add_stored_workers(self.fleet, of_runs=run_ids)
        return facts_of_runs(run_ids, self.fleet, self._typical)

    def _verdicts(self, told: EveryRun) -> dict[str, RunVerdict]:
        """Return the states of all runs that were looked at, and of the most recently active that the list may show."""
        recent = self._cut(self.filters, "-last_activity_at", None, RECENT_RUNS).runs
        others = [run.run_id for run in recent if run.run_id not in told.verdicts]
        found = {run.sources.run_id: verdict_of(run) for run in facts_of_runs(others, self.fleet, self._typical)}
        return told.verdicts | {run_id: verdict for run_id, verdict in found.items() if verdict is not None}

    @cached_property
    def _typical(self) -> Typical | None:
        return self.told.typical if self.told else typical_anywhere(self.index or {}, self.fleet)


def _runs_of_worker(worker: str, fleet: FleetWorkers) -> set[str]:
    """Return the runs a worker named, from Redis and from its row: one of them may be out, or know it no more."""
    named = {run for fact in fleet.workers if fact.record.worker == worker for run in fact.record.runs}
    try:
        rows = history(lambda: list(Worker.objects.filter(worker=worker).values_list("runs", flat=True)))
    except HistoryUnavailableError:
        rows = []
    return named.union(*rows)


def _verdict(
    live: readers.LiveRun, row: Run | None, workers: Sequence[WorkerFact], typical: Typical, now: float
) -> RunVerdict | None:
    """Tell a run's state from Redis, else from its row where Redis has nothing of it."""
    if live.exists:
        learned = learned_of(row.op_seconds) if row is not None else {}
        return state_of_run(live, workers, typical=typical, learned=learned, now=now)
    return state_of_row(row, workers, now=now) if row is not None else None


def _typical_with(live: readers.LiveRun, workers: Sequence[WorkerFact]) -> Typical:
    """Return what each op takes anywhere: over the newest records of the most recently active runs, this one too."""
    others = or_none_where_live_is_out(readers.read_compared_runs) or []
    compared = [live, *(run for run in others if run.run_id != live.run_id)]
    return typical_of(compared, models=models_of(workers))


def _list_fields(run: Candidate, sources: RunSources, verdict: RunVerdict | None, now: float) -> dict[str, Any]:
    live, row, ledger = sources.live, sources.row, sources.ledger_totals
    return {
        "run_id": run.run_id,
        "name": row.name if row else "",
        "tags": row.tags if row else [],
        **_state_fields(sources, verdict),
        "steps_completed": sources.steps_completed,
        "steps_per_hour": _steps_per_hour(sources, now),
        "ledger": {name: ledger.get(name, 0) for name in _LEDGER_FIELDS},
        "outstanding_count": max(0, ledger.get("enqueued", 0) - ledger.get("answered", 0)),
        "failures_count": row.failures_count if row else ledger.get("failed", 0),
        "queue_depth": live.queue_depth if live else None,
        "first_seen_at": rfc3339(row.first_seen_at if row else None),
        "last_activity_at": rfc3339(run.last_activity_at or None),
        "last_snapshot_at": rfc3339(row.last_snapshot_at if row else None),
    }


def run_detail(run_id: str, *, now: float) -> dict[str, Any]:
    """Return all about one run.

    Raises:
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    sources = run_sources(run_id)
    workers = or_none_where_live_is_out(readers.read_workers) if sources.live else None
    return detail_fields(sources, workers, now=now)


def detail_fields(
    sources: RunSources,
    workers: readers.LiveWorkers | None,
    *,
    now: float,
    verdict: RunVerdict | None = None,
    coverage: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return all about one run from sources that are read already.

    `verdict` and `coverage` are told where they are not given.
    """
    facts = known_workers(workers, workers.redis_time or now) if workers else []
    live, row = sources.live, sources.row
    if live is None:
        verdict = None  # what the newest snapshot said stands
    elif verdict is None:
        verdict = _verdict(live, row, facts, _typical_with(live, facts), now)
    ledger = sources.ledger_totals
    activity = max(live.last_activity_at or 0.0 if live else 0.0, to_unix(row.last_activity_at) if row else 0.0)
    own = [fact for fact in facts if sources.run_id in fact.record.runs]
    return {
        "run_id": sources.run_id,
        "as_of": rfc3339(now if live is not None else (row.last_snapshot_at if row else now)),
        **_state_fields(sources, verdict),
        "steps_completed": sources.steps_completed,
        "rates": _rates(sources, now),
        "ledger": {
            **{name: ledger.get(name, 0) for name in _LEDGER_FIELDS},
            **{name: rfc3339(getattr(live.ledger, name)) if live else None for name in wire.LEDGER_INSTANTS},
        },
        "outstanding_count": max(0, ledger.get("enqueued", 0) - ledger.get("answered", 0)),
        "outstanding": _outstanding(sources.run_id, own),
        "queue_depth": live.queue_depth if live else None,
        "failures_count": _failures_count(sources),
        "samples": _sample_counts(sources),
        "first_seen_at": rfc3339(row.first_seen_at if row else None),
        "last_activity_at": rfc3339(activity or None),
        "workers": [
            worker_fields(
                KnownWorker(
                    fact.record,
                    max(fact.record.at, workers.heartbeats.get(fact.record.worker, 0.0) if workers else 0.0),
                    fact.health,
                )
            )
            for fact in own
        ],
        "coverage": coverage
        or run_coverage(
            sources,
            workers.records.values() if workers else (),
            source=source_word(live=live is not None and live.exists, stored=row is not None),
        ),
    }


def _state_fields(sources: RunSources, verdict: RunVerdict | None) -> dict[str, Any]:
    """Return the state: live where it could be told, else the newest snapshot's."""
    row = sources.row
    if verdict is None:
        return {
            "state": row.state if row else "idle",
            "state_since": rfc3339(row.state_since if row else None),
            "evidence": [row.state_reason] if row and row.state_reason else [],
            "also": [],
        }
    since = verdict.since
    if since is None and row is not None and row.state == verdict.state:
        since = to_unix(row.state_since)
    return {
        "state": verdict.state,
        "state_since": rfc3339(since),
        "evidence": list(verdict.evidence),
        "also": list(verdict.also),
    }


def _steps_per_hour(sources: RunSources, now: float) -> float | None:
    if sources.live is None:
        return sources.row.steps_per_hour if sources.row else None
    return per_hour(sources.live.step_times, now=now)


def _rates(sources: RunSources, now: float) -> dict[str, float | None]:
    records = sources.live.operations.records if sources.live else []
    return {
        "steps_per_hour": _steps_per_hour(sources, now),
        "operations_per_second": per_second(
            ((record.at, 1.0) for record in records), now=now, window_seconds=RATE_SECONDS
        ),
        "tokens_per_second": per_second(
            ((record.at, float(record.tokens)) for record in records if record.tokens is not None),
            now=now,
            window_seconds=RATE_SECONDS,
        ),
        "window_seconds": RATE_SECONDS,
    }


def _failures_count(sources: RunSources) -> int:
    failed = sum(record.status == wire.Status.FAILED.value for record in sources.new_operations)
    failed += sum(isinstance(record, wire.SampleFailure) for record in sources.new_samples)
    return failed + (sources.row.failures_count if sources.row else 0)


def _sample_counts(sources: RunSources) -> dict[str, int]:
    groups = [record for record in sources.new_samples if isinstance(record, wire.SampleGroup)]
    failed = len(sources.new_samples) - len(groups)
    row = sources.row
    return {
        "answered": sum(group.count for group in groups) + (row.samples_answered if row else 0),
        "failed": failed + (row.samples_failed if row else 0),
    }


def _outstanding(run_id: str, workers: Sequence[WorkerFact]) -> list[dict[str, Any]]:
    entries = []
    for fact in workers:
        for work in fact.record.outstanding:
            if work.run_id == run_id:
                fields = dataclasses.asdict(work) | {"oldest_at": rfc3339(work.oldest_at)}
                entries.append({"worker": fact.record.worker, "health": fact.health.value, **fields})
    return entries
