"""Worker processes and what happened to them."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from telemetry_app.models.limits import TEXT_LENGTH
from telemetry_app.querysets import WorkerQuerySet
from workers_client import wire


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
            # the workers of one role, and which roles there are
            models.Index(fields=["role", "-last_heartbeat_at"], name="worker_by_role"),
            # those that held requests when they were heard last: few of all there ever were
            models.Index(
                fields=["-last_heartbeat_at", "worker"],
                name="worker_holding_requests",
                condition=~models.Q(record__outstanding=[]),
            ),
            # the workers of one run
            GinIndex(fields=["runs"], name="worker_by_run"),
        ]

    def __str__(self) -> str:
        return self.worker


class WorkerEvent(models.Model):
    """One change in a worker's life, as the snapshot saw it: at most one of a kind at one instant."""

    class Event(models.TextChoices):
        STARTED = "started"
        LATE = "late"
        LOST = "lost"
        RECOVERED = "recovered"
        EXITED = "exited"

    id = models.BigAutoField(primary_key=True)
    worker = models.ForeignKey(
        Worker, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="events"
    )
    event = models.CharField(max_length=16, choices=Event)
    at = models.DateTimeField(help_text="When it happened, on the clock of Redis; of late and lost: when it was due.")
    detail = models.CharField(max_length=TEXT_LENGTH, default="", blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["worker", "event", "at"], name="worker_event_once")]
        indexes = [
            # the events of a worker, newest first
            models.Index(fields=["worker", "-at", "-id"], name="worker_event_by_worker"),
            # events of all workers, newest first, and retention's oldest
            models.Index(fields=["-at", "-id"], name="worker_event_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.worker_id} {self.event}"
