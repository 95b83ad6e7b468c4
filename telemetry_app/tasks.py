"""Celery shells round the services: no logic here."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from typing import Any

from celery import shared_task
from django.utils import timezone

from telemetry_app.alerts.heartbeat import note_alerts, ping
from telemetry_app.alerts.notices import take_notice
from telemetry_app.alerts.sending import send_due
from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.incidents import take_verdicts
from telemetry_app.retention import apply_retention
from telemetry_app.schedule import (
    ALERTS_TASK,
    HEARTBEAT_TASK,
    RETENTION_TASK,
    SNAPSHOT_PART_TASK,
    SNAPSHOT_TASK,
    VERDICTS_TASK,
    snapshot_interval_seconds,
)
from telemetry_app.snapshots import Part, begin, take_part

logger = logging.getLogger(__name__)

# A part that waited longer is worth nothing: the next snapshot takes its runs. It then stays open in its execution.
PART_EXPIRES_SECONDS = 60.0
LEAST_HURRY_SECONDS = 1.0
RETENTION_BUDGET_SECONDS = 25.0  # of its time limit: a chunk that has begun has to end
RETENTION_PAUSE_SECONDS = 2


@shared_task(name=SNAPSHOT_TASK, acks_late=True, soft_time_limit=30, time_limit=40)
def snapshot() -> dict[str, Any]:
    """Begin a snapshot: other tasks take its parts, on any worker; a single part is taken here.

    An outage of Redis is logged in one line: the next snapshot takes all.
    """
    until = time.time() + snapshot_interval_seconds()
    try:
        execution, parts = begin()
        if len(parts) == 1:
            _take(execution.pk, parts[0], until=until)
        else:
            for part in parts:
                _send(execution.pk, part, until=until)
    except LiveDataUnavailableError as error:
        logger.warning("snapshot left out: %s", error)
        return {}
    execution.refresh_from_db()
    return execution.counts()


@shared_task(name=SNAPSHOT_PART_TASK, acks_late=True, soft_time_limit=30, time_limit=40)
def snapshot_part(execution_id: int | None, part: dict[str, Any], until: float) -> None:
    """Take runs and workloads; those whose lists would overflow before the next snapshot, at `until`, again."""
    try:
        _take(execution_id, Part(**part), until=until)
    except LiveDataUnavailableError as error:
        logger.warning("part of a snapshot left out: %s", error)


def _take(execution_id: int | None, part: Part, *, until: float) -> None:
    for name, seconds in take_part(execution_id, part).hurried.items():
        countdown = max(LEAST_HURRY_SECONDS, seconds)
        if time.time() + countdown < until:
            again = Part([name], [], part.typical) if name in part.run_ids else Part(workloads=[name])
            _send(None, again, until=until, countdown=countdown)


def _send(execution_id: int | None, part: Part, *, until: float, countdown: float = 0.0) -> None:
    """Leave a part to another task, which is worth nothing once the next snapshot has begun, or a minute late."""
    expires = until - time.time() if countdown else max(PART_EXPIRES_SECONDS, until - time.time())
    snapshot_part.apply_async(args=(execution_id, asdict(part), until), countdown=countdown, expires=expires)


@shared_task(name=VERDICTS_TASK, soft_time_limit=60, time_limit=75)
def verdicts() -> dict[str, Any]:
    """Judge the active runs and bring incidents up to date; an outage of Redis is logged in one line."""
    try:
        return take_verdicts().counts()
    except LiveDataUnavailableError as error:
        logger.warning("verdicts left out: %s", error)
        return {}


@shared_task(name=ALERTS_TASK, soft_time_limit=40, time_limit=45)
def alerts() -> dict[str, Any]:
    """Note what is to be told of incidents, and send what is due. Apart from the verdicts: it may fail alone."""
    try:
        noticed = take_notice()
    finally:  # what is due goes out, whatever becomes of what is new
        sent = send_due()
    if not noticed.was_skipped and not sent.was_skipped:
        note_alerts(timezone.now())
    return {"noticed": asdict(noticed), "sent": asdict(sent)}


@shared_task(name=HEARTBEAT_TASK, soft_time_limit=25, time_limit=30)
def heartbeat() -> str:
    """Tell an external service that the site is well, if it is."""
    return ping().detail


@shared_task(name=RETENTION_TASK, acks_late=True, soft_time_limit=35, time_limit=40)
def retention() -> dict[str, Any]:
    """Remove records older than they are kept; where the time does not suffice, another task goes on."""
    summary = apply_retention(budget_seconds=RETENTION_BUDGET_SECONDS)
    if not summary.is_complete:
        retention.apply_async(countdown=RETENTION_PAUSE_SECONDS)
    return summary.as_dict()
