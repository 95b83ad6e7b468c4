"""Whether the site does its work: each dependency by name, and how old the newest snapshot and retention are.

A Celery worker that is up but takes no work, a beat that is gone, or a task that fails each time: all are found by the
age of what should have been done.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django.db.models import Max, Q
from django.utils import timezone

from telemetry_app import partitions, readers
from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.history_faults import fault_sentence
from telemetry_app.instants import rfc3339
from telemetry_app.models import Execution, RetentionPolicy
from telemetry_app.plain_words import span_words
from telemetry_app.retention_policies import REDIS
from telemetry_app.schedule import snapshot_interval_seconds

SNAPSHOT_INTERVALS = 5
LEAST_SNAPSHOT_AGE_LIMIT_SECONDS = 120.0
_STARTED_AT = timezone.now()  # a site that never took a snapshot has as long for the first one as for the next ones


@dataclass(frozen=True, slots=True)
class Check:
    """One thing the site depends on. `detail` says what is wrong; ages are those of work that should be repeated."""

    name: str
    is_ok: bool
    detail: str = ""
    last_at: datetime | None = None
    age_seconds: float | None = None
    limit_seconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what is known by name."""
        found: dict[str, Any] = {"ok": self.is_ok}
        if self.detail:
            found["detail"] = self.detail
        if self.limit_seconds is not None:
            age = None if self.age_seconds is None else round(self.age_seconds, 1)
            found |= {"last_at": rfc3339(self.last_at), "age_seconds": age, "limit_seconds": self.limit_seconds}
        return found


def check_all(*, now: datetime | None = None, is_redis_out: bool = False) -> list[Check]:
    """Check everything. Where PostgreSQL is out, what only it can tell is left out.

    Whoever found Redis out a moment ago says so: it is not asked again, which takes a time-out where it hangs.
    """
    instant = now or timezone.now()
    redis = Check("redis", False, "Redis can't be read") if is_redis_out else _redis()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return [redis, Check("postgres", True), *(check(instant) for check in _TOLD_BY_POSTGRES)]
    except Error as error:
        return [redis, Check("postgres", False, fault_sentence(error).removesuffix("."))]


def check_partitions(now: datetime) -> Check:
    """Whether the days of today and tomorrow have their partitions."""
    missing = partitions.missing_days(now.astimezone(UTC).date())
    return Check("partitions", not missing, f"missing: {', '.join(missing)}" if missing else "")


def check_snapshot(now: datetime) -> Check:
    """Whether the newest snapshot is young enough. One that left out a single bad run counts."""
    taken = Execution.objects.filter(task=Execution.Task.SNAPSHOT, finished_at__isnull=False)
    taken = taken.filter(Q(error="") | Q(failed_runs__gt=0))
    last_at = taken.order_by("-started_at").values_list("started_at", flat=True).first()
    return _aged("snapshot", last_at, last_at or _STARTED_AT, now, snapshot_age_limit_seconds())


def check_retention(now: datetime) -> Check:
    """Whether each policy was applied lately. One that never was counts from when it was made or changed."""
    limit_seconds = float(settings.TELEMETRY_RETENTION_AGE_LIMIT_SECONDS)
    applied = Execution.objects.filter(task=Execution.Task.RETENTION, error="", finished_at__isnull=False)
    last = dict(applied.order_by().values_list("policy").annotate(last_at=Max("started_at")))
    since = {policy: max(last.get(policy, changed_at), changed_at) for policy, changed_at in _due_policies().items()}
    if not since:
        return Check("retention", True, "nothing is ever removed")
    oldest = min(since, key=lambda policy: since[policy])
    return _aged("retention", last.get(oldest), since[oldest], now, limit_seconds, which=f" of {oldest}")


def _due_policies() -> dict[str, datetime]:
    """Return what retention has to apply, and since when."""
    changed = {policy.kind: policy for policy in RetentionPolicy.objects.all()}
    due = {kind: policy.changed_at for kind, policy in changed.items() if policy.days_to_keep is not None}
    if changed and settings.TELEMETRY_REDIS_IDLE_DAYS:
        due[REDIS] = min(policy.changed_at for policy in changed.values())
    return due


def newest_retention_at() -> datetime | None:
    """Return when retention was last applied to ops without an error."""
    with connection.cursor() as cursor:  # for each answer's coverage: a queryset takes several times longer
        cursor.execute(_NEWEST_RETENTION, (Execution.Task.RETENTION.value, RetentionPolicy.Kind.OPERATIONS.value))
        row = cursor.fetchone()
    return row[0] if row else None


_NEWEST_RETENTION = f"""
SELECT started_at FROM {Execution._meta.db_table}
WHERE task = %s AND policy = %s AND error = '' AND finished_at IS NOT NULL ORDER BY started_at DESC LIMIT 1
"""


def snapshot_age_limit_seconds() -> float:
    """Return the age past which the newest snapshot is too old."""
    if settings.TELEMETRY_SNAPSHOT_AGE_LIMIT_SECONDS:
        return float(settings.TELEMETRY_SNAPSHOT_AGE_LIMIT_SECONDS)
    return max(LEAST_SNAPSHOT_AGE_LIMIT_SECONDS, SNAPSHOT_INTERVALS * snapshot_interval_seconds())


def _aged(
    name: str, last_at: datetime | None, since: datetime, now: datetime, limit_seconds: float, *, which: str = ""
) -> Check:
    age_seconds = (now - since).total_seconds()
    is_ok = age_seconds <= limit_seconds
    what = (
        f"the newest {name}{which} is {span_words(age_seconds)} old" if last_at else f"there was no {name}{which} yet"
    )
    detail = "" if is_ok else f"{what}; the limit is {span_words(limit_seconds)}"
    return Check(name, is_ok, detail, last_at, age_seconds if last_at else None, limit_seconds)


def _redis() -> Check:
    try:
        readers.read_time()
    except LiveDataUnavailableError as error:
        return Check("redis", False, str(error))
    return Check("redis", True)


_TOLD_BY_POSTGRES = (check_partitions, check_snapshot, check_retention)
