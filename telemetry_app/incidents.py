"""One pass over the active runs: their states and findings become incidents, which open, go on and close by rule.

One pass at a time, in one transaction: one that is killed leaves nothing half done, and the next does the same again.
An outage of Redis changes nothing; what is told from silence alone is not opened until workers could be heard again.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from telemetry_app import locks, readers
from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.fleet_counts import FleetCounts
from telemetry_app.incident_changes import (
    OF_SILENCE,
    REOPEN_SECONDS,
    Change,
    ChangeKind,
    Held,
    Known,
    changes,
    troubles_of,
)
from telemetry_app.inspection.every_run import open_requests_of
from telemetry_app.inspection.known_runs import facts_of_runs, read_fleet_workers, typical_anywhere
from telemetry_app.instants import from_unix
from telemetry_app.models import Incident, Run, VerdictPass
from telemetry_app.models.limits import TEXT_LENGTH
from telemetry_app.run_state import Evidence, run_state

LOCK = "verdicts"
ACTIVE_RUNS = 1_000  # most recently active runs that a pass looks at, beside those with open incidents
OPEN_INCIDENT_RUNS = 1_000
QUIET_SECONDS = 120.0  # a run at rest whose newest activity is older stays at rest
SETTLED_STATES = ("idle", "finished")
# After Redis was out, workers need so long to be heard again: twice their longest pause between two tries, and a flush.
UNHEARD = timedelta(seconds=30)
UNWATCHED = timedelta(seconds=45)  # no pass for so long: Redis may have been out, and a worker is lost after 60 s
EVIDENCE_SHOWN = 5  # facts kept of one incident

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class PassSummary:
    """What one pass did. `was_skipped`: another one was under way."""

    was_skipped: bool = False
    runs_count: int = 0
    opened: int = 0
    reopened: int = 0
    closed: int = 0
    seconds: float = 0.0
    states: dict[str, str] = field(default_factory=dict)
    fleet: FleetCounts = field(default_factory=FleetCounts)

    def counts(self) -> dict[str, float | bool]:
        """Return the counts by name, as the task reports them."""
        names = ("was_skipped", "runs_count", "opened", "reopened", "closed", "seconds")
        return {name: getattr(self, name) for name in names}


def take_verdicts(*, now: datetime | None = None) -> PassSummary:
    """Judge the active runs and bring their incidents up to date. `now` stands for the clock where it is given.

    Raises:
        LiveDataUnavailableError: Redis can't be read; no incident changes.
    """
    started = time.monotonic()
    summary = PassSummary()
    with transaction.atomic():
        if not locks.take_until_commit(LOCK):
            summary.was_skipped = True
            return summary
        at = now or timezone.now()
        mark = VerdictPass.objects.filter(pk=1).first() or VerdictPass(pk=1)
        outage: LiveDataUnavailableError | None = None
        try:
            held, clock = _judge(summary, None if now is None else now.timestamp(), at)
            _write(summary, held, from_unix(clock) or at, is_unheard=_note_return(mark, at))
            mark.ended_at, mark.runs_count = at, summary.runs_count
            mark.fleet = summary.fleet.as_json()
            mark.seconds = summary.seconds = round(time.monotonic() - started, 3)
        except LiveDataUnavailableError as error:
            mark.live_failed_at, outage = at, error
        mark.save()
    if outage is not None:  # outside of the transaction, which keeps when Redis was out
        raise outage
    return summary


# --- Judging --------------------------------------------------------------------------------------------------
def _judge(summary: PassSummary, set_clock: float | None, at: datetime) -> tuple[dict[str, list[Held]], float]:
    """Return what is wrong with each run that was looked at, and the clock by which that was told."""
    index = readers.read_run_index()
    fleet = read_fleet_workers(now=at.timestamp(), is_live=True)
    if fleet.live is None:
        raise LiveDataUnavailableError("Redis can't be read.")
    if set_clock is not None:
        fleet.set_clock(set_clock)
    summary.fleet.add_workers(fleet.workers)
    held: dict[str, list[Held]] = {}
    for run in facts_of_runs(_runs_to_judge(index, fleet.now), fleet, typical_anywhere(index, fleet)):
        state = run_state(run.facts)
        summary.states[run.facts.run_id] = state.state
        summary.fleet.add_run(state.state, open_requests_of(run.sources, run.facts), now=fleet.now)
        held[run.facts.run_id] = troubles_of(run.facts, state)
    summary.runs_count = len(held)
    return held, fleet.now


def _runs_to_judge(index: Mapping[str, float], now: float) -> list[str]:
    """Return the newest active runs, and all with an open incident; a run at rest that nothing happened in is left."""
    newest = list(islice(index, ACTIVE_RUNS))
    settled = set(
        Run.objects.filter(run_id__in=newest, state__in=SETTLED_STATES).order_by().values_list("run_id", flat=True)
    )
    active = [run_id for run_id in newest if run_id not in settled or index[run_id] > now - QUIET_SECONDS]
    troubled = Incident.objects.filter(ended_at=None).order_by().values_list("run_id", flat=True).distinct()
    return list(dict.fromkeys([*active, *troubled[:OPEN_INCIDENT_RUNS]]))


def _note_return(mark: VerdictPass, at: datetime) -> bool:
    """Return whether workers may not have been heard again since Redis was out.

    A pass may not have seen the outage: tasks come through Redis, so while it is out there are none.
    """
    was_out = mark.live_failed_at and (mark.live_back_at is None or mark.live_back_at < mark.live_failed_at)
    was_blind = mark.ended_at is not None and at - mark.ended_at > UNWATCHED
    if was_out or was_blind:
        mark.live_back_at = at
    return mark.live_back_at is not None and at - mark.live_back_at < UNHEARD


# --- Writing --------------------------------------------------------------------------------------------------
def _write(summary: PassSummary, held: Mapping[str, Sequence[Held]], now: datetime, *, is_unheard: bool) -> None:
    stored = _newest_incidents(held, now)
    opened: list[Incident] = []
    changed: list[Incident] = []
    going_on: list[int] = []
    for run_id, found in held.items():
        own = stored.get(run_id, {})
        known = {code: _known(incident) for code, incident in own.items()}
        for change in changes(known, found, now=now.timestamp()):
            if is_unheard and change.code in OF_SILENCE and change.kind is not ChangeKind.HELD:
                continue
            if change.kind is ChangeKind.OPENED and change.held is not None:
                opened.append(_opened(run_id, change.held, now))
            elif change.kind is ChangeKind.HELD:
                going_on.append(own[change.code].pk)
            else:
                changed.append(_changed(own[change.code], change, now))
            _count(summary, change)
    Incident.objects.bulk_create(opened)
    fields = ("last_held_at", "ended_at", "changed_at", "cause", "evidence", "reopened_count")
    Incident.objects.bulk_update(changed, fields, batch_size=500)
    Incident.objects.filter(pk__in=going_on).update(last_held_at=now)


def _newest_incidents(run_ids: Iterable[str], now: datetime) -> dict[str, dict[str, Incident]]:
    """Return the newest incident of each run and code, of those that are open or may be reopened."""
    recent = Q(ended_at=None) | Q(ended_at__gte=now - timedelta(seconds=REOPEN_SECONDS))
    found: dict[str, dict[str, Incident]] = {}
    for incident in Incident.objects.filter(recent, run_id__in=list(run_ids)).order_by("started_at", "id"):
        own = found.setdefault(incident.run_id, {})
        known = own.get(incident.code)
        if known is None or known.ended_at is not None:  # the open one stays
            own[incident.code] = incident
    return found


def _known(incident: Incident) -> Known:
    ended_at = incident.ended_at
    return Known(incident.pk, incident.last_held_at.timestamp(), None if ended_at is None else ended_at.timestamp())


def _opened(run_id: str, held: Held, now: datetime) -> Incident:
    return Incident(
        run_id=run_id,
        code=held.code,
        started_at=from_unix(held.since) or now,
        last_held_at=now,
        changed_at=now,
        cause=held.cause[:TEXT_LENGTH],
        evidence=_evidence(held.evidence),
    )


def _changed(incident: Incident, change: Change, now: datetime) -> Incident:
    if change.held is None:
        incident.ended_at, incident.changed_at = incident.last_held_at, now
        return incident
    incident.ended_at, incident.changed_at, incident.last_held_at = None, now, now
    incident.reopened_count += 1
    incident.cause, incident.evidence = change.held.cause[:TEXT_LENGTH], _evidence(change.held.evidence)
    return incident


def _evidence(facts: Sequence[Evidence]) -> list[dict[str, object]]:
    return [dataclasses.asdict(fact) for fact in facts[:EVIDENCE_SHOWN]]


def _count(summary: PassSummary, change: Change) -> None:
    if change.kind is ChangeKind.OPENED:
        summary.opened += 1
    elif change.kind is ChangeKind.REOPENED:
        summary.reopened += 1
    elif change.kind is ChangeKind.CLOSED:
        summary.closed += 1
