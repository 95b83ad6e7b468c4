"""What is kept of a step once its op records are gone."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from telemetry_app.models.limits import TEXT_LENGTH
from telemetry_app.models.runs import Run


class StepAggregate(models.Model):
    """The ops of one name in one step of a run, folded as `grouping.OperationGroup` folds them.

    `step` is the stamp of the records: what follows the newest `optim_step` is moved to the step before when read.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        Run, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="step_aggregates"
    )
    step = models.PositiveBigIntegerField()
    operation = models.CharField(max_length=TEXT_LENGTH)
    count = models.PositiveBigIntegerField()
    failures = models.PositiveBigIntegerField(default=0)
    cancelled = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(default=0.0)
    queue_seconds = models.FloatField(default=0.0)
    metric_names = ArrayField(models.CharField(max_length=TEXT_LENGTH), default=list)
    metric_numbers = ArrayField(
        models.FloatField(),
        default=list,
        help_text="One value of each metric, or all counts, minima, means, maxima, newest values and their instants.",
    )
    nonfinite = models.JSONField(default=dict, help_text="By metric name: how many values were NaN or infinite.")
    first_enqueued_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(help_text="The start of its first op.")
    finished_at = models.DateTimeField(help_text="The end of its last op.")

    batches = models.JSONField(
        default=list, help_text="Name and seconds of the newest batches: a later op adds theirs once."
    )

    class Meta:
        ordering = ["run_id", "step", "operation"]
        # also serves the steps of a run
        constraints = [models.UniqueConstraint(fields=["run", "step", "operation"], name="step_aggregate_once")]
        # what retention removes first
        indexes = [models.Index(fields=["finished_at"], name="step_aggregate_by_time")]

    def __str__(self) -> str:
        return f"{self.run_id} step {self.step} {self.operation}"
