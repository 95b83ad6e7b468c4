"""The admin: runs, workers, failures, incidents and executions, read-only; policies, the schedule, users and tokens."""

from telemetry_app.admin import (
    accounts,
    dashboard,
    failures,
    incidents,
    maintenance,
    policies,
    runs,
    schedule,
    tokens,
    workers,
)

__all__ = [
    "accounts",
    "dashboard",
    "failures",
    "incidents",
    "maintenance",
    "policies",
    "runs",
    "schedule",
    "tokens",
    "workers",
]
