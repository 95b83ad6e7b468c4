"""How old the data of a page are, and what was not seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Sum
from django.utils import timezone

from telemetry_app.models import Execution, Run

LATE_INTERVALS = 6  # snapshots missed before a page says so in a warning


@dataclass(frozen=True, slots=True)
class Freshness:
    """The newest snapshot that succeeded, and records missing over all runs."""

    last_snapshot_at: datetime | None
    last_error: str
    is_late: bool
    missing_records: int


def history_freshness() -> Freshness:
    """Return how old the stored data are."""
    newest = Execution.objects.filter(task=Execution.Task.SNAPSHOT, finished_at__isnull=False)
    last = newest.filter(error="").order_by("-started_at").first()
    failed = newest.order_by("-started_at").first()
    age_seconds = (timezone.now() - last.started_at).total_seconds() if last else None
    missing = Run.objects.aggregate(total=Sum("missing_records"))["total"]
    return Freshness(
        last_snapshot_at=last.started_at if last else None,
        last_error=failed.error if failed else "",
        is_late=age_seconds is None or age_seconds > LATE_INTERVALS * settings.TELEMETRY_SNAPSHOT_INTERVAL_SECONDS,
        missing_records=missing or 0,
    )
