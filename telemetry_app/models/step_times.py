"""Where the wall time of each step went, kept once all workers have told."""

from __future__ import annotations

from django.db import models

from telemetry_app.models.runs import Run


class StepTime(models.Model):
    """One completed step's parts, as `step_clock` splits it: they add up to its wall time."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(
        Run, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="step_times"
    )
    step = models.PositiveBigIntegerField()
    started_at = models.DateTimeField(help_text="The end of the step before; of the first its first enqueue.")
    ended_at = models.DateTimeField(help_text="The end of its last op.")
    wall_seconds = models.FloatField()
    training_seconds = models.FloatField(default=0.0)
    saving_seconds = models.FloatField(default=0.0)
    gpu_switch_seconds = models.FloatField(default=0.0)
    gpu_wait_seconds = models.FloatField(default=0.0)
    queue_seconds = models.FloatField(default=0.0)
    sampling_seconds = models.FloatField(default=0.0)
    client_seconds = models.FloatField(default=0.0)
    no_worker_seconds = models.FloatField(default=0.0)
    untracked_seconds = models.FloatField(default=0.0)
    gpu_wait_by = models.JSONField(
        default=list, help_text="Who held the GPU meanwhile: workload, run, op and seconds each."
    )
    overlap_seconds = models.FloatField(default=0.0)
    clock_offset_seconds = models.FloatField(null=True)
    kept_at = models.DateTimeField(help_text="When it was split last: records that came later do not count.")

    class Meta:
        ordering = ["run_id", "step"]
        # also serves the steps of a run
        constraints = [models.UniqueConstraint(fields=["run", "step"], name="step_time_once")]
        # what retention removes first
        indexes = [models.Index(fields=["ended_at"], name="step_time_by_time")]

    def __str__(self) -> str:
        return f"{self.run_id} step {self.step}"
