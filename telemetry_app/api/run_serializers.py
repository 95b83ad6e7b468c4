"""What the endpoints of runs and of their steps answer, described for the schema."""

from __future__ import annotations

from rest_framework import serializers

from telemetry_app.api import described_fields as described
from telemetry_app.api.serializers import AS_OF, ListCoverage, Page, RunCoverage
from telemetry_app.api.worker_serializers import OutstandingWork, WorkerListItem
from telemetry_app.health import Health
from telemetry_app.models import RunState


class LedgerCounts(serializers.Serializer):
    """How many requests of the run got how far, over its life."""

    enqueued = described.count("Requests that the API server queued.")
    popped = described.count("Requests that a worker took.")
    answered = described.count("Requests that a worker answered.")
    delivered = described.count("Answers that a client has.")
    failed = described.count("Answers that say that the request failed.")


class RunLedger(LedgerCounts):
    """The counts, and when each last grew."""

    last_enqueued_at = described.instant("The newest request.")
    last_popped_at = described.instant("The newest request that was taken.")
    last_answered_at = described.instant("The newest answer.")
    last_delivered_at = described.instant("The newest delivery.")


class RunStateFields(serializers.Serializer):
    """What the run is doing."""

    run_id = described.text("The run.")
    state = described.word(RunState.values, "What it is doing or waiting for: the first state that holds.")
    state_since = described.instant("Since when, null where it is not known.")
    evidence = described.texts("The facts that say so, in words.")
    also = described.texts("The other states that hold.")
    steps_completed = described.count("Successful `optim_step`s.")


class RunListItem(RunStateFields):
    """One run of the list."""

    name = described.text("What people call it; empty where nobody gave it a name.")
    tags = described.texts("Its tags, as people gave them.")
    steps_per_hour = described.number("Steps an hour over the newest 50; null with fewer than two, or none lately.")
    ledger = LedgerCounts()
    outstanding_count = described.count("Requests enqueued and not answered.")
    failures_count = described.count("Failed ops and failed sampling answers.")
    queue_depth = described.optional_count("Commands in OpenRL's own queue of the run, null where it is empty.")
    first_seen_at = described.instant("When a snapshot saw it first.")
    last_activity_at = described.instant("Its newest activity.")
    last_snapshot_at = described.instant("When it was last taken into PostgreSQL.")


class RunsPage(Page):
    """A page of runs."""

    coverage = ListCoverage()
    results = RunListItem(many=True)


class RunRates(serializers.Serializer):
    """How fast the run goes now."""

    steps_per_hour = described.number("Steps an hour over the newest 50.")
    operations_per_second = described.number("Op records a second over the last `window_seconds`.")
    tokens_per_second = described.number("Tokens of ops a second over the last `window_seconds`.")
    window_seconds = described.number("What both are taken over. In seconds.", allow_null=False)


class OutstandingOfRun(OutstandingWork):
    """The same, with the worker."""

    worker = described.text("The worker that holds them.")
    health = described.word([health.value for health in Health], "The worker's health.")


class SampleCounts(serializers.Serializer):
    """Sampling answers over the run's life."""

    answered = described.count("Sampling requests answered with a result.")
    failed = described.count("Sampling requests answered with a failure.")


class RunDetail(RunStateFields):
    """All about one run."""

    as_of = described.instant(AS_OF)
    rates = RunRates()
    ledger = RunLedger()
    outstanding_count = described.count("Requests enqueued and not answered.")
    outstanding = OutstandingOfRun(many=True, help_text="What each worker says it holds.")
    queue_depth = described.optional_count("Commands in OpenRL's own queue of the run, null where it is empty.")
    failures_count = described.count("Failed ops and failed sampling answers.")
    samples = SampleCounts()
    first_seen_at = described.instant("When a snapshot saw it first.")
    last_activity_at = described.instant("Its newest activity.")
    workers = WorkerListItem(many=True, help_text="Workers that name the run.")
    coverage = RunCoverage()


# --- Steps ----------------------------------------------------------------------------------------------------
class MetricSpread(serializers.Serializer):
    """One metric over the ops of a step; without a finite value only a `count` of 0."""

    count = described.count("Finite values.")
    min = described.number("The least.", required=False)
    mean = described.number("Their mean.", required=False)
    max = described.number("The greatest.", required=False)
    last = described.number("The newest by finish time.", required=False)


class StepOperation(serializers.Serializer):
    """The ops of one name in a step, folded. With `fields` only what it names is there."""

    count = described.count("Op records.", required=False)
    failures = described.count("Of them failed.", required=False)
    seconds = described.number("Their time in sum; ops that ran as one count once. In seconds.", required=False)
    queue_seconds = described.number("Their wait in the queue in sum. In seconds.", required=False)
    metrics = serializers.DictField(child=MetricSpread(), help_text="By the metric's name.", required=False)
    nonfinite = serializers.DictField(
        child=serializers.IntegerField(), help_text="By the metric's name: values NaN or infinite.", required=False
    )


class Step(serializers.Serializer):
    """One step: its ops up to its successful `optim_step`. With `fields` only what it names is there."""

    step = described.count("Its number, from 0.")
    completed = serializers.BooleanField(help_text="Whether its `optim_step` succeeded.", required=False)
    started_at = described.instant("The start of its first op.", required=False)
    finished_at = described.instant("The end of its last op, null while it is open.", required=False)
    wall_seconds = described.number(
        "From the end of the step before to the end of its last op; null where that is not at hand. In seconds.",
        required=False,
    )
    failures = described.count("Failed ops.", required=False)
    operations = serializers.DictField(child=StepOperation(), help_text="By the op's name.", required=False)


class RunSteps(serializers.Serializer):
    """Steps of a run, newest last."""

    run_id = described.text("The run.")
    steps_completed = described.count("Successful `optim_step`s of the run.")
    count = described.count("Steps in this answer.")
    next_before = described.optional_count("Send it as `before` for older steps; null where there are none.")
    as_of = described.instant(AS_OF)
    coverage = RunCoverage()
    results = Step(many=True)
