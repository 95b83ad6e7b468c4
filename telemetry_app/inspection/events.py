"""What happened: new steps, failures, changes of runs' states and of workers, as Redis and PostgreSQL have them.

An event is told from a record that stays, so it can be told again: to one who was away, by any process. Its `key` is
the same each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.inspection.incidents import incident_fields
from telemetry_app.inspection.records import FailureFilter, all_failures, failure_fields, sample_failure_fields
from telemetry_app.inspection.runs import RunFilter, list_runs
from telemetry_app.inspection.sources import history
from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import Incident, StepAggregate, Worker, WorkerEvent
from telemetry_app.step_numbers import number_steps
from workers_client import wire

NEWEST_RECORDS = 512  # of each list, looked at for what is new since the flush before
STATE_RUNS = 200  # most recently active runs whose state is watched
STEP_OPERATION = "optim_step"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `runs` are those it is about; of a worker, those it names."""

    kind: str  # step, failure, state, incident or worker
    at: float
    key: str
    data: dict[str, Any]
    runs: frozenset[str] = field(default_factory=frozenset)

    @property
    def event_id(self) -> str:
        """The id that a subscriber sends back: the instant in microseconds, and what tells it from others then."""
        digest = hashlib.blake2b(self.key.encode("utf-8", "replace"), digest_size=6).hexdigest()
        return f"{round(self.at * 1e6)}-{digest}"


def fresh_events(run_ids: Sequence[str], *, since: float) -> list[Event]:
    """Return the steps and failures of runs that finished at or after `since`, as Redis has them, oldest first.

    Raises:
        LiveDataUnavailableError: Redis can't be asked.
    """
    found: list[Event] = []
    for live in readers.read_runs(run_ids, newest=NEWEST_RECORDS).values() if run_ids else ():
        for step, record in number_steps(live.operations.records, steps_completed=live.steps_completed):
            if record.at < since:
                continue
            if record.status == wire.Status.FAILED.value:
                found.append(_failure(failure_fields(record, step)))
            elif record.operation == STEP_OPERATION and record.status == wire.Status.SUCCEEDED.value:
                found.append(_step(live.run_id, step, record.at))
        for sample in live.samples.records:
            if isinstance(sample, wire.SampleFailure) and sample.at >= since:
                found.append(_failure(sample_failure_fields(sample)))
    return _in_order(found)


def past_events(*, since: float, run: str | None, limit: int, now: float) -> tuple[list[Event], bool]:
    """Return what happened at or after `since` (unix seconds), oldest first, and whether that is all.

    Of states only the newest is known. The newest `limit` events are returned; a source that is out has none.
    """
    instant = from_unix(since)
    found: dict[str, Event] = {}
    is_whole = True
    for read in (_past_steps, _past_failures, _past_worker_events, _past_incidents):
        try:
            events = read(instant, run, limit + 1)
            found |= {event.key: event for event in events}
            is_whole = is_whole and len(events) <= limit
        except (HistoryUnavailableError, LiveDataUnavailableError):
            is_whole = False
    try:
        live = [run] if run is not None else list(readers.read_run_index())[:STATE_RUNS]
        found |= {event.key: event for event in fresh_events(live, since=since)}
        states = run_states(now=now)
        found |= {each.key: each for each in states.values() if each.at >= since and (run is None or run in each.runs)}
    except (HistoryUnavailableError, LiveDataUnavailableError):
        is_whole = False
    ordered = _in_order(found.values())
    return ordered[-limit:], is_whole and len(ordered) <= limit


def run_states(*, now: float) -> dict[str, Event]:
    """Return the state of each of the most recently active runs, as an event of the instant it began."""
    page = list_runs(RunFilter(), None, STATE_RUNS, now=now)
    return {run["run_id"]: _state(run, now) for run in page.results}


def worker_events_behind(event_id: int | None) -> list[Event]:
    """Return the events of workers that snapshots wrote behind the one of this id (None: none), oldest first."""
    rows = WorkerEvent.objects.filter(id__gt=event_id) if event_id is not None else WorkerEvent.objects.none()
    return list(_of_workers(history(lambda: list(rows.order_by("id")[:1_000]))))


def incidents_changed_since(at: float) -> list[Event]:
    """Return the incidents that were opened, reopened or closed at or after an instant (unix seconds), oldest first."""
    rows = Incident.objects.filter(changed_at__gte=from_unix(at)).order_by("changed_at", "id")
    return history(lambda: [_incident(row) for row in rows[:1_000]])


def newest_worker_event_id() -> int:
    """Return the id of the newest event of a worker, 0 without any."""
    newest = WorkerEvent.objects.order_by("-id").values_list("id", flat=True)
    return history(newest.first) or 0


# --- History --------------------------------------------------------------------------------------------------
def _past_steps(since: datetime, run: str | None, limit: int) -> list[Event]:
    rows = StepAggregate.objects.filter(operation=STEP_OPERATION, finished_at__gte=since)
    rows = rows.filter(run_id=run) if run is not None else rows
    newest = rows.order_by("-finished_at").values_list(
        "run_id", "step", "finished_at", "count", "failures", "cancelled"
    )
    found = history(lambda: list(newest[:limit]))
    return [
        _step(run_id, step, at.timestamp())
        for run_id, step, at, count, failures, cancelled in found
        if count > failures + cancelled
    ]


def _past_failures(since: datetime, run: str | None, limit: int) -> list[Event]:
    page, _ = all_failures(FailureFilter(since=since, run=run), None, limit)
    return [_failure(dict(result)) for result in page.results]


def _past_worker_events(since: datetime, run: str | None, limit: int) -> list[Event]:
    rows = WorkerEvent.objects.filter(at__gte=since)
    if run is not None:
        rows = rows.filter(worker_id__in=Worker.objects.filter(runs__contains=[run]).values("worker"))
    return list(_of_workers(history(lambda: list(rows.order_by("-at", "-id")[:limit]))))


def _past_incidents(since: datetime, run: str | None, limit: int) -> list[Event]:
    rows = Incident.objects.filter(changed_at__gte=since)
    rows = rows.filter(run_id=run) if run is not None else rows
    return history(lambda: [_incident(row) for row in rows.order_by("-changed_at", "-id")[:limit]])


def _of_workers(rows: Sequence[WorkerEvent]) -> Iterator[Event]:
    known = Worker.objects.filter(worker__in={row.worker_id for row in rows}).values_list("worker", "runs")
    runs = dict(history(lambda: list(known))) if rows else {}
    for row in rows:
        data = {"worker": row.worker_id, "event": row.event, "at": rfc3339(row.at), "detail": row.detail or None}
        key = f"worker {row.worker_id} {row.event} {row.at.timestamp()}"
        named = runs.get(row.worker_id) or []
        yield Event("worker", row.at.timestamp(), key, {**data, "runs": list(named)}, frozenset(named))


# --- One event ------------------------------------------------------------------------------------------------
def _step(run_id: str, step: int, at: float) -> Event:
    data = {"run_id": run_id, "step": step, "finished_at": rfc3339(at)}
    return Event("step", at, f"step {run_id} {step}", data, frozenset([run_id]))


def _failure(fields: dict[str, Any]) -> Event:
    at = fields.pop("_at", None) or datetime.fromisoformat(fields["at"])
    return Event(
        "failure", at.timestamp(), f"failure {fields['run_id']} {fields['id']}", fields, frozenset([fields["run_id"]])
    )


def _state(run: dict[str, Any], now: float) -> Event:
    since = run["state_since"]
    at = datetime.fromisoformat(since).timestamp() if since else now
    data = {name: run[name] for name in ("run_id", "state", "state_since", "evidence", "also")}
    return Event("state", at, f"state {run['run_id']} {run['state']} {since}", data, frozenset([run["run_id"]]))


def _incident(incident: Incident) -> Event:
    change = "closed" if incident.ended_at else ("reopened" if incident.reopened_count else "opened")
    at = incident.changed_at.timestamp()
    data = {"change": change, **incident_fields(incident, incident.changed_at)}
    return Event("incident", at, f"incident {incident.pk} {at}", data, frozenset([incident.run_id]))


def _in_order(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (event.at, event.key))
