"""What an op is expected to take, and from what that is known. Pure.

Learned from the run's own records, else from those of runs of the same base model, else from those of all runs; never a
fixed time-out but the floor of a minute.
"""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_app.plain_words import exact_span_words
from telemetry_app.rates import percentile_95
from telemetry_app.run_facts import RunFacts
from workers_client import wire

STUCK_FLOOR_SECONDS = 60.0  # no request is overdue before
STUCK_FACTOR = 5.0  # times the 95th percentile of the op's seconds
EXPECTATION_RECORDS = 20  # fewer of an op in this run: the op's seconds anywhere count


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an op is expected to take: the 95th percentile of so many records, of this `run`, of runs of its base
    `model` or of runs `anywhere`.

    An open request of it is overdue when it is older than `limit_seconds`.
    """

    percentile_95_seconds: float | None
    records_count: int
    basis: str
    limit_seconds: float

    @property
    def known_from(self) -> str:
        """From what it is known, in words."""
        if self.percentile_95_seconds is None:
            return "nothing is known of this op"
        of_what = f"the 95th percentile of {self.records_count:,} records of {_WHOSE[self.basis]}"
        told = f"{STUCK_FACTOR:.0f} × {exact_span_words(self.percentile_95_seconds)}, {of_what}"
        return told if self.limit_seconds > STUCK_FLOOR_SECONDS else f"the least there is: {told}, is less"


_WHOSE = {
    "run": "this run",
    "model": "the most recently active runs of its base model",
    "anywhere": "the most recently active runs",
}


def expectation(operation: str, facts: RunFacts) -> Expectation:
    """Return what this op is expected to take, and from what that is known."""
    own = _own_seconds(operation, facts)
    seconds, count, basis = percentile_95(own), len(own), "run"
    slowest = seconds
    learned = facts.learned.get(operation)
    if learned is not None and learned.records_count >= count:
        seconds, count, slowest = learned.percentile_95_seconds, learned.records_count, learned.limit_percentile_seconds
    if count < EXPECTATION_RECORDS:
        return _of_others(operation, facts) or Expectation(seconds, count, basis, limit_seconds(slowest))
    return Expectation(seconds, count, basis, limit_seconds(slowest))


def _of_others(operation: str, facts: RunFacts) -> Expectation | None:
    """Return what other runs lead one to expect: those of the same base model where they say enough."""
    of_model = facts.expected_of_model.get(operation)
    if of_model is not None and of_model.records_count >= EXPECTATION_RECORDS:
        seconds, count = of_model.percentile_95_seconds, of_model.records_count
        return Expectation(seconds, count, "model", limit_seconds(of_model.limit_percentile_seconds))
    anywhere = facts.expected_seconds.get(operation)
    if not anywhere:
        return None
    return Expectation(anywhere, facts.expected_from.get(operation, 0), "anywhere", limit_seconds(anywhere))


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
