"""The admin: runs, workers, failures and the site's own executions, read-only; users, tokens and the schedule."""

from telemetry_app.admin import accounts, dashboard, failures, maintenance, runs, schedule, workers

__all__ = ["accounts", "dashboard", "failures", "maintenance", "runs", "schedule", "workers"]
