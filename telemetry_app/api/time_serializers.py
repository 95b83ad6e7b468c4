"""What the endpoints of the step clock answer, described for the schema."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from telemetry_app.api import described_fields as described
from telemetry_app.api.serializers import AS_OF, RunCoverage


class TimeParts(serializers.Serializer):
    """Where wall time went. Each instant is in the first part that is true of it; they add up to the wall time."""

    training = described.number(
        "Seconds in which a `forward_backward`, `forward` or `optim_step` ran.", allow_null=False
    )
    saving = described.number("Seconds in which an op ran that makes, saves or loads state.", allow_null=False)
    gpu_switch = described.number("Seconds in which the run's worker woke, slept or synced weights.", allow_null=False)
    gpu_wait = described.number(
        "Seconds in which a worker that held the run's work waited for the GPU.", allow_null=False
    )
    queue = described.number(
        "Seconds in which an op was enqueued and not started, and a worker lived.", allow_null=False
    )
    sampling = described.number("Seconds in which a sampling request was open.", allow_null=False)
    client = described.number("Seconds in which all that was asked for was answered.", allow_null=False)
    no_worker = described.number(
        "Seconds in which something was open, and no worker lived that serves it.", allow_null=False
    )
    untracked = described.number("Seconds of which records tell nothing.", allow_null=False)


class GpuHolder(serializers.Serializer):
    """Who had the GPU while the run waited; all three names are null of the time that nobody did."""

    workload = described.optional_text("The workload that held it.")
    run_id = described.optional_text("The run it worked for, null where it named none or several.")
    operation = described.optional_text("What it ran, null between ops.")
    seconds = described.number("How long. In seconds.", allow_null=False)


class StepTimeItem(serializers.Serializer):
    """One step. All but its number is null where the end of the step before it is not at hand."""

    step = described.count("Its number, from 0.")
    completed = described.switch("Whether its `optim_step` succeeded.")
    started_at = described.instant("The end of the step before; of the first its first enqueue.")
    finished_at = described.instant("The end of its last op, null while it is open.")
    wall_seconds = described.seconds("From the one to the other; of an open step as far as is known.")
    parts = TimeParts(allow_null=True, help_text="They add up to `wall_seconds`.")
    gpu_wait_by = GpuHolder(many=True, help_text="They add up to the part `gpu_wait`, longest first.")
    overlap_seconds = described.seconds("How long more than one turn held the GPU that the run used.")
    clock_offset_seconds = described.seconds(
        "The most by which the clock of one of its workers was off, where that is more than a second; corrected."
    )


@extend_schema_serializer(many=False)
class RunTime(serializers.Serializer):
    """Where the time of a run's steps went, newest last."""

    run_id = described.text("The run.")
    steps_completed = described.count("Successful `optim_step`s of the run.")
    count = described.count("Steps in this answer.")
    next_before = described.optional_count("Send it as `before` for older steps; null where there are none.")
    as_of = described.instant(AS_OF)
    coverage = RunCoverage()
    results = StepTimeItem(many=True)
