"""The admin: what was recorded, read-only; alerts, policies, the schedule, users and tokens."""

from telemetry_app.admin import (
    accounts,
    alert_channels,
    alert_deliveries,
    alert_mutes,
    alert_rules,
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
    "alert_channels",
    "alert_deliveries",
    "alert_mutes",
    "alert_rules",
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
