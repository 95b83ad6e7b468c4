"""How far Redis has been taken, what was lost on the way, how long rows are kept, and each execution of these tasks."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import models

from telemetry_app.models.limits import RECORD_ID_LENGTH, TEXT_LENGTH
from telemetry_app.models.runs import Run


class ListCursor(models.Model):
    """How far one list of Redis has been taken: moved in the transaction that stores the records."""

    list_key = models.CharField(primary_key=True, max_length=TEXT_LENGTH)
    newest_record_id = models.CharField(max_length=RECORD_ID_LENGTH, default="", blank=True)
    malformed_behind = models.PositiveBigIntegerField(default=0)  # elements behind that record, counted already
    records_taken = models.PositiveBigIntegerField(default=0)
    newest_at = models.DateTimeField(null=True, help_text="When the newest record taken finished.")
    highest_numbers = models.JSONField(default=dict, help_text="The highest number of a record taken, by worker.")
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
    bytes_removed = models.PositiveBigIntegerField(default=0)
    keys_removed = models.PositiveBigIntegerField(default=0, help_text="Keys of idle runs removed from Redis.")
    policy = models.CharField(max_length=16, default="", blank=True, help_text="Of retention: what was removed.")
    cutoff_at = models.DateTimeField(null=True, help_text="Of retention: the first instant that is kept.")
    parts_open = models.PositiveIntegerField(default=0, help_text="Tasks of this execution that have not ended.")
    skipped_runs = models.PositiveBigIntegerField(default=0, help_text="Runs another task was taking.")
    failed_runs = models.PositiveBigIntegerField(default=0)
    missing_records = models.PositiveBigIntegerField(default=0, help_text="Records found to be lost for good.")
    lag_seconds = models.FloatField(null=True, help_text="Of a snapshot: how long the oldest record taken had waited.")
    malformed_count = models.PositiveBigIntegerField(default=0)
    error = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)

    class Meta:
        ordering = ["-started_at", "-id"]
        # the newest execution of a task
        indexes = [models.Index(fields=["task", "-started_at"], name="execution_newest")]

    def __str__(self) -> str:
        return f"{self.task} {self.started_at:%Y-%m-%d %H:%M:%S}"

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it has not ended."""
        return None if self.finished_at is None else (self.finished_at - self.started_at).total_seconds()

    def counts(self) -> dict[str, int]:
        """Return what a snapshot counted by name, as tasks and commands report it."""
        names = ("runs_count", "rows_written", "malformed_count", "missing_records", "skipped_runs", "failed_runs")
        return {name: getattr(self, name) for name in names}


class Gap(models.Model):
    """Records of a run that left Redis before they were taken, between two that were."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="gaps")
    list_key = models.CharField(max_length=TEXT_LENGTH)
    after_record_id = models.CharField(max_length=RECORD_ID_LENGTH, help_text="The newest record taken before it.")
    after_at = models.DateTimeField(null=True)
    before_at = models.DateTimeField(null=True, help_text="When the oldest record behind it finished.")
    records_count = models.PositiveBigIntegerField(null=True, help_text="How many are missing, where that is known.")
    found_at = models.DateTimeField()

    class Meta:
        ordering = ["-found_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["list_key", "after_record_id"], name="gap_once")]
        # the gaps of a run, newest first
        indexes = [models.Index(fields=["run", "-found_at", "-id"], name="gap_by_run")]

    def __str__(self) -> str:
        return f"{self.list_key} after {self.after_record_id}"


class RetentionPolicy(models.Model):
    """How many days one kind of rows is kept; empty means for ever."""

    class Kind(models.TextChoices):
        OPERATIONS = "operations"
        SAMPLES = "samples"
        TURNS = "turns"
        STEPS = "steps", "step aggregates"
        WORKER_EVENTS = "worker_events", "worker events"
        INCIDENTS = "incidents"
        RUNS = "runs"

    kind = models.CharField(primary_key=True, max_length=16, choices=Kind)
    days_to_keep = models.PositiveIntegerField(
        null=True, blank=True, help_text="Whole days (UTC); empty keeps them for ever."
    )
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["kind"]
        verbose_name_plural = "retention policies"

    def __str__(self) -> str:
        return f"{self.kind}: {'for ever' if self.days_to_keep is None else f'{self.days_to_keep} days'}"

    def clean(self) -> None:
        """Refuse to keep step aggregates for less time than ops: steps are answered from them alone.

        Raises:
            ValidationError: the days of the one are against the rule.
        """
        pair = (self.Kind.STEPS, self.Kind.OPERATIONS)
        if self.kind not in pair:
            return
        stored = dict(RetentionPolicy.objects.filter(kind__in=pair).values_list("kind", "days_to_keep"))
        days = {**stored, self.kind: self.days_to_keep}
        steps, operations = (days.get(kind) for kind in pair)
        if steps is not None and (operations is None or operations > steps):
            kept = "for ever" if operations is None else f"{operations} days"
            raise ValidationError(
                {"days_to_keep": f"Step aggregates kept for {steps} days, ops {kept}: steps are answered from their "
                                 "aggregates, which must be kept at least as long."}
            )  # fmt: skip
