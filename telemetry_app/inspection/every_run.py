"""What is told of all runs at once: the state and the open requests of each that is looked at.

Runs are looked at whose requests workers hold, those whose totals have open ones, and the most recently active. Where
they are many, what was told is kept for one flush interval: however many callers there are, it is told once.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import F

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.facts import Typical
from telemetry_app.inspection.known_runs import (
    FleetWorkers,
    KnownRun,
    add_stored_workers,
    facts_of_runs,
    read_fleet_workers,
    rows_of,
    rows_or_none,
    typical_anywhere,
)
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out
from telemetry_app.inspection.workers import newest_snapshot_at
from telemetry_app.instants import to_unix
from telemetry_app.models import Run
from telemetry_app.open_requests import OpenRequests, open_requests
from telemetry_app.run_state import RunFacts, RunVerdict, run_state
from workers_client import wire

HOLDING_RUNS = 1_000  # runs with open requests that are looked at, those that workers hold for the longest first
RECENT_RUNS = 1_000  # most recently active runs that are looked at
KEPT_SECONDS = wire.HEARTBEAT_INTERVAL_SECONDS  # no worker tells anything new more often
KEPT_RUNS = 100  # of fewer runs it is told in less time than it would be of use


@dataclass
class EveryRun:
    """What was told of the runs that were looked at, and from what; `fleet.now` is the instant it is of.

    `verdicts` are told while Redis answers alone.
    """

    fleet: FleetWorkers
    typical: Typical | None
    snapshot_at: datetime | None
    verdicts: dict[str, RunVerdict] = field(default_factory=dict)
    requests: list[OpenRequests] = field(default_factory=list)
    runs_count: int = 0

    def add(self, run: KnownRun) -> None:
        """Tell a run's open requests, and its state where Redis answers and a source knows the run."""
        self.runs_count += 1
        self.requests += open_requests_of(run.sources, run.facts)
        verdict = verdict_of(run)
        if verdict is not None:
            self.verdicts[run.sources.run_id] = verdict


def verdict_of(run: KnownRun) -> RunVerdict | None:
    """Return what a run is doing; None where Redis is out or neither source knows it: its row says what was told."""
    live, row = run.sources.live, run.sources.row
    return run_state(run.facts) if live is not None and (live.exists or row is not None) else None


def open_requests_of(sources: RunSources, facts: RunFacts) -> list[OpenRequests]:
    """Return the open requests of a run, as many as the ledger of both sources says there are."""
    totals = sources.ledger_totals
    return open_requests(facts, outstanding_count=max(0, totals.get("enqueued", 0) - totals.get("answered", 0)))


def every_run(*, now: float) -> EveryRun:
    """Return what is told of all runs: of many, told at most five seconds ago by this process.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    found = _kept.get(now)
    # Who asks may find a source out later on, and says so in its own answer alone.
    return dataclasses.replace(found, fleet=copy.copy(found.fleet))


class _Kept:
    """The newest telling of many runs. Its lock lets one thread tell them while others wait for what it tells."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._are_many = False
        self._told: EveryRun | None = None
        self._until = 0.0  # monotonic

    def get(self, now: float) -> EveryRun:
        """Return what was told while it is young enough, or tell it."""
        told = self._young()
        if told is not None:
            return told
        # Nobody waits where little is told, or for much longer than telling takes: a source may not answer.
        if not self._are_many or not self._lock.acquire(timeout=KEPT_SECONDS):
            return self._keep(_tell(now))
        try:
            return self._young() or self._keep(_tell(now))
        finally:
            self._lock.release()

    def clear(self) -> None:
        """Forget what was told."""
        self._told, self._are_many = None, False

    def _young(self) -> EveryRun | None:
        return self._told if time.monotonic() < self._until else None

    def _keep(self, told: EveryRun) -> EveryRun:
        self._are_many = told.runs_count >= KEPT_RUNS
        self._told = told if self._are_many else None
        self._until = time.monotonic() + KEPT_SECONDS
        return told


_kept = _Kept()


def forget() -> None:
    """Tell anew at the next call, whatever was kept."""
    _kept.clear()


# --- Telling --------------------------------------------------------------------------------------------------
def _tell(now: float) -> EveryRun:
    snapshot_at, fault = None, ""
    try:
        snapshot_at = history(newest_snapshot_at)
    except HistoryUnavailableError as error:
        fault = str(error)
    index = or_none_where_live_is_out(readers.read_run_index)
    if index is not None:
        try:
            return _tell_from(index, snapshot_at, now, is_live=True, fault=fault)
        except LiveDataUnavailableError:
            pass  # it went out meanwhile
    if fault:
        raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.")
    return _tell_from({}, snapshot_at, to_unix(snapshot_at) or now, is_live=False, fault="")


def _tell_from(
    index: Mapping[str, float], snapshot_at: datetime | None, now: float, *, is_live: bool, fault: str
) -> EveryRun:
    """Tell all runs; `fault` says why PostgreSQL can't be read, where that is known already."""
    fleet = read_fleet_workers(now=now, is_live=is_live, has_history=not fault)
    fleet.history_fault = fleet.history_fault or fault
    add_stored_workers(fleet)
    rows = _rows_with_open_requests(fleet)
    holding = list(dict.fromkeys([*_held_runs(fleet), *rows]))[:HOLDING_RUNS]
    run_ids = list(dict.fromkeys([*holding, *list(index)[:RECENT_RUNS]]))
    rows |= rows_of(fleet, [run_id for run_id in run_ids if run_id not in rows])
    typical = typical_anywhere(index, fleet) if fleet.live is not None else None
    told = EveryRun(fleet, typical, snapshot_at)
    for run in facts_of_runs(run_ids, fleet, typical, rows):
        told.add(run)
    return told


def _held_runs(fleet: FleetWorkers) -> list[str]:
    """Return the runs that workers hold requests of, the longest held first."""
    oldest: dict[str, float] = {}
    for worker in fleet.workers:
        for work in worker.record.outstanding:
            oldest[work.run_id] = min(work.oldest_at or fleet.now, oldest.get(work.run_id, fleet.now))
    return sorted(oldest, key=lambda run_id: (oldest[run_id], run_id))


def _rows_with_open_requests(fleet: FleetWorkers) -> dict[str, Run]:
    found = Run.objects.filter(enqueued__gt=F("answered"))[:HOLDING_RUNS]
    return {run.run_id: run for run in rows_or_none(fleet, lambda: list(found))}
