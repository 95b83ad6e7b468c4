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
RETENTION_NAME = "Retention of stored records"
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

    known = set(PeriodicTask.objects.values_list("task", flat=True))
    for task, name, seconds, description in every_few_seconds():
        if task not in known:
            interval, _ = IntervalSchedule.objects.get_or_create(every=seconds, period=IntervalSchedule.SECONDS)
            # Late ones are worth nothing: the next one takes, looks at or tells all that they would have.
            PeriodicTask.objects.create(
                task=task, name=name, interval=interval, expire_seconds=seconds, description=description
            )
    if RETENTION_TASK not in known:
        crontab, _ = CrontabSchedule.objects.get_or_create(
            minute="15", hour=RETENTION_HOUR_UTC, day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
        )
        PeriodicTask.objects.create(
            task=RETENTION_TASK,
            name=RETENTION_NAME,
            crontab=crontab,
            expire_seconds=12 * 3600,
            description="Removes records older than they are kept. Daily.",
        )


def every_few_seconds() -> tuple[tuple[str, str, int, str], ...]:
    """Return the tasks that are due every few seconds: task, name, seconds between two, and description."""
    return (
        (
            SNAPSHOT_TASK, "Snapshot of Redis into PostgreSQL", settings.TELEMETRY_SNAPSHOT_INTERVAL_SECONDS,
            "Takes what is new in Redis. Every few seconds.",
        ),
        (
            VERDICTS_TASK, "Verdicts on the active runs", VERDICT_INTERVAL_SECONDS,
            "Tells the states of the active runs, and opens and closes incidents. Every few seconds.",
        ),
        (
            ALERTS_TASK, "Alerts of incidents", VERDICT_INTERVAL_SECONDS,
            "Tells the channels of incidents that begin or end, as the rules say. Every few seconds.",
        ),
        (
            HEARTBEAT_TASK, "Heartbeat to an external service", HEARTBEAT_INTERVAL_SECONDS,
            "Pings TELEMETRY_HEARTBEAT_URL while the site is well. Every minute.",
        ),
    )  # fmt: skip
