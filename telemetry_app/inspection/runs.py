"""Runs: the list, and all about one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.facts import known_workers, state_of_row, state_of_run, typical_seconds
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.inspection.workers import KnownWorker, worker_fields
from telemetry_app.instants import rfc3339, to_unix
from telemetry_app.models import Run, Worker
from telemetry_app.rates import per_hour, per_second
from telemetry_app.run_state import RunVerdict, WorkerFact
from workers_client import wire

RATE_SECONDS = 300.0  # ops and tokens a second are taken over so long
JUDGED_RUNS = 1_000  # most recently active runs whose state is told live where a list filters by state
COMPARED_RUNS = 20  # most recently active runs from which it is told what an op takes anywhere
ORDERINGS = ("last_activity_at", "run_id", "steps_completed", "failures_count", "steps_per_hour")
_LEDGER_FIELDS = ("enqueued", "popped", "answered", "delivered", "failed")


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs a list shows, and in which order (a field of `ORDERINGS`, `-` before it for descending)."""

    state: str | None = None
    q: str | None = None
    worker: str | None = None
    active_since: datetime | None = None
    ordering: str = "-last_activity_at"


def position_types(ordering: str) -> tuple[type | tuple[type, ...], ...]:
    """Return the types of a position in a list of this ordering."""
    return (str if ordering.endswith("run_id") else (int, float), str)


@dataclass(frozen=True, slots=True)
class RunPosition:
    """Where a page ended: the ordering value and id of its last run."""

    value: Any
    run_id: str


@dataclass(slots=True)
class RunsPage:
    """One page of runs as the API shows them."""

    results: list[dict[str, Any]]
    next_position: RunPosition | None
    total_matching: int
    live: bool
    has_history: bool


@dataclass(slots=True)
class _Candidate:
    """A run of the list before its page is cut: from its row, or from Redis where it has none yet."""

    run_id: str
    last_activity_at: float
    state: str
    steps_completed: int
    failures_count: int
    steps_per_hour: float | None
    row: Run | None


def list_runs(wanted: RunFilter, after: RunPosition | None, size: int, *, now: float) -> RunsPage:
    """Return a page of runs. Filters come before the limit; the state of each is told live where Redis answers.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    index = or_none_where_live_is_out(readers.read_run_index)
    workers = or_none_where_live_is_out(readers.read_workers) if index is not None else None
    facts = known_workers(workers, workers.redis_time or now) if workers else []
    try:
        rows = history(lambda: {row.run_id: row for row in Run.objects.all()})
        has_history = True
    except HistoryUnavailableError:
        if index is None:
            raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.") from None
        rows, has_history = {}, False
    candidates = _candidates(index or {}, rows)
    of_worker = None if wanted.worker is None else _runs_of_worker(wanted.worker, facts)
    matching = [candidate for candidate in candidates if _admits(wanted, candidate, of_worker)]
    live: dict[str, readers.LiveRun] = {}
    if wanted.state is not None:
        if index is not None:
            recent = sorted(matching, key=lambda run: -run.last_activity_at)[:JUDGED_RUNS]
            live = readers.read_runs([run.run_id for run in recent], newest=readers.SUMMARY_RECORDS)
            _judge(recent, live, facts, now)
        matching = [candidate for candidate in matching if candidate.state == wanted.state]
    page, position = _cut(matching, wanted.ordering, after, size)
    if index is not None and wanted.state is None:
        live = readers.read_runs([run.run_id for run in page], newest=readers.SUMMARY_RECORDS)
    verdicts = _judge(page, live, facts, now)
    results = [_list_fields(run, live.get(run.run_id), verdicts.get(run.run_id), now) for run in page]
    return RunsPage(results, position, len(matching), index is not None, has_history)


def _candidates(index: Mapping[str, float], rows: Mapping[str, Run]) -> list[_Candidate]:
    stored = [
        _Candidate(
            row.run_id,
            max(row.last_activity_at.timestamp(), index.get(row.run_id, 0.0)),
            row.state,
            row.steps_completed,
            row.failures_count,
            row.steps_per_hour,
            row,
        )
        for row in rows.values()
    ]
    new = [_Candidate(run, at, "idle", 0, 0, None, None) for run, at in index.items() if run not in rows]
    return stored + new


def _runs_of_worker(worker: str, facts: Sequence[WorkerFact]) -> set[str]:
    """Return the runs a worker named, from Redis and from its row: one of them may be out, or know it no more."""
    named = {run for fact in facts if fact.record.worker == worker for run in fact.record.runs}
    try:
        rows = history(lambda: list(Worker.objects.filter(worker=worker).values_list("runs", flat=True)))
    except HistoryUnavailableError:
        rows = []
    return named.union(*rows)


def _admits(wanted: RunFilter, run: _Candidate, of_worker: set[str] | None) -> bool:
    if wanted.q is not None and wanted.q.lower() not in run.run_id.lower():
        return False
    if wanted.active_since is not None and run.last_activity_at < wanted.active_since.timestamp():
        return False
    return of_worker is None or run.run_id in of_worker


def _judge(
    runs: Sequence[_Candidate], live: Mapping[str, readers.LiveRun], workers: Sequence[WorkerFact], now: float
) -> dict[str, RunVerdict]:
    """Tell the states of runs that Redis was asked about, and set them."""
    expected = typical_seconds(live.values())
    verdicts: dict[str, RunVerdict] = {}
    for run in runs:
        found = live.get(run.run_id)
        if found is not None:
            verdict = _verdict(found, run.row, workers, expected, now)
            if verdict is not None:
                verdicts[run.run_id] = verdict
                run.state = verdict.state
    return verdicts


def _verdict(
    live: readers.LiveRun, row: Run | None, workers: Sequence[WorkerFact], expected: Mapping[str, float], now: float
) -> RunVerdict | None:
    """Tell a run's state from Redis, else from its row where Redis has nothing of it."""
    if live.exists:
        return state_of_run(live, workers, expected_seconds=expected, now=now)
    return state_of_row(row, workers, now=now) if row is not None else None


def _cut(
    runs: list[_Candidate], ordering: str, after: RunPosition | None, size: int
) -> tuple[list[_Candidate], RunPosition | None]:
    name, descending = ordering.lstrip("-"), ordering.startswith("-")

    def key(run: _Candidate) -> tuple[Any, str]:
        value = getattr(run, name)
        return (-1.0 if value is None else value, run.run_id)

    runs.sort(key=key, reverse=descending)
    if after is not None:
        mark = (after.value, after.run_id)
        runs = [run for run in runs if (key(run) < mark if descending else key(run) > mark)]
    page = runs[:size]
    position = RunPosition(*key(page[-1])) if len(runs) > size else None
    return page, position


def _fleet_seconds(live: readers.LiveRun) -> dict[str, float]:
    """Return what each op takes anywhere: over the newest records of the most recently active runs, this one too."""
    others = or_none_where_live_is_out(
        lambda: readers.read_runs(list(readers.read_run_index())[:COMPARED_RUNS], newest=readers.SUMMARY_RECORDS)
    )
    return typical_seconds([live, *(run for run_id, run in (others or {}).items() if run_id != live.run_id)])


def _list_fields(
    run: _Candidate, live: readers.LiveRun | None, verdict: RunVerdict | None, now: float
) -> dict[str, Any]:
    sources = RunSources(run.run_id, live, run.row)
    ledger = sources.ledger_totals
    return {
        "run_id": run.run_id,
        **_state_fields(sources, verdict),
        "steps_completed": sources.steps_completed,
        "steps_per_hour": _steps_per_hour(sources, now),
        "ledger": {name: ledger.get(name, 0) for name in _LEDGER_FIELDS},
        "outstanding_count": max(0, ledger.get("enqueued", 0) - ledger.get("answered", 0)),
        "failures_count": run.row.failures_count if run.row else ledger.get("failed", 0),
        "queue_depth": live.queue_depth if live else None,
        "first_seen_at": rfc3339(run.row.first_seen_at if run.row else None),
        "last_activity_at": rfc3339(run.last_activity_at or None),
        "last_snapshot_at": rfc3339(run.row.last_snapshot_at if run.row else None),
    }


def run_detail(run_id: str, *, now: float) -> dict[str, Any]:
    """Return all about one run.

    Raises:
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    sources = run_sources(run_id)
    workers = or_none_where_live_is_out(readers.read_workers) if sources.live else None
    return detail_fields(sources, workers, now=now)


def detail_fields(sources: RunSources, workers: readers.LiveWorkers | None, *, now: float) -> dict[str, Any]:
    """Return all about one run from sources that are read already."""
    facts = known_workers(workers, workers.redis_time or now) if workers else []
    live, row = sources.live, sources.row
    verdict = None
    if live is not None:
        verdict = _verdict(live, row, facts, _fleet_seconds(live), now)
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
        "coverage": run_coverage(
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
