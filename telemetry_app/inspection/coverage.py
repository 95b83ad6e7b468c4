"""What an answer could not see. "Nothing found" and "nothing happened" must be told apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from telemetry_app.inspection.sources import RunSources
from telemetry_app.instants import rfc3339
from workers_client.wire_worker import WorkerRecord


def run_coverage(sources: RunSources, workers: Iterable[WorkerRecord], *, source: str) -> dict[str, Any]:
    """Return the coverage of an answer about one run; `source` is `live`, `history` or `both`."""
    dropped, redelivered = _buffer_losses(record for record in workers if sources.run_id in record.runs)
    missing, malformed = sources.missing_records, sources.malformed_count
    is_live = sources.live is not None
    return {
        "complete": is_live and sources.has_history and not (missing or malformed or any(dropped.values())),
        "missing_records": missing,
        "dropped": dropped,
        "malformed": malformed,
        "redelivered": redelivered,
        "source": source,
        "live": is_live,
        "history": sources.has_history,
        "last_ingest_at": rfc3339(sources.live.last_activity_at if sources.live else None),
        "last_snapshot_at": rfc3339(sources.row.last_snapshot_at if sources.row else None),
    }


def source_word(*, live: bool, stored: bool) -> str:
    """Return where the records of an answer came from."""
    if live and stored:
        return "both"
    return "history" if stored else "live"


def _buffer_losses(workers: Iterable[WorkerRecord]) -> tuple[dict[str, int], int]:
    """Return how many records the workers report dropped, by kind, and how many deliveries were repeated."""
    dropped: dict[str, int] = {}
    redelivered = 0
    for record in workers:
        by_kind = record.buffer.get("dropped")
        for kind, reasons in by_kind.items() if isinstance(by_kind, dict) else ():
            counts = reasons.values() if isinstance(reasons, dict) else [reasons]
            dropped[kind] = dropped.get(kind, 0) + sum(count for count in counts if isinstance(count, int))
        repeated = record.buffer.get("redelivered")
        redelivered += repeated if isinstance(repeated, int) else 0
    return dropped, redelivered
