"""What PostgreSQL keeps: runs, workers, and the records that left Redis.

Columns have the names of the wire contract. Instants are aware (UTC). `Operation`, `Sample` and `Turn` are partitioned
by day of `at` (see `partitions.py`): Django sees `id` as their key, PostgreSQL keys them by `(id, at)`.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from telemetry_app.querysets import OperationQuerySet, SampleQuerySet, WorkerQuerySet
from workers_client import wire

TEXT_LENGTH = 512
RECORD_ID_LENGTH = 1_200  # a record's identity: its id, or request id, operation and finish time


class RunState(models.TextChoices):
    """What a run is doing, in order of precedence: the first that holds is the run's state."""

    LOST = "lost"
    STUCK = "stuck"
    FAILING = "failing"
    DIVERGING = "diverging"
    WAITING_FOR_GPU = "waiting_for_gpu"
    QUEUED = "queued"
    SAMPLING = "sampling"
    PROGRESSING = "progressing"
    WAITING_FOR_CLIENT = "waiting_for_client"
    IDLE = "idle"
    FINISHED = "finished"


class Run(models.Model):
    """One run with its totals, which outlive the details."""

    run_id = models.CharField(primary_key=True, max_length=wire.RUN_ID_LIMIT)
    first_seen_at = models.DateTimeField()
    last_activity_at = models.DateTimeField()
    state = models.CharField(max_length=32, choices=RunState, default=RunState.IDLE)
    state_since = models.DateTimeField(null=True)
    state_reason = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    steps_completed = models.PositiveBigIntegerField(default=0)
    steps_per_hour = models.FloatField(null=True)
    enqueued = models.PositiveBigIntegerField(default=0)
    popped = models.PositiveBigIntegerField(default=0)
    answered = models.PositiveBigIntegerField(default=0)
    delivered = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0)
    recorded = models.PositiveBigIntegerField(null=True)
    samples_recorded = models.PositiveBigIntegerField(null=True)
    ledger_seen = models.JSONField(default=dict, help_text="The ledger's raw counts at the newest snapshot.")
    operations_count = models.PositiveBigIntegerField(default=0)
    failures_count = models.PositiveBigIntegerField(default=0)
    samples_answered = models.PositiveBigIntegerField(default=0)
    samples_failed = models.PositiveBigIntegerField(default=0)
    sample_records_count = models.PositiveBigIntegerField(default=0)
    malformed_count = models.PositiveBigIntegerField(default=0)
    missing_records = models.PositiveBigIntegerField(default=0)
    last_snapshot_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-last_activity_at", "run_id"]
        indexes = [
            # the runs list: newest activity first
            models.Index(fields=["-last_activity_at", "run_id"], name="run_by_activity"),
            # the runs list filtered by state
            models.Index(fields=["state", "-last_activity_at"], name="run_by_state"),
        ]
        constraints = [models.CheckConstraint(condition=~models.Q(run_id=""), name="run_id_not_empty")]

    def __str__(self) -> str:
        return self.run_id


class Worker(models.Model):
    """One worker process with the newest record it wrote of itself."""

    worker = models.CharField(primary_key=True, max_length=TEXT_LENGTH)
    role = models.CharField(max_length=32)
    parent = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    pod = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    node = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    host = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    pid = models.PositiveBigIntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    last_heartbeat_at = models.DateTimeField()
    last_progress_at = models.DateTimeField(null=True)
    interval_seconds = models.FloatField()
    phase = models.CharField(max_length=32, default="", blank=True)
    phase_since = models.DateTimeField(null=True)
    exited_at = models.DateTimeField(null=True)
    exit_reason = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)
    runs = ArrayField(models.CharField(max_length=wire.RUN_ID_LIMIT), default=list, blank=True)
    record = models.JSONField(default=dict)

    objects = WorkerQuerySet.as_manager()

    class Meta:
        ordering = ["-last_heartbeat_at", "worker"]
        indexes = [
            # the workers list: newest heartbeat first
            models.Index(fields=["-last_heartbeat_at", "worker"], name="worker_by_heartbeat"),
            # the workers of one run
            GinIndex(fields=["runs"], name="worker_by_run"),
        ]

    def __str__(self) -> str:
        return self.worker


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
    runs = ArrayField(models.CharField(max_length=TEXT_LENGTH), default=list, blank=True)
    ops = models.JSONField(default=list)

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["workload", "record_id", "at"], name="turn_once")]
        indexes = [
            # the turns of a workload, newest first
            models.Index(fields=["workload", "-at", "-id"], name="turn_by_workload"),
            # the turns in which a run's ops ran
            GinIndex(fields=["runs"], name="turn_by_run"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} {self.record_id}"


class ListCursor(models.Model):
    """How far one list of Redis has been taken: moved in the transaction that stores the records."""

    list_key = models.CharField(primary_key=True, max_length=TEXT_LENGTH)
    newest_record_id = models.CharField(max_length=RECORD_ID_LENGTH, default="", blank=True)
    malformed_behind = models.PositiveBigIntegerField(default=0)  # elements behind that record, counted already
    records_taken = models.PositiveBigIntegerField(default=0)
    moved_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["list_key"]

    def __str__(self) -> str:
        return self.list_key


class Execution(models.Model):
    """One execution of the snapshot or of retention: what it did, and whether it failed."""

    class Task(models.TextChoices):
        SNAPSHOT = "snapshot"
        RETENTION = "retention"

    id = models.BigAutoField(primary_key=True)
    task = models.CharField(max_length=16, choices=Task)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    runs_count = models.PositiveBigIntegerField(default=0)
    rows_written = models.PositiveBigIntegerField(default=0)
    rows_removed = models.PositiveBigIntegerField(default=0)
    malformed_count = models.PositiveBigIntegerField(default=0)
    error = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)

    class Meta:
        ordering = ["-started_at", "-id"]
        # the newest execution of a task
        indexes = [models.Index(fields=["task", "-started_at"], name="execution_newest")]

    def __str__(self) -> str:
        return f"{self.task} {self.started_at:%Y-%m-%d %H:%M:%S}"


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
