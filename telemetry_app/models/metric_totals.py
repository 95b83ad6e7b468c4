"""Totals over all runs that only ever grow: what monitoring takes rates of."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from telemetry_app.metric_growth import Kind

LABEL_LENGTH = 100


class MetricTotal(models.Model):
    """The totals of one kind and label, in the order of `metric_growth.COLUMNS`.

    They grow in the transaction that stores the records, and neither retention nor a restart takes anything back.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=16, choices=[(kind.value, kind.value) for kind in Kind])
    label = models.CharField(max_length=LABEL_LENGTH, default="", blank=True)
    totals = ArrayField(models.FloatField(), default=list)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["kind", "label"]
        # No index on what changes: each snapshot changes a row several times, in place.
        constraints = [models.UniqueConstraint(fields=["kind", "label"], name="metric_total_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.label}".rstrip()
