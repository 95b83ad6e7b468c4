"""What each endpoint answers, described for the schema: names, types, units."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from telemetry_app.api import described_fields as described
from telemetry_app.health import Health
from telemetry_app.models import RunState, WorkerEvent
from workers_client import wire

AS_OF = "The instant the answer speaks of: now while Redis answers, else the newest snapshot."
SOURCES = ("live", "history", "both")


# --- Errors ---------------------------------------------------------------------------------------------------
class ErrorEntry(serializers.Serializer):
    """One thing that is wrong."""

    code = described.text("A word for programs, as `invalid` or `not_found`.")
    detail = described.text("A sentence for people, with the value and the rule it breaks.")
    attr = described.optional_text("The parameter that is wrong, null where it is none.")


class ErrorAnswer(serializers.Serializer):
    """The one shape of every error."""

    type = described.word(("validation_error", "client_error", "server_error"), "Whose error it is.")
    errors = ErrorEntry(many=True)  # type: ignore[assignment]


# --- Coverage: what an answer could not see -------------------------------------------------------------------
class ListCoverage(serializers.Serializer):
    """Which sources a list over all runs or workers could read."""

    live = described.switch("Whether Redis could be read.")
    history = described.switch("Whether PostgreSQL could be read.")


class FailuresCoverage(ListCoverage):
    """Which sources the failures of all runs come from."""

    source = described.word(SOURCES, "Where the results came from.")  # type: ignore[assignment]
    last_snapshot_at = described.instant("When records were last taken into PostgreSQL.")


class WorkersCoverage(ListCoverage):
    """Which sources the workers come from."""

    malformed = described.count("Worker records that could not be used.")


class EventsCoverage(serializers.Serializer):
    """Events are in history alone."""

    source = described.word(("history",), "Where the results came from.")  # type: ignore[assignment]
    history = described.switch("Whether PostgreSQL could be read.")
    last_snapshot_at = described.instant("When a snapshot looked at workers last.")


class RunGap(serializers.Serializer):
    """Where records of a run went missing."""

    list = described.text("The Redis list that they were in.")
    after_at = described.instant("The newest record before the gap.")
    before_at = described.instant("The oldest record behind it.")
    records_count = described.optional_count("Records that are missing, null where nobody counts them.")
    found_at = described.instant("When a snapshot found it.")


class RunCoverage(serializers.Serializer):
    """What an answer about one run could not see."""

    complete = described.switch("Both sources were read, and nothing is missing, malformed or dropped.")
    missing_records = described.count("Records that workers say they made and no store holds.")
    gaps = RunGap(many=True, help_text="Where they went missing, the newest 10.")
    conflicts = described.count("Records that came again under a known id with other content; the first stays.")
    dropped = described.mapping(serializers.IntegerField(), "Records that the run's workers dropped, by kind.")
    malformed = described.count("Elements of the run's lists that are no usable record.")
    redelivered = described.count("Records of flushes that were sent again; they were written once.")
    source = described.word(SOURCES, "Where the results came from.")  # type: ignore[assignment]
    live = described.switch("Whether Redis could be read.")
    history = described.switch("Whether PostgreSQL could be read.")
    last_ingest_at = described.instant("The run's newest activity in Redis.")
    last_snapshot_at = described.instant("When the run was last taken into PostgreSQL.")
    snapshot_lag_seconds = described.seconds("How long the oldest record of that snapshot had waited in Redis.")
    snapshot_lag_records = described.optional_count("How many records that snapshot took.")
    last_retention_at = described.instant("When op records past their days were last removed.")


# --- Lists ----------------------------------------------------------------------------------------------------
@extend_schema_serializer(many=False)
class Page(serializers.Serializer):
    """What every page of a list has."""

    count = described.count("Results on this page.")
    total_matching = described.count("Results on all pages.")
    next = described.optional_text("Send it as `cursor` for the next page; null on the last one.")
    as_of = described.instant(AS_OF)


class RecordsPage(Page):
    """What every page of records has."""

    is_total_capped = described.switch("Whether more match than `total_matching`, which counts up to 10,000.")


# --- Runs -----------------------------------------------------------------------------------------------------
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


class OutstandingWork(serializers.Serializer):
    """Requests of one run and op that a worker holds unanswered."""

    run_id = described.text("The run.")
    operation = described.text("The op.")
    count = described.count("How many it holds.")
    oldest_at = described.instant("When the oldest came.")
    request_ids = described.texts("The oldest 20.")


class OutstandingOfRun(OutstandingWork):
    """The same, with the worker."""

    worker = described.text("The worker that holds them.")
    health = described.word([health.value for health in Health], "The worker's health.")


class SampleCounts(serializers.Serializer):
    """Sampling answers over the run's life."""

    answered = described.count("Sampling requests answered with a result.")
    failed = described.count("Sampling requests answered with a failure.")


# --- Workers --------------------------------------------------------------------------------------------------
class CurrentOp(serializers.Serializer):
    """The op that a worker runs now."""

    operation = described.text("The op.")
    run_id = described.optional_text("Its run.")
    request_id = described.optional_text("Its request.")
    started_at = described.instant("When it began.")


class CurrentTurn(serializers.Serializer):
    """The GPU turn that a worker holds, or waits for."""

    workload = described.text("The workload.")
    requested_at = described.instant("When it asked.")
    started_at = described.instant("When it got it, null while it waits.")


class WorkerListItem(serializers.Serializer):
    """One worker process."""

    worker = described.text("Its id.")
    role = described.text("`api_server`, `trainer`, `sampler` or `dispatcher`.")
    health = described.word([health.value for health in Health], "Told from its heartbeats.")
    phase = described.optional_text("What it said last that it does, as `running`.")
    phase_since = described.instant("Since when.")
    last_heartbeat_at = described.instant("Its newest heartbeat.")
    last_progress_at = described.instant("When it last finished an op or answered a request.")
    interval_seconds = described.seconds("How often it sends a heartbeat.")
    current = CurrentOp(allow_null=True)
    turn = CurrentTurn(allow_null=True)
    outstanding_count = described.count("Requests that it holds unanswered.")
    outstanding = OutstandingWork(many=True)
    runs = described.texts("Runs that its newest record names.")
    pod = described.optional_text("The Kubernetes pod.")
    node = described.optional_text("The Kubernetes node.")
    host = described.optional_text("The host.")
    pid = described.optional_count("The process id.")
    started_at = described.instant("When the process began.")
    exited_at = described.instant("When it said that it ends.")
    exit_reason = described.optional_text("Why.")


class WorkerDetail(WorkerListItem):
    """One worker with its settings, versions, buffer and GPU turns."""

    as_of = described.instant(AS_OF)
    parent = described.optional_text("The worker whose child it is.")  # type: ignore[assignment]
    pod_uid = described.optional_text("The pod's uid, which no other pod of that name has.")
    clock_offset_seconds = described.seconds("Its clock less Redis's.")
    settings = described.anything("Settings it was started with, by name; secrets are left out.")
    versions = described.anything("Versions of what it runs, by name.")
    buffer = described.anything("What its recorder holds, sent and dropped, as counts.")
    turns = described.anything("Its GPU turns and waits, as counts and seconds.")


class WorkersPage(Page):
    """A page of workers."""

    coverage = WorkersCoverage()
    results = WorkerListItem(many=True)


class WorkerEventItem(serializers.Serializer):
    """One change in a worker's life."""

    event = described.word(WorkerEvent.Event.values, "What happened.")
    at = described.instant("When, on Redis's clock; of `late` and `lost`: when it was due.")
    detail = described.optional_text("What it held when it was lost, or why it exited.")


class WorkerEventsPage(Page):
    """A page of a worker's events."""

    worker = described.text("The worker.")
    coverage = EventsCoverage()
    results = WorkerEventItem(many=True)


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


# --- Records --------------------------------------------------------------------------------------------------
class OperationItem(serializers.Serializer):
    """One op record."""

    id = described.text("The record.")
    run_id = described.text("Its run.")
    step = described.count("Its step stamp: the `optim_step`s that had succeeded when it ran.")
    operation = described.text("The op, as `forward_backward`.")
    status = described.word([status.value for status in wire.Status], "How it ended.")
    request_id = described.optional_text("The request it answers.")
    worker = described.optional_text("Who ran it; the pod, in records that OpenRL wrote itself.")
    role = described.optional_text("That worker's role.")
    error_type = described.optional_text("The error's type; its message is never recorded.")
    error_category = described.optional_text("Whose error it is, as `server`.")
    enqueued_at = described.instant("When the request was queued.")
    queue_seconds = described.seconds("From then to its start.")
    started_at = described.instant("When it began.")
    at = described.instant("When it finished.")
    elapsed_seconds = described.seconds("From its start to its finish.")
    metrics = described.mapping(serializers.FloatField(), "Finite values by the metric's name.")
    nonfinite = described.mapping(serializers.CharField(), "`nan`, `inf` or `-inf` by the metric's name.")
    tokens = described.optional_count("Tokens in its data.")
    datums = described.optional_count("Datums in its data.")
    batch = described.optional_text("Ops with the same one ran as one computation.")
    trace_id = described.optional_text("OpenTelemetry's trace.")
    span_id = described.optional_text("OpenTelemetry's span.")


class FailureItem(serializers.Serializer):
    """One failed op, or one failed sampling answer."""

    kind = described.word(("operation", "sample"), "Which of the two.")
    source = described.optional_text("Of a sampling answer: who gave it up, as `deadline`.")  # type: ignore[assignment]
    id = described.text("The record.")
    run_id = described.text("Its run.")
    step = described.optional_count("Its step stamp, null for sampling.")
    operation = described.text("The op; `sample` for sampling.")
    request_id = described.optional_text("The request it answers.")
    worker = described.optional_text("Who answered.")
    error_type = described.optional_text("The error's type; its message is never recorded.")
    error_category = described.optional_text("Whose error it is, as `server`.")
    enqueued_at = described.instant("When the request was queued or accepted.")
    queue_seconds = described.seconds("From then to its start.")
    started_at = described.instant("When it began.")
    at = described.instant("When it finished.")
    elapsed_seconds = described.seconds("From its start, or its acceptance, to its finish.")


class RunOperations(RecordsPage):
    """A page of a run's op records."""

    run_id = described.text("The run.")
    coverage = RunCoverage()
    results = OperationItem(many=True)


class RunFailures(RecordsPage):
    """A page of a run's failures."""

    run_id = described.text("The run.")
    coverage = RunCoverage()
    results = FailureItem(many=True)


class FailuresPage(RecordsPage):
    """A page of the failures of all runs."""

    coverage = FailuresCoverage()
    results = FailureItem(many=True)


# --- Retention and health -------------------------------------------------------------------------------------
class RetentionExecution(serializers.Serializer):
    """One application of a policy."""

    started_at = described.instant("When it began.")
    finished_at = described.instant("When it ended, null while it runs.")
    cutoff_at = described.instant("What was older went.")
    rows_removed = described.optional_count("Rows that went.")
    bytes_removed = described.optional_count("Bytes of tables and indexes that went.")
    error = described.optional_text("Why it ended early, null where it did not.")


class RetentionPolicyItem(serializers.Serializer):
    """How long rows of one kind are kept."""

    kind = described.text("`operations`, `samples`, `turns`, `steps`, `worker_events` or `runs`.")
    days_to_keep = described.optional_count("Whole days (UTC); null is for ever.")
    cutoff_at = described.instant("The first instant that is kept right now.")
    oldest_at = described.instant("The oldest row there is.")
    expired_rows = described.optional_count("Rows that the next retention would remove, estimated.")
    expired_bytes = described.optional_count("Their bytes, estimated.")
    newest_execution = RetentionExecution(allow_null=True)


class RetentionAnswer(serializers.Serializer):
    """The policies, in the order in which they are applied."""

    count = described.count("Policies.")
    as_of = described.instant("Now.")
    results = RetentionPolicyItem(many=True)
