"""Forget on purpose: drop the daily partitions of records that are older than they are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from telemetry_app import partitions
from telemetry_app.models import Execution

EXECUTIONS_KEPT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class RetentionSummary:
    """What one retention did; `cutoff` is the first day (UTC) that is kept."""

    cutoff: str
    rows_removed: int

    def as_dict(self) -> dict[str, str | int]:
        """Return the values by name, as tasks and commands report them."""
        return {"cutoff": self.cutoff, "rows_removed": self.rows_removed}


def apply_retention(*, now: datetime | None = None, days: int | None = None) -> RetentionSummary:
    """Remove op, sample and turn records of days (UTC) that ended `days` ago or earlier, and old executions.

    Whole partitions go, one transaction a table; runs, workers and their totals stay. `days` is
    `TELEMETRY_RETENTION_DAYS` by default.
    """
    started_at = now or timezone.now()
    kept_days = settings.TELEMETRY_RETENTION_DAYS if days is None else days
    cutoff = started_at.date() - timedelta(days=kept_days)
    execution = Execution.objects.create(task=Execution.Task.RETENTION, started_at=started_at)
    try:
        for model in partitions.partitioned_models():
            with transaction.atomic():
                execution.rows_removed += partitions.drop_before(model, cutoff)
        Execution.objects.filter(started_at__lt=started_at - EXECUTIONS_KEPT).delete()
    except Exception as error:
        execution.error = f"{type(error).__name__}: {error}"[:500]
        raise
    finally:
        execution.finished_at = timezone.now()
        execution.save()
    return RetentionSummary(cutoff.isoformat(), execution.rows_removed)
