"""What the endpoints of workers and of retention answer, described for the schema."""

from __future__ import annotations

from rest_framework import serializers

from telemetry_app.api import described_fields as described
from telemetry_app.api.serializers import AS_OF, EventsCoverage, Page, WorkersCoverage
from telemetry_app.health import Health
from telemetry_app.models import WorkerEvent


# --- Workers --------------------------------------------------------------------------------------------------
class OutstandingWork(serializers.Serializer):
    """Requests of one run and op that a worker holds unanswered."""

    run_id = described.text("The run.")
    operation = described.text("The op.")
    count = described.count("How many it holds.")
    oldest_at = described.instant("When the oldest came.")
    request_ids = described.texts("The oldest 20.")


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

    kind = described.text("`operations`, `samples`, `turns`, `steps`, `worker_events`, `incidents` or `runs`.")
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
