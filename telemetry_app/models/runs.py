"""Runs with their totals, which outlive the details."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from telemetry_app.models.limits import TEXT_LENGTH
from workers_client import wire

NAME_LENGTH = 200
TAG_LENGTH = 50
MOST_TAGS = 20
NOTES_LENGTH = 10_000
EDITED_FIELDS = ("name", "tags", "notes", "owner", "pinned")


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
    op_seconds = models.JSONField(
        default=dict, help_text="By op, size and bucket of seconds: how many records took so long."
    )
    operations_count = models.PositiveBigIntegerField(default=0)
    failures_count = models.PositiveBigIntegerField(default=0)
    samples_answered = models.PositiveBigIntegerField(default=0)
    samples_failed = models.PositiveBigIntegerField(default=0)
    sample_records_count = models.PositiveBigIntegerField(default=0)
    malformed_count = models.PositiveBigIntegerField(default=0)
    missing_records = models.PositiveBigIntegerField(default=0)
    conflicts_count = models.PositiveBigIntegerField(
        default=0, help_text="Records that came again under a known id with other content; the first stays."
    )
    last_snapshot_at = models.DateTimeField(null=True)
    snapshot_lag_seconds = models.FloatField(
        null=True, help_text="How long the oldest record of the newest snapshot had waited in Redis."
    )
    snapshot_lag_records = models.PositiveBigIntegerField(default=0, help_text="Records the newest snapshot took.")
    # What people say of it; no snapshot writes these.
    name = models.CharField(max_length=NAME_LENGTH, default="", db_default="", blank=True)
    tags = ArrayField(models.CharField(max_length=TAG_LENGTH), default=list, db_default=[], blank=True)
    notes = models.TextField(max_length=NOTES_LENGTH, default="", db_default="", blank=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="runs"
    )
    pinned = models.BooleanField(default=False, help_text="A pinned run is kept whole, whatever the policies say.")

    class Meta:
        ordering = ["-last_activity_at", "run_id"]
        indexes = [
            # the runs list: newest activity first
            models.Index(fields=["-last_activity_at", "run_id"], name="run_by_activity"),
            # the runs list filtered by state
            models.Index(fields=["state", "-last_activity_at"], name="run_by_state"),
            # records missing over all runs, on every page
            models.Index(
                fields=["missing_records"], name="run_with_missing", condition=models.Q(missing_records__gt=0)
            ),
            # the runs with requests that are not answered
            models.Index(
                fields=["-last_activity_at", "run_id"],
                name="run_with_open_requests",
                condition=models.Q(enqueued__gt=models.F("answered")),
            ),
            # what retention must keep whole
            models.Index(fields=["run_id"], name="run_pinned", condition=models.Q(pinned=True)),
        ]
        constraints = [models.CheckConstraint(condition=~models.Q(run_id=""), name="run_id_not_empty")]

    def __str__(self) -> str:
        return self.run_id
