"""The admin: runs, workers, failures and executions, read-only; policies, the schedule, users and tokens."""

from telemetry_app.admin import accounts, dashboard, failures, maintenance, policies, runs, schedule, tokens, workers

__all__ = ["accounts", "dashboard", "failures", "maintenance", "policies", "runs", "schedule", "tokens", "workers"]
