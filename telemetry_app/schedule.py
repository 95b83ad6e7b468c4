"""The periodic tasks an operator finds in the admin: created after the first migration, then theirs to change."""

from __future__ import annotations

from django.conf import settings
from django.db import connection

SNAPSHOT_TASK = "telemetry_app.snapshot"
SNAPSHOT_PART_TASK = "telemetry_app.snapshot_part"
VERDICTS_TASK = "telemetry_app.verdicts"
VERDICT_INTERVAL_SECONDS = 5  # a worker's heartbeat: nothing new is known in between
ALERTS_TASK = "telemetry_app.alerts"
HEARTBEAT_TASK = "telemetry_app.heartbeat"
HEARTBEAT_INTERVAL_SECONDS = 60
RETENTION_TASK = "telemetry_app.retention"
RETENTION_HOUR_UTC = "3"


def create_after_migrate(**_: object) -> None:
    """Create the entries of the periodic tasks where they don't exist (a receiver of `post_migrate`)."""
    if "django_celery_beat_periodictask" in connection.introspection.table_names():
        create_periodic_tasks()


def snapshot_interval_seconds() -> float:
    """Return how often a snapshot is due: as the schedule says, or the setting where it says nothing."""
    # Models of another application: loaded only once all applications are.
    from django_celery_beat.models import IntervalSchedule

    due = IntervalSchedule.objects.filter(periodictask__task=SNAPSHOT_TASK, periodictask__enabled=True)
    seconds = [interval.schedule.run_every.total_seconds() for interval in due]
    return float(min(seconds, default=settings.TELEMETRY_SNAPSHOT_INTERVAL_SECONDS))


def create_periodic_tasks() -> None:
    """Create the entries where they are missing; what an operator changed stays as it is."""
    # Models of another application: loaded only once all applications are.
    from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

    seconds = settings.TELEMETRY_SNAPSHOT_INTERVAL_SECONDS
    if not PeriodicTask.objects.filter(task=SNAPSHOT_TASK).exists():
        interval, _ = IntervalSchedule.objects.get_or_create(every=seconds, period=IntervalSchedule.SECONDS)
        PeriodicTask.objects.create(
            name="Snapshot of Redis into PostgreSQL",
            task=SNAPSHOT_TASK,
            interval=interval,
            expire_seconds=seconds,  # a backlog of late snapshots is worth nothing: the next one takes all
            description="Takes what is new in Redis. Every few seconds.",
        )
    if not PeriodicTask.objects.filter(task=VERDICTS_TASK).exists():
        interval, _ = IntervalSchedule.objects.get_or_create(
            every=VERDICT_INTERVAL_SECONDS, period=IntervalSchedule.SECONDS
        )
        PeriodicTask.objects.create(
            name="Verdicts on the active runs",
            task=VERDICTS_TASK,
            interval=interval,
            expire_seconds=VERDICT_INTERVAL_SECONDS,  # late ones are worth nothing: each looks at all runs
            description="Tells the states of the active runs, and opens and closes incidents. Every few seconds.",
        )
    if not PeriodicTask.objects.filter(task=ALERTS_TASK).exists():
        interval, _ = IntervalSchedule.objects.get_or_create(
            every=VERDICT_INTERVAL_SECONDS, period=IntervalSchedule.SECONDS
        )
        PeriodicTask.objects.create(
            name="Alerts of incidents",
            task=ALERTS_TASK,
            interval=interval,
            expire_seconds=VERDICT_INTERVAL_SECONDS,  # late ones are worth nothing: each looks at all incidents
            description="Tells the channels of incidents that begin or end, as the rules say. Every few seconds.",
        )
    if not PeriodicTask.objects.filter(task=HEARTBEAT_TASK).exists():
        interval, _ = IntervalSchedule.objects.get_or_create(
            every=HEARTBEAT_INTERVAL_SECONDS, period=IntervalSchedule.SECONDS
        )
        PeriodicTask.objects.create(
            name="Heartbeat to an external service",
            task=HEARTBEAT_TASK,
            interval=interval,
            expire_seconds=HEARTBEAT_INTERVAL_SECONDS,  # a late ping would say that a site is well that was not
            description="Pings TELEMETRY_HEARTBEAT_URL while the site is well. Every minute.",
        )
    if not PeriodicTask.objects.filter(task=RETENTION_TASK).exists():
        crontab, _ = CrontabSchedule.objects.get_or_create(
            minute="15", hour=RETENTION_HOUR_UTC, day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
        )
        PeriodicTask.objects.create(
            name="Retention of stored records",
            task=RETENTION_TASK,
            crontab=crontab,
            expire_seconds=12 * 3600,
            description="Removes records older than they are kept. Daily.",
        )
