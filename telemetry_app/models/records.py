"""The records that left Redis: ops, sampling and GPU turns, partitioned by day of `at` (see `partitions.py`).

Django sees `id` as their key; PostgreSQL keys them by `(id, at)`.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from telemetry_app.models.limits import RECORD_ID_LENGTH, TEXT_LENGTH
from telemetry_app.models.runs import Run
from telemetry_app.querysets import OperationQuerySet, SampleQuerySet
from workers_client import wire


class Operation(models.Model):
    """One op record."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        Run, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="operations"
    )
    record_id = models.CharField(max_length=RECORD_ID_LENGTH)
    worker = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    role = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    operation = models.CharField(max_length=TEXT_LENGTH)
    request_id = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    status = models.CharField(max_length=16, choices=[(status.value, status.value) for status in wire.Status])
    error_type = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    error_category = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    enqueued_at = models.DateTimeField(null=True)
    queue_seconds = models.FloatField(null=True)
    started_at = models.DateTimeField(null=True)
    at = models.DateTimeField()
    reported_at = models.DateTimeField(
        null=True, help_text="What the worker's clock said, where that can't be: `at` is then when it was received."
    )
    elapsed_seconds = models.FloatField(null=True)
    step = models.PositiveBigIntegerField()
    metrics = models.JSONField(default=dict)
    nonfinite = models.JSONField(default=dict)
    tokens = models.PositiveBigIntegerField(null=True)
    datums = models.PositiveBigIntegerField(null=True)
    batch = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    trace_id = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    span_id = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)

    objects = OperationQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [
            # a record counts once; the partition column must stand in every unique key
            models.UniqueConstraint(fields=["run", "record_id", "at"], name="operation_once"),
        ]
        indexes = [
            # the steps of a run
            models.Index(fields=["run", "step"], name="operation_by_step"),
            # the operations of a run, newest first
            models.Index(fields=["run", "-at", "-id"], name="operation_by_run"),
            # failures over all runs, and of a run
            models.Index(fields=["-at", "-id"], name="operation_failed", condition=models.Q(status="failed")),
            models.Index(fields=["run", "-at"], name="operation_failed_by_run", condition=models.Q(status="failed")),
            # whether a record of a wrong clock is stored already: its `at` does not say so
            models.Index(
                fields=["run", "record_id"], name="operation_wrong_clock", condition=models.Q(reported_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.record_id}"


class Sample(models.Model):
    """One sampling record: a failed answer (`failure`), or what one worker answered between two flushes (`group`)."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        Run, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="samples"
    )
    record_id = models.CharField(max_length=RECORD_ID_LENGTH)
    kind = models.CharField(max_length=16, choices=[("failure", "failure"), ("group", "group")])
    worker = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    request_id = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    source = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    error_type = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    count = models.PositiveBigIntegerField(default=1)
    accepted_at = models.DateTimeField(null=True, help_text="Of a group: when its first request was accepted.")
    first_answered_at = models.DateTimeField(null=True)
    at = models.DateTimeField()
    reported_at = models.DateTimeField(
        null=True, help_text="What the worker's clock said, where that can't be: `at` is then when it was received."
    )
    seconds_sum = models.FloatField(null=True)
    seconds_max = models.FloatField(null=True)
    tokens_sum = models.PositiveBigIntegerField(null=True)
    busy_seconds = models.FloatField(null=True)

    objects = SampleQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["run", "record_id", "at"], name="sample_once")]
        indexes = [
            # the sampling of a run, newest first
            models.Index(fields=["run", "-at", "-id"], name="sample_by_run"),
            # failures over all runs
            models.Index(fields=["-at", "-id"], name="sample_failed", condition=models.Q(kind="failure")),
            # whether a record of a wrong clock is stored already
            models.Index(
                fields=["run", "record_id"], name="sample_wrong_clock", condition=models.Q(reported_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.record_id}"


class Turn(models.Model):
    """One GPU turn of a workload."""

    id = models.BigAutoField(primary_key=True)
    record_id = models.CharField(max_length=RECORD_ID_LENGTH)
    workload = models.CharField(max_length=TEXT_LENGTH)
    role = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    worker = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    node = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    requested_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField()
    at = models.DateTimeField()
    reported_at = models.DateTimeField(
        null=True, help_text="What the worker's clock said, where that can't be: `at` is then when it was received."
    )
    runs = ArrayField(models.CharField(max_length=TEXT_LENGTH), default=list, blank=True)
    ops = models.JSONField(default=list)

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["workload", "record_id", "at"], name="turn_once")]
        indexes = [
            # the turns of a workload, newest first
            models.Index(fields=["workload", "-at", "-id"], name="turn_by_workload"),
            # the turns of a stretch of time, whatever the workload: who held a device while a run waited
            models.Index(fields=["at"], name="turn_by_time"),
            # the turns of a worker, newest first
            models.Index(fields=["worker", "-at", "-id"], name="turn_by_worker"),
            # the turns on a node, newest first
            models.Index(fields=["node", "-at", "-id"], name="turn_by_node"),
            # the turns of all workloads over a stretch of time
            models.Index(fields=["-at"], name="turn_by_end"),
            # the turns in which a run's ops ran
            GinIndex(fields=["runs"], name="turn_by_run"),
            # whether a record of a wrong clock is stored already
            models.Index(
                fields=["workload", "record_id"], name="turn_wrong_clock", condition=models.Q(reported_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workload} {self.record_id}"


class FailedOperation(Operation):
    """Ops that failed, as the admin lists them."""

    class FailedManager(models.Manager["FailedOperation"]):
        def get_queryset(self) -> models.QuerySet[FailedOperation]:
            """Only those that failed."""
            return super().get_queryset().filter(status=wire.Status.FAILED.value)

    objects = FailedManager()  # type: ignore[misc, assignment]

    class Meta:
        proxy = True
        ordering = ["-at", "-id"]
        verbose_name = "failed op"


class FailedSample(Sample):
    """Sampling requests answered with a failure, as the admin lists them."""

    class FailedManager(models.Manager["FailedSample"]):
        def get_queryset(self) -> models.QuerySet[FailedSample]:
            """Only those that failed."""
            return super().get_queryset().filter(kind="failure")

    objects = FailedManager()  # type: ignore[misc, assignment]

    class Meta:
        proxy = True
        ordering = ["-at", "-id"]
        verbose_name = "failed sampling answer"
