"""Incidents of one run and of all, newest first, as PostgreSQL has them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from telemetry_app.inspection.sources import history
from telemetry_app.instants import rfc3339
from telemetry_app.models import Incident, VerdictPass

COUNT_LIMIT = 10_000  # matches are counted up to here

Position = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents are shown; None lets all through. `since`: those that held at or after this instant."""

    run: str | None = None
    code: str | None = None
    is_open: bool | None = None
    since: datetime | None = None

    def apply(self, rows: QuerySet[Incident]) -> QuerySet[Incident]:
        """Return the query of those that are shown."""
        rows = rows if self.run is None else rows.filter(run_id=self.run)
        rows = rows if self.code is None else rows.filter(code=self.code)
        rows = rows if self.is_open is None else rows.filter(ended_at__isnull=self.is_open)
        if self.since is None:
            return rows
        if self.is_open is False:  # closed after its end: an index finds those that changed since
            rows = rows.filter(changed_at__gte=self.since)
        return rows.filter(Q(ended_at=None) | Q(ended_at__gte=self.since))


@dataclass(slots=True)
class IncidentsPage:
    """One page of incidents. `last_pass_at` is as of when they are told."""

    results: list[dict[str, Any]]
    next_position: Position | None
    total_matching: int
    is_total_capped: bool
    last_pass_at: datetime | None


def list_incidents(wanted: IncidentFilter, after: Position | None, size: int) -> IncidentsPage:
    """Return a page of incidents.

    Raises:
        HistoryUnavailableError: PostgreSQL can't be asked.
    """
    rows = wanted.apply(Incident.objects.all())
    behind = rows
    if after is not None:
        at, incident_id = after
        behind = rows.filter(Q(started_at__lt=at) | Q(started_at=at, id__lt=incident_id))
    found = history(lambda: list(behind.order_by("-started_at", "-id")[: size + 1]))
    total = history(lambda: rows.order_by()[: COUNT_LIMIT + 1].count())
    last_pass_at = history(lambda: VerdictPass.objects.values_list("ended_at", flat=True).first())
    page = found[:size]
    return IncidentsPage(
        results=[incident_fields(incident, last_pass_at) for incident in page],
        next_position=(page[-1].started_at, page[-1].pk) if len(found) > size else None,
        total_matching=min(total, COUNT_LIMIT),
        is_total_capped=total > COUNT_LIMIT,
        last_pass_at=last_pass_at,
    )


def incident_fields(incident: Incident, as_of: datetime | None) -> dict[str, Any]:
    """Return one incident as lists and events show it; an open one lasts until `as_of`."""
    end = incident.ended_at or max(as_of or incident.last_held_at, incident.last_held_at)
    return {
        "id": incident.pk,
        "run_id": incident.run_id,
        "code": incident.code,
        "is_open": incident.ended_at is None,
        "started_at": rfc3339(incident.started_at),
        "last_held_at": rfc3339(incident.last_held_at),
        "ended_at": rfc3339(incident.ended_at),
        "for_seconds": max(0.0, (end - incident.started_at).total_seconds()),
        "reopened_count": incident.reopened_count,
        "cause": incident.cause,
        "evidence": incident.evidence,
    }
