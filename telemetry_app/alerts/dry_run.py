"""What a rule would have told of within the last week, by the incidents that PostgreSQL has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from telemetry_app.alerts.notices import runs_of
from telemetry_app.models import AlertRule, Incident, Run

DAYS = 7
MOST_INCIDENTS = 10_000  # newest ones that are looked at
SHOWN = 20


@dataclass(frozen=True, slots=True)
class DryRun:
    """How many incidents a rule would have told of, the newest of them, and how many of those are not over yet."""

    count: int
    open_count: int
    shown: list[tuple[Incident, Run | None]]
    looked_at_count: int
    is_capped: bool


def dry_run(rule: AlertRule, *, now: datetime) -> DryRun:
    """Try a rule, stored or not, on the incidents that had lasted long enough at some instant of the last week.

    Mutes are left aside, and so is that many at once are one message.
    """
    delay = timedelta(seconds=rule.after_seconds)
    rows = Incident.objects.filter(started_at__gt=now - timedelta(days=DAYS) - delay, started_at__lte=now - delay)
    rows = rows.filter(code__in=rule.codes) if rule.codes else rows
    newest = list(rows.order_by("-started_at", "-id").defer("evidence")[: MOST_INCIDENTS + 1])
    incidents = newest[:MOST_INCIDENTS]
    runs = runs_of(incidents)
    told = [
        (incident, runs.get(incident.run_id))
        for incident in incidents
        if rule.has_lasted(incident, now) and rule.applies_to(incident, runs.get(incident.run_id))
    ]
    return DryRun(
        count=len(told),
        open_count=sum(incident.ended_at is None for incident, _ in told),
        shown=told[:SHOWN],
        looked_at_count=len(incidents),
        is_capped=len(newest) > MOST_INCIDENTS,
    )
