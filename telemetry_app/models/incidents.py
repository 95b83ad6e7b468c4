"""What went wrong with runs, from its start to its end, and the pass that looks for it."""

from __future__ import annotations

from django.db import models

from telemetry_app.findings import Code
from telemetry_app.models.limits import TEXT_LENGTH
from telemetry_app.models.runs import Run, RunState


class IncidentCode(models.TextChoices):
    """The states that are incidents, and all findings."""

    LOST = RunState.LOST.value
    STUCK = RunState.STUCK.value
    FAILING = RunState.FAILING.value
    DIVERGING = RunState.DIVERGING.value
    WAITING_FOR_GPU = RunState.WAITING_FOR_GPU.value
    QUEUED = RunState.QUEUED.value
    EXECUTED_TWICE = Code.EXECUTED_TWICE.value
    ANSWERED_NOT_DELIVERED = Code.ANSWERED_NOT_DELIVERED.value
    ENQUEUED_BESIDE_IDLE_WORKER = Code.ENQUEUED_BESIDE_IDLE_WORKER.value
    LOSS_IS_ZERO = Code.LOSS_IS_ZERO.value
    GRADIENT_VANISHED = Code.GRADIENT_VANISHED.value


class Incident(models.Model):
    """One thing that went wrong with a run: open as long as `ended_at` is empty, and kept when it ended."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        Run, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="incidents"
    )
    code = models.CharField(max_length=32, choices=IncidentCode)
    started_at = models.DateTimeField(help_text="Since when it held, by the facts.")
    last_held_at = models.DateTimeField(help_text="When a pass saw it last.")
    ended_at = models.DateTimeField(null=True, help_text="When it was seen last, once it no longer held for a while.")
    changed_at = models.DateTimeField(help_text="When it was opened, reopened or closed.")
    cause = models.CharField(max_length=TEXT_LENGTH, help_text="The facts in words, as they were when it was opened.")
    evidence = models.JSONField(default=list, help_text="The same facts, with ids of records and requests.")
    reopened_count = models.PositiveIntegerField(default=0, help_text="How often it came back soon after it had ended.")

    class Meta:
        ordering = ["-started_at", "-id"]
        constraints = [
            # also serves the open ones of a run
            models.UniqueConstraint(
                fields=["run", "code"], name="incident_open_once", condition=models.Q(ended_at__isnull=True)
            ),
        ]
        indexes = [
            # incidents of a run, newest first
            models.Index(fields=["run", "-started_at", "-id"], name="incident_by_run"),
            # incidents over all runs, newest first
            models.Index(fields=["-started_at", "-id"], name="incident_by_start"),
            # those that changed since an instant: events, and what may be reopened
            models.Index(fields=["changed_at", "id"], name="incident_by_change"),
        ]

    def __str__(self) -> str:
        return f"{self.code} {self.run_id}"


class VerdictPass(models.Model):
    """The newest pass over the active runs: one row, by which a pass knows what the one before it saw."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    ended_at = models.DateTimeField(null=True)
    runs_count = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(default=0.0)
    fleet = models.JSONField(default=dict, help_text="Runs by state, workers by role and health, requests by op.")
    live_failed_at = models.DateTimeField(null=True, help_text="When Redis could not be read last.")
    live_back_at = models.DateTimeField(null=True, help_text="When it could be read again after that.")

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="verdict_pass_one_row")]

    def __str__(self) -> str:
        return f"verdict pass {self.ended_at:%Y-%m-%d %H:%M:%S}" if self.ended_at else "no verdict pass"
