"""Celery shells round the services: no logic here."""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task

from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.retention import apply_retention
from telemetry_app.schedule import RETENTION_TASK, SNAPSHOT_TASK
from telemetry_app.snapshots import take_snapshot

logger = logging.getLogger(__name__)

RETENTION_BUDGET_SECONDS = 25.0  # of its time limit: a chunk that has begun has to end
RETENTION_PAUSE_SECONDS = 2


@shared_task(name=SNAPSHOT_TASK, acks_late=True, soft_time_limit=30, time_limit=40)
def snapshot() -> dict[str, int]:
    """Take what is new in Redis. An outage of Redis is logged in one line: the next snapshot takes all."""
    try:
        return take_snapshot().as_dict()
    except LiveDataUnavailableError as error:
        logger.warning("snapshot left out: %s", error)
        return {}


@shared_task(name=RETENTION_TASK, acks_late=True, soft_time_limit=35, time_limit=40)
def retention() -> dict[str, Any]:
    """Remove records older than they are kept; where the time does not suffice, another task goes on."""
    summary = apply_retention(budget_seconds=RETENTION_BUDGET_SECONDS)
    if not summary.is_complete:
        retention.apply_async(countdown=RETENTION_PAUSE_SECONDS)
    return summary.as_dict()
