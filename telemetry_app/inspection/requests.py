"""Open requests of one run and of all: what workers say they hold, also those that Redis forgot, by the ledger."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import F

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.facts import health_of, known_workers, seconds_by_operation
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.inspection.workers import newest_snapshot_at
from telemetry_app.instants import rfc3339, to_unix
from telemetry_app.models import Run, Worker
from telemetry_app.op_seconds import newest_of_run, newest_of_runs
from telemetry_app.open_requests import OpenRequests, open_requests, order_of
from telemetry_app.rates import percentile_95
from telemetry_app.run_state import RunFacts, WorkerFact
from workers_client import wire
from workers_client.codec import encode_object
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_worker import Ledger, parse_worker

STORED_HOLDERS = 2_000  # newest stored workers that held something
HOLDING_RUNS = 1_000  # runs that are looked at for a list over all runs, those that workers hold requests of first
FRESH_RUNS = 200  # most recently active runs of which the ledger is looked at, too

Position = tuple[float, str, str, str]


@dataclass(slots=True)
class RequestsPage:
    """One page of open requests, oldest first. `requests_count` counts each matching request once."""

    results: list[dict[str, Any]]
    next_position: Position | None
    total_matching: int
    requests_count: int


@dataclass
class Holders:
    """Workers of both sources with their health, and the clock (unix seconds) on which it is told."""

    workers: list[WorkerFact] = field(default_factory=list)
    live: readers.LiveWorkers | None = None
    has_history: bool = True
    stored_ids: frozenset[str] = frozenset()
    now: float = 0.0

    @cached_property
    def _by_run(self) -> dict[str, list[WorkerFact]]:
        found: dict[str, list[WorkerFact]] = {}
        for worker in self.workers:
            for run_id in {*worker.record.runs, *(work.run_id for work in worker.record.outstanding)}:
                found.setdefault(run_id, []).append(worker)
        return found

    @cached_property
    def _in_turn(self) -> list[WorkerFact]:
        return [worker for worker in self.workers if worker.record.turn is not None]

    def of_run(self, run_id: str) -> list[WorkerFact]:
        """Return the workers that have to do with a run: they name it, hold requests of it, or hold a GPU."""
        own = self._by_run.get(run_id, [])
        known = {worker.record.worker for worker in own}
        return [*own, *(worker for worker in self._in_turn if worker.record.worker not in known)]

    def has_stored(self, entries: Iterable[OpenRequests]) -> bool:
        """Return whether an entry is told by a worker that history alone knows."""
        return any(entry.holder is not None and entry.holder.record.worker in self.stored_ids for entry in entries)


def run_requests(
    run_id: str, *, stuck: bool | None, after: Position | None, size: int, now: float
) -> tuple[RequestsPage, RunSources, dict[str, Any]]:
    """Return a page of a run's open requests, with its sources and their coverage.

    Raises:
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    sources = run_sources(run_id)
    clock = now if sources.live is not None or sources.row is None else to_unix(sources.row.last_snapshot_at) or now
    holders = _holders(now=clock, of_run=sources.run_id, is_live=sources.live is not None)
    sources.has_history &= holders.has_history
    operations = _operations(sources)
    entries = _of_run(sources, holders, operations, _typical([*operations, *_operations_anywhere(sources)]))
    coverage = run_coverage(
        sources,
        holders.live.records.values() if holders.live else (),
        source=source_word(live=sources.live is not None, stored=sources.live is None or holders.has_stored(entries)),
    )
    return _page(entries, holders.now, stuck=stuck, after=after, size=size), sources, coverage


def all_requests(
    *, stuck: bool | None, after: Position | None, size: int, now: float
) -> tuple[RequestsPage, dict[str, Any]]:
    """Return a page of the open requests of all runs, with what could be seen.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    found = every_open_request(now=now)
    entries, holders, snapshot_at = found.entries, found.holders, found.snapshot_at
    coverage = {
        "live": holders.live is not None,
        "history": holders.has_history,
        "source": source_word(
            live=holders.live is not None, stored=holders.live is None or holders.has_stored(entries)
        ),
        "malformed": holders.live.malformed_count if holders.live else 0,
        "last_snapshot_at": rfc3339(snapshot_at),
    }
    return _page(entries, holders.now, stuck=stuck, after=after, size=size), coverage


@dataclass(slots=True)
class EveryOpenRequest:
    """The open requests of all runs, and what they were told from."""

    entries: list[OpenRequests]
    holders: Holders
    snapshot_at: datetime | None
    live: Mapping[str, readers.LiveRun]  # the runs that were looked at, as Redis has them
    expected_seconds: Mapping[str, float]


def every_open_request(*, now: float) -> EveryOpenRequest:
    """Return the open requests of all runs.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    snapshot_at, has_history = None, True
    try:
        snapshot_at = history(newest_snapshot_at)
    except HistoryUnavailableError:
        has_history = False
    index = or_none_where_live_is_out(readers.read_run_index)
    if index is None and not has_history:
        raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.")
    clock = now if index is not None else to_unix(snapshot_at) or now
    holders = _holders(now=clock, is_live=index is not None, has_history=has_history)
    rows = _rows_with_open_requests(holders)
    run_ids = list(dict.fromkeys([*_held_runs(holders), *rows, *list(index or ())[:FRESH_RUNS]]))[:HOLDING_RUNS]
    rows |= _rows(holders, [run_id for run_id in run_ids if run_id not in rows])
    live = _live_runs(holders, run_ids)
    by_run = _operations_by_run(holders, live, run_ids)
    compared = list(dict.fromkeys([*list(index or ())[: readers.COMPARED_RUNS], *run_ids]))[: readers.COMPARED_RUNS]
    typical = _typical(record for run_id in compared for record in by_run.get(run_id, ()))
    entries = [
        entry
        for run_id in run_ids
        for entry in _of_run(
            RunSources(run_id, live.get(run_id), rows.get(run_id)), holders, by_run.get(run_id, ()), typical
        )
    ]
    return EveryOpenRequest(entries, holders, snapshot_at, live, typical.seconds)


@dataclass(frozen=True, slots=True)
class Typical:
    """The 95th percentile of each op's seconds anywhere, and of how many records."""

    seconds: dict[str, float]
    counts: dict[str, int]


def _typical(records: Iterable[wire.OpRecord]) -> Typical:
    found = seconds_by_operation(records)
    return Typical(
        {name: percentile_95(seconds) or 0.0 for name, seconds in found.items()},
        {name: len(seconds) for name, seconds in found.items()},
    )


# --- One run --------------------------------------------------------------------------------------------------
def _of_run(
    sources: RunSources,
    holders: Holders,
    operations: Sequence[wire.OpRecord],
    typical: Typical,
) -> list[OpenRequests]:
    totals = sources.ledger_totals
    live, row = sources.live, sources.row
    activity = (live.last_activity_at if live else None, to_unix(row.last_activity_at if row else None))
    facts = RunFacts(
        run_id=sources.run_id,
        now=holders.now,
        last_activity_at=max((at for at in activity if at is not None), default=None),
        ledger=live.ledger if live else Ledger(),
        operations=operations,
        workers=holders.of_run(sources.run_id),
        expected_seconds=typical.seconds,
        expected_from=typical.counts,
    )
    outstanding = max(0, totals.get("enqueued", 0) - totals.get("answered", 0))
    return open_requests(facts, outstanding_count=outstanding)


def _operations(sources: RunSources) -> list[wire.OpRecord]:
    """Return the newest ops of a run that its own expectation is taken from: of both sources, each once."""
    live = sources.live.operations.records if sources.live else []
    if sources.row is None or not sources.has_history or len(live) >= wire.LIST_LIMIT:
        return live
    try:
        stored = history(lambda: newest_of_run(sources.run_id, wire.LIST_LIMIT))
    except HistoryUnavailableError:
        sources.has_history = False
        return live
    return list({record.identity: record for record in [*stored, *live]}.values())


def _operations_anywhere(sources: RunSources) -> list[wire.OpRecord]:
    """Return the newest ops of the most recently active runs but this one."""
    if sources.live is not None:
        others = or_none_where_live_is_out(readers.read_compared_runs) or []
        return [record for run in others if run.run_id != sources.run_id for record in run.operations.records]
    if not sources.has_history:
        return []
    recent = Run.objects.exclude(run_id=sources.run_id).order_by("-last_activity_at", "run_id")
    return history(lambda: newest_of_runs(recent.values_list("run_id", flat=True)[: readers.COMPARED_RUNS]))


# --- All runs -------------------------------------------------------------------------------------------------
def _held_runs(holders: Holders) -> list[str]:
    """Return the runs that workers hold requests of, the longest held first."""
    oldest: dict[str, float] = {}
    for worker in holders.workers:
        for work in worker.record.outstanding:
            oldest[work.run_id] = min(work.oldest_at or holders.now, oldest.get(work.run_id, holders.now))
    return sorted(oldest, key=lambda run_id: (oldest[run_id], run_id))


def _rows_with_open_requests(holders: Holders) -> dict[str, Run]:
    if not holders.has_history:
        return {}
    found = Run.objects.filter(enqueued__gt=F("answered"))[:HOLDING_RUNS]
    return {run.run_id: run for run in _history_or_none(holders, lambda: list(found))}


def _rows(holders: Holders, run_ids: Sequence[str]) -> dict[str, Run]:
    if not holders.has_history:
        return {}
    return {
        run.run_id: run
        for run in _history_or_none(holders, lambda: list(Run.objects.filter(run_id__in=run_ids).order_by()))
    }


def _history_or_none(holders: Holders, query: Any) -> list[Any]:
    try:
        found: list[Any] = history(query)
        return found
    except HistoryUnavailableError:
        holders.has_history = False
        return []


def _live_runs(holders: Holders, run_ids: Sequence[str]) -> dict[str, readers.LiveRun]:
    if holders.live is None:
        return {}
    return or_none_where_live_is_out(lambda: readers.read_runs(run_ids, newest=readers.SUMMARY_RECORDS)) or {}


def _operations_by_run(
    holders: Holders, live: Mapping[str, readers.LiveRun], run_ids: Sequence[str]
) -> dict[str, list[wire.OpRecord]]:
    if live or holders.live is not None:
        return {run_id: run.operations.records for run_id, run in live.items()}
    by_run: dict[str, list[wire.OpRecord]] = {}
    for record in _history_or_none(holders, lambda: newest_of_runs(run_ids[:FRESH_RUNS])):
        by_run.setdefault(record.run_id, []).append(record)
    return by_run


# --- Workers --------------------------------------------------------------------------------------------------
def _holders(*, now: float, is_live: bool, of_run: str | None = None, has_history: bool = True) -> Holders:
    """Return all workers that Redis knows, and those that history alone does and that held something."""
    live = or_none_where_live_is_out(readers.read_workers) if is_live else None
    found = Holders(live=live, has_history=has_history, now=(live.redis_time or now) if live else now)
    by_id = {fact.record.worker: fact for fact in known_workers(live, found.now)} if live else {}
    stored = {fact.record.worker: fact for fact in _stored_holders(found, of_run) if fact.record.worker not in by_id}
    found.stored_ids = frozenset(stored)
    found.workers = [*by_id.values(), *stored.values()]
    return found


def _stored_holders(holders: Holders, of_run: str | None) -> list[WorkerFact]:
    if not holders.has_history:
        return []
    rows = Worker.objects.exclude(record__outstanding=[])
    if of_run is not None:
        rows = rows.filter(runs__contains=[of_run])
    facts = []
    for row in _history_or_none(holders, lambda: list(rows[:STORED_HOLDERS])):
        try:
            record = parse_worker(encode_object(row.record), worker=row.worker)
        except MalformedRecordError:
            continue  # written by another version of this site
        facts.append(WorkerFact(record, health_of(record, row.last_heartbeat_at.timestamp(), holders.now)))
    return facts


# --- The answer -----------------------------------------------------------------------------------------------
def _page(
    entries: Sequence[OpenRequests], now: float, *, stuck: bool | None, after: Position | None, size: int
) -> RequestsPage:
    matching = sorted((entry for entry in entries if stuck is None or entry.stuck == stuck), key=order_of)
    behind = [entry for entry in matching if after is None or order_of(entry) > after]
    page = behind[:size]
    return RequestsPage(
        results=[request_fields(entry, now) for entry in page],
        next_position=order_of(page[-1]) if len(behind) > size else None,
        total_matching=len(matching),
        requests_count=sum(entry.unshared_count for entry in matching),
    )


def request_fields(entry: OpenRequests, now: float) -> dict[str, Any]:
    """Return open requests as lists show them."""
    holder = entry.holder
    return {
        "run_id": entry.run_id,
        "operation": entry.operation,
        "count": entry.count,
        "unshared_count": entry.unshared_count,
        "oldest_at": rfc3339(entry.oldest_at),
        "oldest_age_seconds": None if entry.oldest_at is None else max(0.0, now - entry.oldest_at),
        "request_ids": list(entry.request_ids),
        "worker": holder.record.worker if holder else None,
        "role": holder.record.role if holder else None,
        "health": holder.health.value if holder else None,
        "also_held_by": list(entry.also_held_by),
        "orphaned": entry.orphaned,
        "stuck": entry.stuck,
        "why": entry.why,
        "expectation": dataclasses.asdict(entry.expected) if entry.expected else None,
    }
