"""What each endpoint answers, described for the schema: names, types, units."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from telemetry_app.api import described_fields as described
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
    wrong_clock_records = described.count(
        "Records in Redis of clocks that can't be right and that no snapshot took: they read as received just now."
    )
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
