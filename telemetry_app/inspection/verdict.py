"""The verdict on one run, from both sources: what it is doing or waiting for, and how one knows."""

from __future__ import annotations

import dataclasses
from typing import Any

from telemetry_app.findings import Finding
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.known_runs import FleetWorkers, facts_of_run
from telemetry_app.inspection.sources import RunSources, run_sources
from telemetry_app.instants import rfc3339, to_unix
from telemetry_app.one_clock import clock_offset
from telemetry_app.run_facts import RunFacts
from telemetry_app.run_state import Condition, Evidence
from telemetry_app.verdict import Verdict, verdict_of


def run_verdict(run_id: str, *, now: float) -> dict[str, Any]:
    """Return the verdict on a run.

    Raises:
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    sources = run_sources(run_id)
    return verdict_fields(sources, *facts_of_run(sources, now=now))


def verdict_fields(
    sources: RunSources, facts: RunFacts, fleet: FleetWorkers, coverage: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the verdict from what is read already, `coverage` too where it is given."""
    coverage = coverage or run_coverage(
        sources,
        fleet.live_records,
        source=source_word(
            live=sources.live is not None and sources.live.exists,
            stored=sources.row is not None or bool(fleet.stored_ids),
        ),
    )
    return _answer(sources, verdict_of(facts), facts, coverage)


# --- The answer -----------------------------------------------------------------------------------------------
def _answer(sources: RunSources, verdict: Verdict, facts: RunFacts, coverage: dict[str, Any]) -> dict[str, Any]:
    state = verdict.state
    since = state.since
    if since is None and sources.row is not None and sources.row.state == state.state:
        since = to_unix(sources.row.state_since)
    return {
        "run_id": sources.run_id,
        "as_of": rfc3339(facts.now),
        "state": state.state,
        "since": rfc3339(since),
        "for_seconds": None if since is None else max(0.0, facts.now - since),
        "evidence": [_fact(fact) for fact in state.conditions[0].evidence],
        "expectation": None
        if verdict.expected is None
        else {"operation": verdict.operation, **dataclasses.asdict(verdict.expected)},
        "counter_evidence": [_fact(fact) for fact in verdict.counter_evidence],
        "chain": [{**dataclasses.asdict(link), "since": rfc3339(link.since)} for link in verdict.chain],
        "also": [_condition(condition) for condition in state.conditions[1:]],
        "findings": [_finding(finding) for finding in verdict.findings],
        "next": list(verdict.next_steps),
        "clock_offset_seconds": clock_offset(facts),
        "coverage": coverage,
    }


def _fact(fact: Evidence) -> dict[str, Any]:
    return {
        "text": fact.text,
        "record_ids": list(fact.record_ids),
        "request_ids": list(fact.request_ids),
        "worker": fact.worker,
        "operation": fact.operation,
    }


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "state": condition.state,
        "since": rfc3339(condition.since),
        "evidence": [_fact(fact) for fact in condition.evidence],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code.value,
        "since": rfc3339(finding.since),
        "count": finding.count,
        "evidence": _fact(finding.evidence),
    }
