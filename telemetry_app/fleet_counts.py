"""Counts of the whole fleet at one instant, as a pass over the active runs makes them. Pure.

They are kept as plain JSON, so that whoever asks for them looks at no run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from telemetry_app.metric_growth import KNOWN_OPERATIONS, OTHER
from telemetry_app.open_requests import OpenRequests
from telemetry_app.run_facts import WorkerFact
from workers_client import wire

MOST_OTHER_OPERATIONS = 20
UNKNOWN = "unknown"  # op of requests that the ledger counts and no worker lists
ROLES = tuple(role.value for role in wire.Role)


@dataclass(slots=True)
class RequestCounts:
    """Requests of one op; `oldest_seconds` is the age of the oldest, None where nobody says it."""

    open: int = 0
    stuck: int = 0
    oldest_seconds: float | None = None

    def add(self, other: RequestCounts) -> None:
        """Count others."""
        self.open += other.open
        self.stuck += other.stuck
        ages = [age for age in (self.oldest_seconds, other.oldest_seconds) if age is not None]
        self.oldest_seconds = max(ages, default=None)


@dataclass(slots=True)
class FleetCounts:
    """Runs by state, workers by role and health, requests by op."""

    runs: Counter[str] = field(default_factory=Counter)
    workers: Counter[tuple[str, str]] = field(default_factory=Counter)
    requests: dict[str, RequestCounts] = field(default_factory=dict)

    def add_workers(self, workers: Iterable[WorkerFact]) -> None:
        """Count workers; roles that the contract does not know are one."""
        for worker in workers:
            role = worker.record.role
            self.workers[role if role in ROLES else OTHER, worker.health.value] += 1

    def add_run(self, state: str, requests: Iterable[OpenRequests], *, now: float) -> None:
        """Count a run and its open requests, each of which is counted once however many workers hold it."""
        self.runs[state] += 1
        for entry in requests:
            age = None if entry.oldest_at is None else max(0.0, now - entry.oldest_at)
            count = entry.unshared_count
            if count:
                found = self.requests.setdefault(entry.operation or UNKNOWN, RequestCounts())
                found.add(RequestCounts(count, count if entry.stuck else 0, age))

    def as_json(self) -> dict[str, Any]:
        """Return the counts as they are kept."""
        return {
            "runs": dict(self.runs),
            "workers": [[role, health, count] for (role, health), count in sorted(self.workers.items())],
            "requests": {
                name: [counts.open, counts.stuck, counts.oldest_seconds] for name, counts in self._bounded().items()
            },
        }

    def _bounded(self) -> dict[str, RequestCounts]:
        """Return the counts of known ops and of the others that have most; the rest are one."""
        others = [name for name in self.requests if name not in KNOWN_OPERATIONS and name != UNKNOWN]
        others.sort(key=lambda name: (-self.requests[name].open, name))
        rest = set(others[MOST_OTHER_OPERATIONS:])
        found: dict[str, RequestCounts] = {}
        for name, counts in self.requests.items():
            found.setdefault(OTHER if name in rest else name, RequestCounts()).add(counts)
        return found


def fleet_counts(kept: Any) -> FleetCounts:
    """Return counts that `as_json` made."""
    counts = FleetCounts(runs=Counter(kept.get("runs", {})))
    counts.workers.update({(role, health): count for role, health, count in kept.get("workers", ())})
    counts.requests = {name: RequestCounts(*values) for name, values in kept.get("requests", {}).items()}
    return counts
