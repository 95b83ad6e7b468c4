"""Open requests of one run and of all: what workers say they hold, also those that Redis forgot, by the ledger."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.every_run import every_run, open_requests_of
from telemetry_app.inspection.known_runs import FleetWorkers, facts_of_run
from telemetry_app.inspection.sources import RunSources, run_sources
from telemetry_app.instants import rfc3339
from telemetry_app.open_requests import OpenRequests, order_of
from telemetry_app.run_facts import RunFacts

Position = tuple[float, str, str, str]


@dataclass(slots=True)
class RequestsPage:
    """One page of open requests, oldest first. `requests_count` counts each matching request once.

    `as_of` (unix seconds) is the instant that ages are told at.
    """

    results: list[dict[str, Any]]
    next_position: Position | None
    total_matching: int
    requests_count: int
    as_of: float


def run_requests(
    run_id: str, *, stuck: bool | None, after: Position | None, size: int, now: float
) -> tuple[RequestsPage, RunSources, dict[str, Any]]:
    """Return a page of a run's open requests, with its sources and their coverage.

    Raises:
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    sources = run_sources(run_id)
    facts, fleet = facts_of_run(sources, now=now)
    entries = open_requests_of(sources, facts)
    coverage = run_coverage(
        sources,
        fleet.live_records,
        source=source_word(live=fleet.live is not None, stored=fleet.live is None or _has_stored(fleet, entries)),
    )
    return _page(entries, facts.now, stuck=stuck, after=after, size=size), sources, coverage


def oldest_requests(sources: RunSources, facts: RunFacts, size: int) -> RequestsPage:
    """Return the first page of a run's open requests from what is read already."""
    return _page(open_requests_of(sources, facts), facts.now, stuck=None, after=None, size=size)


def all_requests(
    *, stuck: bool | None, after: Position | None, size: int, now: float
) -> tuple[RequestsPage, dict[str, Any]]:
    """Return a page of the open requests of all runs, with what could be seen.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    told = every_run(now=now)
    fleet, entries = told.fleet, told.requests
    coverage = {
        "live": fleet.live is not None,
        "history": fleet.has_history,
        "source": source_word(live=fleet.live is not None, stored=fleet.live is None or _has_stored(fleet, entries)),
        "malformed": fleet.live.malformed_count if fleet.live else 0,
        "last_snapshot_at": rfc3339(told.snapshot_at),
    }
    return _page(entries, fleet.now, stuck=stuck, after=after, size=size), coverage


def _has_stored(fleet: FleetWorkers, entries: Iterable[OpenRequests]) -> bool:
    """Return whether an entry is told by a worker that history alone knows."""
    return any(entry.holder is not None and entry.holder.record.worker in fleet.stored_ids for entry in entries)


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
        as_of=now,
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
