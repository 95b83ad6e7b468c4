"""What the endpoints of open requests, sampling, GPU turns and metric series answer, described for the schema."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from telemetry_app.api import described_fields as described
from telemetry_app.api.serializers import (
    AS_OF,
    SOURCES,
    FailureItem,
    FailuresCoverage,
    ListCoverage,
    Page,
    RecordsPage,
    RunCoverage,
)
from telemetry_app.health import Health


# --- Open requests --------------------------------------------------------------------------------------------
class RequestsCoverage(ListCoverage):
    """Which sources the open requests of all runs, or the fleet, come from."""

    source = described.word(SOURCES, "Where the results came from.")  # type: ignore[assignment]
    malformed = described.count("Worker records that could not be used.")
    last_snapshot_at = described.instant("When a snapshot looked at workers last.")


class Expectation(serializers.Serializer):
    """What an op is expected to take."""

    percentile_95_seconds = described.seconds("The 95th percentile of the op's seconds.")
    records_count = described.count("Records that it is taken from.")
    basis = described.text("Whose records: of this `run`, of runs of its base `model`, or of runs `anywhere`.")
    limit_seconds = described.seconds("A request is overdue past this age.")


class RequestItem(serializers.Serializer):
    """Requests of one run and op that one worker holds unanswered."""

    run_id = described.text("The run.")
    operation = described.optional_text("The op, null where no worker lists them.")
    count = described.count("How many.")
    unshared_count = described.count("Of them those that no entry of another worker has too.")
    oldest_at = described.instant("When the oldest came.")
    oldest_age_seconds = described.seconds("Its age, on Redis's clock.")
    request_ids = described.texts("The oldest 20.")
    worker = described.optional_text("Who holds them, null where no worker lists them.")
    role = described.optional_text("That worker's role.")
    health = described.word([health.value for health in Health], "That worker's health.", allow_null=True)
    also_held_by = described.texts("Workers that hold some of them too: the API server what a trainer popped.")
    orphaned = described.switch("Whether the worker is gone: nobody will answer.")
    stuck = described.switch("Whether they are orphaned or overdue.")
    why = described.text("Why it is stuck, or not, in words.")
    expectation = Expectation(allow_null=True)


class RequestsPage(Page):
    """A page of the open requests of all runs."""

    requests_count = described.count("Requests in all entries that match, each once.")
    coverage = RequestsCoverage()
    results = RequestItem(many=True)


class RunRequests(RequestsPage):
    """A page of a run's open requests."""

    run_id = described.text("The run.")
    coverage = RunCoverage()  # type: ignore[assignment]


# --- Sampling -------------------------------------------------------------------------------------------------
class SampleTotals(serializers.Serializer):
    """Sampling over a span of time."""

    answered = described.count("Requests answered with a result.")
    failed = described.count("Requests answered with a failure.")
    answers_per_second = described.number("Results a second.")
    tokens = described.optional_count("Tokens in the results.")
    tokens_per_second = described.number("Tokens a second.")
    mean_seconds = described.seconds("From acceptance to answer, on average.")
    max_seconds = described.seconds("From acceptance to answer, at most.")
    busy_seconds = described.seconds("How long workers had a request unanswered, summed over workers.")


class SampleWindow(SampleTotals):
    """Sampling in one window."""

    started_at = described.instant("Where it begins.")
    ended_at = described.instant("Where it ends: the first instant behind it.")


class RunSamples(RecordsPage):
    """Sampling by window, and a page of failed answers."""

    run_id = described.text("The run.")
    window_seconds = described.count("How long a window is. In seconds.")
    since = described.instant("Where the first window begins.")
    until = described.instant("Where the last one ends.")
    totals = SampleTotals()
    windows = SampleWindow(many=True, help_text="Oldest first.")
    coverage = RunCoverage()
    results = FailureItem(many=True, help_text="Failed answers, newest first.")


# --- GPU turns ------------------------------------------------------------------------------------------------
class TurnsCoverage(RunCoverage):
    """The run's coverage, and that of the lists of turns."""

    malformed_turns = described.count("Elements of the lists of turns that are no usable record.")


class HoldingTurn(serializers.Serializer):
    """A turn that somebody holds now."""

    workload = described.text("The workload.")
    worker = described.optional_text("The worker.")
    started_at = described.instant("Since when.")
    run_id = described.optional_text("The run it works for.")
    operation = described.optional_text("The op that it runs.")


class TurnNow(serializers.Serializer):
    """A turn that a worker of the run holds or waits for."""

    workload = described.text("The workload.")
    worker = described.optional_text("The worker.")
    device = described.optional_text("What the worker's setting `CUDA_VISIBLE_DEVICES` says of the device.")
    requested_at = described.instant("When it asked.")
    started_at = described.instant("When it got it, null while it waits.")
    wait_seconds = described.seconds("How long it waited, up to now where it still does.")
    hold_seconds = described.seconds("How long it has held it.")
    held_by = HoldingTurn(many=True, help_text="Who holds the device while it waits.")


class TurnOperation(serializers.Serializer):
    """Ops of the run in a turn."""

    operation = described.text("The op.")
    count = described.count("How many ran as one.")
    status = described.optional_text("How it ended.")
    request_id = described.optional_text("The request.")
    started_at = described.instant("When it began.")
    ended_at = described.instant("When it finished.")
    seconds = described.number("From start to finish. In seconds.")


class WaitedFor(serializers.Serializer):
    """Whose turns overlapped the wait."""

    workload = described.text("The workload.")
    worker = described.optional_text("The worker.")
    seconds = described.number("How much of the wait. In seconds.")
    run_ids = described.texts("Runs whose ops ran meanwhile.")
    operations = described.texts("What ran meanwhile.")


class TurnTimes(serializers.Serializer):
    """One GPU turn: whose, and when."""

    id = described.text("The record.")
    workload = described.text("The workload.")
    role = described.optional_text("The worker's role.")
    worker = described.optional_text("The worker.")
    node = described.optional_text("The Kubernetes node.")
    requested_at = described.instant("When it asked.")
    started_at = described.instant("When it got it.")
    ended_at = described.instant("When it gave it back.")
    wait_seconds = described.seconds("From asking to getting.")
    hold_seconds = described.seconds("From getting to giving back.")
    switch_seconds = described.seconds("Of it waking, sleeping and syncing weights.")


class TurnItem(TurnTimes):
    """One GPU turn in which ops of the run ran."""

    device = described.optional_text("What the worker's setting `CUDA_VISIBLE_DEVICES` says of the device.")
    operations = TurnOperation(many=True, help_text="Ops of this run.")
    other_operations_count = described.count("Ops of other runs.")
    waited_for = WaitedFor(many=True, help_text="Longest first.")


class RunTurns(RecordsPage):
    """A page of a run's GPU turns."""

    run_id = described.text("The run.")
    coverage = TurnsCoverage()
    current = TurnNow(many=True, help_text="Turns that are held or waited for right now.")
    results = TurnItem(many=True, help_text="Newest first.")


class OperationOfTurn(TurnOperation):
    """Ops in a turn."""

    run_id = described.optional_text("The run they are of; null of `wake_up` and others that serve all.")


class AnyTurn(TurnTimes):
    """One GPU turn, whatever ran in it."""

    run_ids = described.texts("The runs whose ops ran in it.")
    operations = OperationOfTurn(many=True, help_text="What ran in it, in order.")


class AllTurnsCoverage(FailuresCoverage):
    """Which sources the turns of all workloads come from."""

    malformed_turns = described.count("Elements of the lists of turns that are no usable record.")


class TurnsPage(RecordsPage):
    """A page of the GPU turns of all workloads."""

    coverage = AllTurnsCoverage()
    results = AnyTurn(many=True, help_text="Newest first.")


# --- Metric series --------------------------------------------------------------------------------------------
class SeriesName(serializers.Serializer):
    """A series that there is."""

    operation = described.text("The op.")
    name = described.text("The metric.")


class MetricPoint(serializers.Serializer):
    """One point of a series: some steps."""

    step = described.count("The first step.")
    last_step = described.count("The last one.")
    count = described.count("Ops that reported a finite value.")
    min = described.number("The least value.", allow_null=False)
    min_step = described.count("The first step with it.")
    mean = described.number("The mean.", allow_null=False)
    max = described.number("The greatest value.", allow_null=False)
    max_step = described.count("The first step with it.")
    last = described.number("That of the newest step.", allow_null=False)


class NonfiniteStep(serializers.Serializer):
    """A step in which the value was not finite."""

    step = described.count("The step.")
    count = described.count("How many values.")
    kinds = described.texts("`nan`, `inf`, `-inf` or `unknown`.")


class MetricSeries(SeriesName):
    """One metric of one op by step."""

    points = MetricPoint(many=True, help_text="In the order of steps; steps without a value have none.")
    nonfinite = NonfiniteStep(many=True, help_text="The newest 1,000.")
    is_nonfinite_capped = described.switch("Whether there are more.")


@extend_schema_serializer(many=False)
class RunMetrics(serializers.Serializer):
    """Metric series of a run."""

    run_id = described.text("The run.")
    steps_completed = described.count("Successful `optim_step`s of the run.")
    to = described.optional_count("The last step looked at.")
    steps_per_point = described.optional_count("Steps in one point: a power of two.")
    available = SeriesName(many=True, help_text="The series there are, where none were named.")
    unmatched_names = described.texts("Names of which no value stands in these steps.")
    count = described.count("Series.")
    as_of = described.instant(AS_OF)
    coverage = RunCoverage()
    results = MetricSeries(many=True)

    def get_fields(self) -> dict[str, serializers.Field]:
        """Return the fields; `from` is a word of the language, so the class can't name it as an attribute."""
        return {**super().get_fields(), "from": described.optional_count("The first step looked at.")}
