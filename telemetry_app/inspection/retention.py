"""What is kept for how long, and what the newest retention removed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from telemetry_app.inspection.sources import history
from telemetry_app.instants import rfc3339
from telemetry_app.models import Execution, RetentionPolicy
from telemetry_app.retention_estimates import estimate_expired, oldest_at
from telemetry_app.retention_policies import HOLDINGS, policies_in_order


def retention_answer(*, now: datetime) -> list[dict[str, Any]]:
    """Return each policy with what it would free, the oldest row there is, and its newest execution.

    Raises:
        HistoryUnavailableError: PostgreSQL can't be asked.
    """
    return history(lambda: [_policy(policy, _newest_execution(policy), now) for policy in policies_in_order()])


def _policy(policy: RetentionPolicy, newest: Execution | None, now: datetime) -> dict[str, Any]:
    expired = estimate_expired(policy, now=now)
    return {
        "kind": policy.kind,
        "days_to_keep": policy.days_to_keep,
        "cutoff_at": rfc3339(expired.cutoff_at),
        "oldest_at": rfc3339(oldest_at(HOLDINGS[policy.kind])),
        "expired_rows": expired.rows,
        "expired_bytes": expired.size_bytes,
        "newest_execution": _execution(newest) if newest else None,
    }


def _newest_execution(policy: RetentionPolicy) -> Execution | None:
    executions = Execution.objects.filter(task=Execution.Task.RETENTION, policy=policy.kind)
    return executions.order_by("-started_at").first()


def _execution(execution: Execution) -> dict[str, Any]:
    return {
        "started_at": rfc3339(execution.started_at),
        "finished_at": rfc3339(execution.finished_at),
        "cutoff_at": rfc3339(execution.cutoff_at),
        "rows_removed": execution.rows_removed,
        "bytes_removed": execution.bytes_removed,
        "error": execution.error or None,
    }
