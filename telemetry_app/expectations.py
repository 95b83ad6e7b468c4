"""What an op is expected to take, and from what that is known. Pure.

Learned from the run's own records, else from those of all runs; never a fixed time-out but the floor of a minute.
"""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_app.rates import percentile_95
from telemetry_app.run_facts import RunFacts
from workers_client import wire

STUCK_FLOOR_SECONDS = 60.0  # no request is overdue before
STUCK_FACTOR = 5.0  # times the 95th percentile of the op's seconds
EXPECTATION_RECORDS = 20  # fewer of an op in this run: the op's seconds anywhere count


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an op is expected to take: the 95th percentile of so many records, of this `run` or of runs `anywhere`.

    An open request of it is overdue when it is older than `limit_seconds`.
    """

    percentile_95_seconds: float | None
    records_count: int
    basis: str
    limit_seconds: float


def expectation(operation: str, facts: RunFacts) -> Expectation:
    """Return what this op is expected to take, and from what that is known."""
    own = _own_seconds(operation, facts)
    seconds, count, basis = percentile_95(own), len(own), "run"
    slowest = seconds
    learned = facts.learned.get(operation)
    if learned is not None and learned.records_count >= count:
        seconds, count, slowest = learned.percentile_95_seconds, learned.records_count, learned.limit_percentile_seconds
    if count < EXPECTATION_RECORDS and facts.expected_seconds.get(operation):
        seconds = slowest = facts.expected_seconds[operation]
        count, basis = facts.expected_from.get(operation, 0), "anywhere"
    return Expectation(seconds, count, basis, limit_seconds(slowest))


def overdue_seconds(operation: str, facts: RunFacts) -> float:
    """Return the age at which an open request of this op is overdue: max(60 s, 5 × the 95th percentile)."""
    return expectation(operation, facts).limit_seconds


def limit_seconds(percentile_95_seconds: float | None) -> float:
    """Return the age at which something is overdue that takes so long at the 95th percentile."""
    return max(STUCK_FLOOR_SECONDS, STUCK_FACTOR * (percentile_95_seconds or 0.0))


def _own_seconds(operation: str, facts: RunFacts) -> list[float]:
    if operation == wire.SAMPLE and facts.sample_seconds:
        return list(facts.sample_seconds)
    return [r.elapsed_seconds for r in facts.operations if r.operation == operation and r.elapsed_seconds is not None]
