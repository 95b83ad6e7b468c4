"""Metrics of this instant: the fleet as the newest pass told it, the site's own checks, and the newest runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from telemetry_app.fleet_counts import ROLES, FleetCounts, RequestCounts
from telemetry_app.health import Health
from telemetry_app.metric_growth import KNOWN_OPERATIONS
from telemetry_app.models import Execution, Run, RunState
from telemetry_app.prometheus import families
from telemetry_app.readiness import Check


def fleet_metrics(counts: FleetCounts) -> Iterator[Metric]:
    """Yield what is counted of the fleet; what there is none of is 0."""
    yield families.ACTIVE_RUNS.by({(state,): counts.runs[state] for state in RunState.values})
    roles = dict.fromkeys([*ROLES, *sorted(role for role, _ in counts.workers)])
    yield families.WORKERS.by(
        {(role, health.value): counts.workers[role, health.value] for role in roles for health in Health}
    )
    requests = {name: RequestCounts() for name in KNOWN_OPERATIONS} | counts.requests
    yield families.REQUESTS_OPEN.by({(name,): each.open for name, each in requests.items()})
    yield families.REQUESTS_STUCK.by({(name,): each.stuck for name, each in requests.items()})
    ages = {(name,): each.oldest_seconds for name, each in requests.items()}
    yield families.REQUESTS_OLDEST.by({labels: age for labels, age in ages.items() if age is not None})


def check_metrics(checks: Sequence[Check]) -> Iterator[Metric]:
    """Yield what `/readyz` says."""
    is_ok = {check.name: check.is_ok for check in checks}
    yield families.REDIS_UP.of(is_ok["redis"])
    yield families.POSTGRES_UP.of(is_ok["postgres"])
    yield families.CHECKS.by({(check.name,): check.is_ok for check in checks})
    ages = {(check.name,): check.age_seconds for check in checks}
    limits = {(check.name,): check.limit_seconds for check in checks}
    yield families.CHECK_AGE.by({labels: age for labels, age in ages.items() if age is not None})
    yield families.CHECK_AGE_LIMIT.by({labels: limit for labels, limit in limits.items() if limit is not None})


def snapshot_metrics(newest: Execution) -> Iterator[Metric]:
    """Yield what the newest finished snapshot did."""
    if newest.lag_seconds is not None:
        yield families.SNAPSHOT_LAG.of(newest.lag_seconds)
    if newest.seconds is not None:
        yield families.SNAPSHOT_SECONDS.of(newest.seconds)
    yield families.SNAPSHOT_FAILED_RUNS.of(newest.failed_runs)


def run_metrics(runs: Sequence[Run]) -> Iterator[Metric]:
    """Yield the totals of single runs, as their rows have them."""
    yield families.RUN_STATE.by({(run.run_id, run.state): 1 for run in runs})
    yield families.RUN_STEPS.by({(run.run_id,): run.steps_completed for run in runs})
    yield families.RUN_OPERATIONS.by({(run.run_id,): run.operations_count for run in runs})
    yield families.RUN_FAILURES.by({(run.run_id,): run.failures_count for run in runs})
    yield families.RUN_MISSING.by({(run.run_id,): run.missing_records for run in runs})
