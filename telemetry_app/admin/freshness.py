"""How old the data of a page are, what was not seen, and what is wrong with the upkeep."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum
from django.utils import timezone

from telemetry_app.models import Execution, Run
from telemetry_app.readiness import check_partitions, check_retention, check_snapshot


@dataclass(frozen=True, slots=True)
class Freshness:
    """The newest snapshot that succeeded, records missing over all runs, and what else readiness would name."""

    last_snapshot_at: datetime | None
    last_error: str
    is_late: bool
    missing_records: int
    warnings: tuple[str, ...] = ()


def history_freshness() -> Freshness:
    """Return how old the stored data are."""
    now = timezone.now()
    snapshot = check_snapshot(now)
    newest = Execution.objects.filter(task=Execution.Task.SNAPSHOT, finished_at__isnull=False)
    last_error = newest.order_by("-started_at").values_list("error", flat=True).first()
    missing = Run.objects.filter(missing_records__gt=0).aggregate(total=Sum("missing_records"))["total"]
    return Freshness(
        last_snapshot_at=snapshot.last_at,
        last_error=last_error or "",
        is_late=snapshot.last_at is None or not snapshot.is_ok,
        missing_records=missing or 0,
        warnings=tuple(_warnings(now)),
    )


def _warnings(now: datetime) -> list[str]:
    partitions, retention = check_partitions(now), check_retention(now)
    found = [] if partitions.is_ok else [f"Partitions are {partitions.detail}."]
    return found if retention.is_ok else [*found, f"{retention.detail[:1].upper()}{retention.detail[1:]}."]
