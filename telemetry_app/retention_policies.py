"""What each retention policy holds, and for how long it is kept: the rows an operator edits in the admin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType

from django.conf import settings
from django.db import connection, models
from django.db.models import QuerySet

from telemetry_app.models import (
    AlertDelivery,
    AlertNotice,
    Incident,
    Operation,
    RetentionPolicy,
    Run,
    Sample,
    StepAggregate,
    StepTime,
    Turn,
    WorkerEvent,
)  # fmt: skip

Kind = RetentionPolicy.Kind
WORKER_EVENT_DAYS = 90
INCIDENT_DAYS = 365
# What retention also does, without a row of its own: old executions go, and idle runs leave Redis.
EXECUTIONS = "executions"
REDIS = "redis"

_PINNED = "(SELECT run_id FROM telemetry_app_run WHERE pinned)"
OF_PINNED_RUNS = "runs && ARRAY(SELECT run_id::varchar FROM telemetry_app_run WHERE pinned)"  # of a column of run ids


@dataclass(frozen=True, slots=True)
class Holding:
    """What a policy holds: rows of `model` aged by `at_column`, but those for which `kept_sql` is true.

    The condition names the columns of the model's table, has no parameters, and is true of what belongs to a pinned
    run.
    """

    model: type[models.Model]
    at_column: str
    kept_sql: str
    beside: Holding | None = None  # what goes with these rows, by the same days

    @property
    def table(self) -> str:
        """The table's name."""
        return self.model._meta.db_table

    @property
    def is_partitioned(self) -> bool:
        """Whether whole days can be dropped."""
        return self.model in (Operation, Sample, Turn)


# What was told of incidents goes with them: a notice as long as its incident is there, a message as long as a notice.
_ALERTS = Holding(
    AlertNotice,
    "noticed_at",
    "incident_id IN (SELECT id FROM telemetry_app_incident)",
    beside=Holding(AlertDelivery, "created_at", "id IN (SELECT delivery_id FROM telemetry_app_alertnotice)"),
)
HOLDINGS: Mapping[str, Holding] = MappingProxyType(
    {
        Kind.OPERATIONS.value: Holding(Operation, "at", f"run_id IN {_PINNED}"),
        Kind.SAMPLES.value: Holding(Sample, "at", f"run_id IN {_PINNED}"),
        Kind.TURNS.value: Holding(Turn, "at", OF_PINNED_RUNS),
        Kind.STEPS.value: Holding(
            StepAggregate,
            "finished_at",
            f"run_id IN {_PINNED}",
            beside=Holding(StepTime, "ended_at", f"run_id IN {_PINNED}"),
        ),
        Kind.WORKER_EVENTS.value: Holding(
            WorkerEvent, "at", f"worker_id IN (SELECT worker FROM telemetry_app_worker WHERE {OF_PINNED_RUNS})"
        ),
        Kind.INCIDENTS.value: Holding(
            Incident, "started_at", f"ended_at IS NULL OR run_id IN {_PINNED}", beside=_ALERTS
        ),
        Kind.RUNS.value: Holding(Run, "last_activity_at", "pinned"),
    }
)


def ensure_policies() -> None:
    """Create the policies that are missing; what an operator changed stays as it is."""
    known = set(RetentionPolicy.objects.values_list("kind", flat=True))
    missing = [RetentionPolicy(kind=kind, days_to_keep=default_days(kind)) for kind in HOLDINGS if kind not in known]
    RetentionPolicy.objects.bulk_create(missing, ignore_conflicts=True)


def default_days(kind: str) -> int | None:
    """Return the days that a kind is kept until an operator says otherwise; None is for ever."""
    if kind in (Kind.STEPS, Kind.RUNS):
        return None
    if kind == Kind.INCIDENTS:
        return INCIDENT_DAYS
    return WORKER_EVENT_DAYS if kind == Kind.WORKER_EVENTS else settings.TELEMETRY_RETENTION_DAYS


def policies_in_order() -> QuerySet[RetentionPolicy]:
    """Return the policies: details before the steps and runs that they belong to."""
    order = models.Case(*(models.When(kind=kind, then=place) for place, kind in enumerate(HOLDINGS)))
    return RetentionPolicy.objects.order_by(order)


def cutoff_at(now: datetime, days: int) -> datetime:
    """Return the first instant that is kept: midnight (UTC), so many days before the day of `now`."""
    today = now.astimezone(UTC).date()
    return datetime.combine(today - timedelta(days=min(days, (today - date.min).days)), time.min, UTC)


def create_after_migrate(**_: object) -> None:
    """Create the policies once their table is there (a receiver of `post_migrate`)."""
    if RetentionPolicy._meta.db_table in connection.introspection.table_names():
        ensure_policies()
