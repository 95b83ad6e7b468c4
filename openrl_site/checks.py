"""Checks of settings against each other; `manage.py check` and the start of the server report them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, register

from openrl_site.locations import LOCAL_HOSTS

SECONDS_PER_DAY = 86_400


@register
def check_retention_exceeds_snapshot_interval(**_: Any) -> list[CheckMessage]:
    """Records must be kept for longer than it takes until the next snapshot."""
    days, seconds = settings.TELEMETRY_RETENTION_DAYS, settings.TELEMETRY_SNAPSHOT_INTERVAL_SECONDS
    if days * SECONDS_PER_DAY > seconds:
        return []
    return [
        Error(
            f"TELEMETRY_RETENTION_DAYS={days} must be longer than TELEMETRY_SNAPSHOT_INTERVAL_SECONDS={seconds}.",
            hint="Keep records for at least a day, and take snapshots every few seconds.",
            id="openrl_site.E001",
        )
    ]


@register
def check_visibility_timeout_exceeds_task_limit(**_: Any) -> list[CheckMessage]:
    """The broker hands a task out again after its visibility timeout: one that still runs would run twice."""
    visible = settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]
    limit = settings.CELERY_TASK_TIME_LIMIT
    if limit < visible:
        return []
    return [
        Error(
            f"CELERY_TASK_TIME_LIMIT={limit} must be below the broker's visibility_timeout={visible} seconds.",
            id="openrl_site.E002",
        )
    ]


@register
def check_cache_is_apart_from_records(**_: Any) -> list[CheckMessage]:
    """Emptying the cache empties its whole database, which must not be the one of the workers' records."""
    if settings.CACHES["default"]["LOCATION"] != settings.REDIS_URL:
        return []
    return [
        Error(
            "CACHE_URL must name another database than REDIS_URL: emptying the cache would delete all records.",
            hint="Give it another number, such as /2.",
            id="openrl_site.E003",
        )
    ]


@register(deploy=True)
def check_only_local_without_tls(**_: Any) -> list[CheckMessage]:
    """Passwords and tokens must not cross a network in the clear."""
    others = sorted(set(settings.ALLOWED_HOSTS) - set(LOCAL_HOSTS))
    if settings.BEHIND_TLS or not others:
        return []
    return [
        checks.Warning(
            f"ALLOWED_HOSTS={','.join(others)} lets others in without TLS; it must name this machine only.",
            hint="Set BEHIND_TLS=true where a proxy in front of the site ends TLS.",
            id="openrl_site.W001",
        )
    ]
