"""What the endpoints of verdicts and incidents answer, described for the schema."""

from __future__ import annotations

from rest_framework import serializers

from telemetry_app.api import described_fields as described
from telemetry_app.api.serializers import AS_OF, SOURCES, RecordsPage, RunCoverage
from telemetry_app.api.work_serializers import Expectation
from telemetry_app.findings import Code
from telemetry_app.health import Health
from telemetry_app.models import IncidentCode, RunState


class Fact(serializers.Serializer):
    """One fact, with what it speaks of."""

    text = described.text("The fact in words, with its numbers.")
    record_ids = described.texts("Ids of the records that show it.")
    request_ids = described.texts("Ids of the requests that it is about, 20 at most.")
    worker = described.optional_text("The worker that it is about.")
    operation = described.optional_text("The op that it is about.")


class ExpectationOfOp(Expectation):
    """What the op that the verdict is about is expected to take."""

    operation = described.text("The op.")


class ChainLink(serializers.Serializer):
    """One worker that is waited for."""

    relation = described.text(
        "`holds_gpu`, `may_hold_gpu` (no worker says so, and this one fell silent), `works_on_others` (it serves other "
        "requests first) or `waits_for_worker`."
    )
    worker = described.text("The worker.")
    health = described.word([health.value for health in Health], "Its health.")
    workload = described.optional_text("The workload of its GPU turn.")
    run_id = described.optional_text("The run that it works for, where that is known.")
    operation = described.optional_text("The op that it runs.")
    request_id = described.optional_text("The request of that op.")
    since = described.instant("Since when it holds the GPU, or runs that op.")
    condition = described.optional_text("`stuck`, `lost`, `cycle`, or null where it moves.")
    text = described.text("The same in words.")


class OtherState(serializers.Serializer):
    """A state that holds too."""

    state = described.word(RunState.values, "The state.")
    since = described.instant("Since when, null where it is not known.")
    evidence = Fact(many=True)


class FindingFields(serializers.Serializer):
    """Something wrong beside the state."""

    code = described.word([code.value for code in Code], "What it is.")
    since = described.instant("Since when.")
    count = described.count("How many ops or requests show it.")
    evidence = Fact()


class RunVerdictAnswer(serializers.Serializer):
    """The verdict on a run."""

    run_id = described.text("The run.")
    as_of = described.instant(AS_OF)
    state = described.word(RunState.values, "What it is doing or waiting for: the first state that holds.")
    since = described.instant("Since when, null where it is not known.")
    for_seconds = described.seconds("How long it has held.")
    evidence = Fact(many=True, help_text="The facts that say so.")
    expectation = ExpectationOfOp(allow_null=True)
    counter_evidence = Fact(many=True, help_text="The facts that speak against it.")
    chain = ChainLink(many=True, help_text="Whom it waits for, and whom that one waits for, across runs; 8 at most.")
    also = OtherState(many=True, help_text="The other states that hold, by precedence.")
    findings = FindingFields(many=True, help_text="What is wrong beside the state, one of a kind.")
    next = described.texts("What a person or an agent can safely do, the safest first.")
    clock_offset_seconds = described.seconds(
        "The most by which the clock of one of its workers is off, where that is more than a second; corrected."
    )
    coverage = RunCoverage()


# --- Incidents ------------------------------------------------------------------------------------------------
class IncidentItem(serializers.Serializer):
    """One thing that went wrong with a run."""

    id = described.count("The incident.")
    run_id = described.text("The run.")
    code = described.word(IncidentCode.values, "The state or finding that it is.")
    is_open = described.switch("Whether it goes on.")
    started_at = described.instant("Since when it held.", allow_null=False)
    last_held_at = described.instant("When a pass saw it last.", allow_null=False)
    ended_at = described.instant("When it ended, null while it is open.")
    for_seconds = described.number("How long it lasted, or has lasted so far. In seconds.", allow_null=False)
    reopened_count = described.count("How often it came back within five minutes of its end.")
    cause = described.text("The facts in words, as they were when it was opened or reopened.")
    evidence = Fact(many=True, help_text="The same facts with their ids, 5 at most.")


class IncidentsCoverage(serializers.Serializer):
    """What the incidents of all runs were told from."""

    source = described.word(SOURCES, "Where the results came from.")  # type: ignore[assignment]
    history = described.switch("Whether PostgreSQL could be read.")
    last_pass_at = described.instant("When the active runs were judged last.")


class RunIncidentsCoverage(RunCoverage):
    """The run's coverage, and when it was judged."""

    last_pass_at = described.instant("When the active runs were judged last.")


class IncidentsPage(RecordsPage):
    """A page of the incidents of all runs."""

    coverage = IncidentsCoverage()
    results = IncidentItem(many=True)


class RunIncidents(RecordsPage):
    """A page of a run's incidents."""

    run_id = described.text("The run.")
    coverage = RunIncidentsCoverage()
    results = IncidentItem(many=True)
