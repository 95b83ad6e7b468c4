"""Totals of a run's ledger that survive a Redis which came back empty. Pure.

Redis counts from 0 again after it lost its data, so a total is what was counted before plus what is counted since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers_client import wire
from workers_client.wire_worker import Ledger


@dataclass(frozen=True, slots=True)
class LedgerTotals:
    """`totals` over the run's whole life; `seen` are the ledger's own counts from which the next ones are told."""

    totals: Mapping[str, int]
    seen: Mapping[str, int]


def advance(totals: Mapping[str, int], seen: Mapping[str, int], ledger: Ledger) -> LedgerTotals:
    """Add to `totals` what the ledger counted since `seen`; a count below the one seen before started again from 0.

    A count the ledger does not have leaves its total as it is.
    """
    new_totals, new_seen = dict(totals), dict(seen)
    for name in wire.LEDGER_COUNTS:
        count = getattr(ledger, name)
        if count is None:
            continue
        before = seen.get(name, 0)
        new_totals[name] = totals.get(name, 0) + (count - before if count >= before else count)
        new_seen[name] = count
    return LedgerTotals(new_totals, new_seen)


def missing_records(
    totals: Mapping[str, int | None], *, operations_count: int, samples_count: int, malformed_count: int
) -> int:
    """Return how many records of a run are known to exist and are not held.

    `recorded` and `samples_recorded` are what its workers say they wrote; where they don't say, each answered request
    is one op record, and of samples nothing is known.
    """
    recorded = totals.get("recorded")
    operations = (totals.get("answered") or 0) if recorded is None else recorded
    samples = totals.get("samples_recorded")
    missing = max(0, operations - operations_count) + max(0, (samples or 0) - samples_count)
    return max(0, missing - malformed_count)
