"""What the endpoints of the step clock answer, described for the schema."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from telemetry_app.api import described_fields as described
from telemetry_app.api.serializers import AS_OF, SOURCES, Page, RunCoverage
from telemetry_app.device_share import ACTIVITIES
from telemetry_app.step_clock import PARTS


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
        "The most by which a clock was off that its ops, samples, turns or the turns it waited for were told by, where "
        "that is more than a second; corrected."
    )


class TimeTotals(serializers.Serializer):
    """The sum over the steps of the answer."""

    steps_count = described.count("Steps whose time is known.")
    wall_seconds = described.seconds("Their wall time.")
    parts = TimeParts(help_text="They add up to it.")
    gpu_wait_by = GpuHolder(many=True, help_text="They add up to the part `gpu_wait`, longest first.")


class TimeDifference(serializers.Serializer):
    """By how much something took longer, and why."""

    longer_seconds = described.seconds("How much longer; negative where it took less.")
    part = described.word(PARTS, "The part that makes most of it, null where there is no difference.", allow_null=True)
    longer_parts = TimeParts(help_text="By part; negative where one shrank.")
    text = described.text("The same in words, with who held the GPU.")


class SlowStep(TimeDifference):
    """A step that took longer than is usual (the median) among the steps of the answer."""

    step = described.count("Its number.")
    wall_seconds = described.seconds("Its wall time.")


class TimeComparison(TimeDifference):
    """The mean step of one range against that of another."""

    run_id = described.text("The run that was compared with.")
    first_step = described.count("The first step that was compared with.")
    last_step = described.count("The last one.")
    steps_count = described.count("How many.")
    compared_first_step = described.count("The first step of this answer that was compared.")
    compared_last_step = described.count("The last one.")
    compared_steps_count = described.count("How many.")


class TimeCoverage(RunCoverage):
    """What an answer about where the time of steps went could not see."""

    told_since = described.instant(
        "Before this instant ops, samples or waits may be missing: there are more than are looked at. Null: all were."
    )


@extend_schema_serializer(many=False)
class RunTime(serializers.Serializer):
    """Where the time of a run's steps went, newest last."""

    run_id = described.text("The run.")
    steps_completed = described.count("Successful `optim_step`s of the run.")
    count = described.count("Steps in this answer.")
    next_before = described.optional_count("Send it as `before` for older steps; null where there are none.")
    as_of = described.instant(AS_OF)
    coverage = TimeCoverage()
    totals = TimeTotals()
    slowest = SlowStep(many=True, help_text="At most 5, the slowest first.")
    comparison = TimeComparison(
        allow_null=True, help_text="With what `against` names; without it the newer half of the steps with the older."
    )
    results = StepTimeItem(many=True)


# --- Devices --------------------------------------------------------------------------------------------------
class DevicesCoverage(serializers.Serializer):
    """Which sources the turns of devices come from."""

    live = described.switch("Whether Redis could be read.")
    history = described.switch("Whether PostgreSQL could be read.")
    source = described.word(SOURCES, "Where the turns came from.")  # type: ignore[assignment]
    malformed_turns = described.count("Elements of the lists of turns that are no usable record.")
    is_span_shortened = described.switch("Whether `since` is later than asked: more turns than are looked at.")


class DeviceSpan(Page):
    """A page over a span of time."""

    since = described.instant("Where the span begins.")
    until = described.instant("Where it ends: the first instant behind it.")
    coverage = DevicesCoverage()


class DeviceItem(serializers.Serializer):
    """One device over the span: the four times add up to it."""

    device = described.text("The node, or `unnamed` for turns that name none.")
    turns_count = described.count("Turns that held it or waited for it.")
    last_turn_at = described.instant("When the newest of them ended.")
    workloads = described.texts("Whose turns they were.")
    computing_seconds = described.seconds("How long ops of runs ran.")
    switching_seconds = described.seconds("How long it woke, slept or synced weights.")
    idle_while_waited_seconds = described.seconds("How long nothing ran though somebody waited for it.")
    idle_seconds = described.seconds("The rest.")
    overlap_seconds = described.seconds("How long more than one turn held it. No part of the sum.")


class DevicesPage(DeviceSpan):
    """A page of devices."""

    results = DeviceItem(many=True, help_text="By name.")


class DeviceTimeRow(serializers.Serializer):
    """How long a device was in one state. The rows of one span add up to it."""

    since = described.instant("Where the row's span begins: the whole, or a day.")
    until = described.instant("Where it ends.")
    activity = described.word(ACTIVITIES, "What the device did.")
    run_id = described.optional_text("The run it computed for; null of other states and of ops that name none.")
    seconds = described.number("How long; runs that compute at once share the time. In seconds.", allow_null=False)
    share = described.number("Of the row's span, from 0 to 1.", allow_null=False)
    neighbours_waited_seconds = described.seconds("How long others waited while turns for this run held the device.")


class DeviceTimePage(DeviceSpan):
    """A page of one device's time."""

    device = described.text("The device.")
    results = DeviceTimeRow(many=True, help_text="Oldest span first; within it runs by time, then the other states.")
