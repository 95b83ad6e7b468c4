"""One scrape: the same few queries however many runs there are. What can't be asked is left out, never told as 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.utils import timezone
from prometheus_client.core import Metric

from telemetry_app.fleet_counts import fleet_counts
from telemetry_app.metric_growth import Kind, Row
from telemetry_app.metric_totals import stored_totals
from telemetry_app.models import Execution, Run, VerdictPass
from telemetry_app.prometheus import families
from telemetry_app.prometheus.gauges import check_metrics, fleet_metrics, run_metrics, snapshot_metrics
from telemetry_app.prometheus.served_requests import served_requests
from telemetry_app.prometheus.totals import total_metrics
from telemetry_app.readiness import Check, check_all

FLEET_AGE_LIMIT = timedelta(seconds=60)  # twelve passes: older counts say nothing of now
MOST_RUNS = 1_000  # whatever the setting says


class Scrape:
    """A collector of all metrics at one instant: the clock's, unless another one is given."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now or timezone.now()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        checks = check_all(now=self._now)
        is_up = {check.name: check.is_ok for check in checks}
        stored = None
        if is_up["postgres"]:
            try:
                stored = _read(self._now)
            except (DatabaseError, InterfaceError) as error:  # it went out meanwhile
                detail = f"PostgreSQL can't be asked: {type(error).__name__}"
                checks = [check for check in checks if check.name == "redis"] + [Check("postgres", False, detail)]
        yield from check_metrics(checks)
        if stored is not None:
            yield from _stored_metrics(stored, self._now, is_live=is_up["redis"])
        yield from served_requests()


@dataclass(frozen=True, slots=True)
class _Stored:
    totals: dict[Kind, dict[str, Row]]
    newest_pass: VerdictPass | None
    newest_snapshot: Execution | None
    runs: list[Run]


def _read(now: datetime) -> _Stored:
    most = min(settings.TELEMETRY_METRICS_RUNS, MOST_RUNS)
    snapshots = Execution.objects.filter(task=Execution.Task.SNAPSHOT, finished_at__isnull=False)
    return _Stored(
        totals=stored_totals(now),
        newest_pass=VerdictPass.objects.filter(ended_at__isnull=False).first(),
        newest_snapshot=snapshots.order_by("-started_at").first(),
        runs=list(Run.objects.defer("ledger_seen", "op_seconds", "notes")[:most]) if most else [],
    )


def _stored_metrics(stored: _Stored, now: datetime, *, is_live: bool) -> Iterator[Metric]:
    yield from total_metrics(stored.totals)
    told = stored.newest_pass
    if told is not None and told.ended_at is not None:
        age = now - told.ended_at
        yield families.FLEET_AGE.of(max(0.0, age.total_seconds()))
        if is_live and told.fleet and age <= FLEET_AGE_LIMIT:
            yield from fleet_metrics(fleet_counts(told.fleet))
    if stored.newest_snapshot is not None:
        yield from snapshot_metrics(stored.newest_snapshot)
    if stored.runs:
        yield from run_metrics(stored.runs)
