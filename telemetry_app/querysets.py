"""Named filters of the stored rows, shared by the API, the admin and the snapshot."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import Case, CharField, DateTimeField, ExpressionWrapper, F, Q, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce

from telemetry_app.health import ALIVE_INTERVALS, LATE_INTERVALS, Health
from workers_client.wire import Status

if TYPE_CHECKING:
    from telemetry_app.models import Operation, Sample, Worker  # noqa: F401


class WorkerQuerySet(models.QuerySet["Worker"]):
    def with_health(self, now: datetime) -> Self:
        """Annotate `health` at `now`, by the rule of `health.worker_health`."""
        return self.annotate(
            health=Case(
                When(exited_at__isnull=False, then=Value(Health.EXITED.value)),
                When(last_heartbeat_at__gte=_intervals_before(now, ALIVE_INTERVALS), then=Value(Health.ALIVE.value)),
                When(last_heartbeat_at__gte=_intervals_before(now, LATE_INTERVALS), then=Value(Health.LATE.value)),
                default=Value(Health.LOST.value),
                output_field=CharField(),
            )
        )


class OperationQuerySet(models.QuerySet["Operation"]):
    def of_run(self, run_id: str) -> Self:
        """Ops of one run."""
        return self.filter(run_id=run_id)

    def failed(self) -> Self:
        """Ops that failed."""
        return self.filter(status=Status.FAILED.value)


class SampleQuerySet(models.QuerySet["Sample"]):
    def of_run(self, run_id: str) -> Self:
        """Sampling records of one run."""
        return self.filter(run_id=run_id)

    def failed(self) -> Self:
        """Sampling requests answered with a failure."""
        return self.filter(Q(kind="failure"))


def _intervals_before(now: datetime, intervals: int) -> ExpressionWrapper:
    """Return `now` less so many of the worker's own heartbeat intervals, on the worker's clock."""
    offset = Cast(KeyTextTransform("clock_offset_seconds", "record"), output_field=models.FloatField())
    seconds = F("interval_seconds") * Value(float(intervals)) - Coalesce(offset, Value(0.0))
    span = ExpressionWrapper(seconds * Value(timedelta(seconds=1)), output_field=models.DurationField())
    return ExpressionWrapper(Value(now, output_field=DateTimeField()) - span, output_field=DateTimeField())
