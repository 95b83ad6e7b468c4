"""When an incident begins, goes on, ends and comes back. Pure: what holds now and what is known in, changes out.

The rule against flapping: what no longer holds ends once it was not seen for 15 s, and what comes back within five
minutes of its end is the same incident, reopened. Instants are unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from telemetry_app.expectations import limit_seconds
from telemetry_app.findings import Code, findings_of
from telemetry_app.rates import percentile_95
from telemetry_app.run_facts import RunFacts, of_newest_records
from telemetry_app.run_state import Condition, Evidence, RunVerdict

CLOSE_SECONDS = 15.0  # not seen for so long: it ended when it was seen last
REOPEN_SECONDS = 300.0  # coming back so soon it is the same one
TROUBLES = ("lost", "stuck", "failing", "diverging")
WAITS = ("waiting_for_gpu", "queued")  # part of the day's work: incidents once they last
AT_REST = ("idle", "finished")
OF_SILENCE = ("lost", "stuck", "answered_not_delivered", "enqueued_beside_idle_worker")  # told from what is not heard


@dataclass(frozen=True, slots=True)
class Held:
    """Something wrong that holds now, since when, and the facts that say so."""

    code: str
    since: float
    evidence: tuple[Evidence, ...]

    @property
    def cause(self) -> str:
        """The facts in words."""
        return "; ".join(fact.text for fact in self.evidence)


@dataclass(frozen=True, slots=True)
class Known:
    """The newest incident of one code, as it is stored."""

    incident_id: int
    last_held_at: float
    ended_at: float | None


class ChangeKind(StrEnum):
    OPENED = "opened"
    REOPENED = "reopened"
    HELD = "held"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one incident; `held` is None where it ends, `incident_id` where it is new."""

    kind: ChangeKind
    code: str
    incident_id: int | None
    held: Held | None


def troubles_of(facts: RunFacts, state: RunVerdict) -> list[Held]:
    """Return what is wrong with a run now, each code once: troubled states, waits that last, and findings.

    A wait is part of what is lost or stuck where that holds too. A run at rest has no findings but answers that nobody
    fetched: its newest records are history.
    """
    facts = of_newest_records(facts)
    worse = {condition.state for condition in state.conditions} & {"lost", "stuck"}
    found = {
        condition.state: _held(condition, facts)
        for condition in state.conditions
        if _is_trouble(condition, facts) and not (worse and condition.state in WAITS)
    }
    for finding in findings_of(facts):
        if state.state not in AT_REST or finding.code is Code.ANSWERED_NOT_DELIVERED:
            found[finding.code.value] = Held(finding.code.value, min(finding.since, facts.now), (finding.evidence,))
    return list(found.values())


def changes(known: Mapping[str, Known], held: Iterable[Held], *, now: float) -> Iterator[Change]:
    """Yield what becomes of a run's incidents. `known` has the newest incident of each code."""
    by_code = {each.code: each for each in held}
    for code, each in by_code.items():
        before = known.get(code)
        if before is None or (before.ended_at is not None and before.ended_at < now - REOPEN_SECONDS):
            yield Change(ChangeKind.OPENED, code, None, each)
        elif before.ended_at is not None:
            yield Change(ChangeKind.REOPENED, code, before.incident_id, each)
        else:
            yield Change(ChangeKind.HELD, code, before.incident_id, each)
    for code, before in known.items():
        if code not in by_code and before.ended_at is None and now - before.last_held_at >= CLOSE_SECONDS:
            yield Change(ChangeKind.CLOSED, code, before.incident_id, None)


def _is_trouble(condition: Condition, facts: RunFacts) -> bool:
    if condition.state in TROUBLES:
        return True
    if condition.state not in WAITS or condition.since is None:
        return False
    is_moving = all(link.condition is None for link in condition.chain)
    return facts.now - condition.since > _wait_limit(condition.state, facts) or not is_moving


def _wait_limit(state: str, facts: RunFacts) -> float:
    """Return how long a wait may last: five times what is usual for the run, a minute at least."""
    if state == "queued":
        return limit_seconds(percentile_95([r.queue_seconds for r in facts.operations if r.queue_seconds is not None]))
    means = []
    for worker in facts.workers:
        count, seconds = worker.record.turns.get("count"), worker.record.turns.get("wait_seconds")
        if facts.run_id in worker.record.runs and isinstance(count, (int, float)) and isinstance(seconds, (int, float)):
            means.append(seconds / max(1, count))
    return limit_seconds(max(means, default=None))


def _held(condition: Condition, facts: RunFacts) -> Held:
    since = facts.now if condition.since is None else min(condition.since, facts.now)
    return Held(condition.state, since, condition.evidence)
