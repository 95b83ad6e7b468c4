"""What an answer could not see. "Nothing found" and "nothing happened" must be told apart."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from telemetry_app.exceptions import HistoryUnavailableError
from telemetry_app.inspection.sources import RunSources, history
from telemetry_app.instants import rfc3339
from telemetry_app.models import Gap
from telemetry_app.readiness import newest_retention_at
from workers_client.wire_worker import WorkerRecord

GAPS_SHOWN = 10  # newest gaps of a run in one answer


def run_coverage(sources: RunSources, workers: Iterable[WorkerRecord], *, source: str) -> dict[str, Any]:
    """Return the coverage of an answer about one run; `source` is `live`, `history` or `both`."""
    dropped, redelivered = _buffer_losses(record for record in workers if sources.run_id in record.runs)
    missing, malformed, row = sources.missing_records, sources.malformed_count, sources.row
    gaps, retention_at = _kept_beside(sources)
    is_live = sources.live is not None
    is_whole = not (missing or malformed or gaps or any(dropped.values()))
    return {
        "complete": is_live and sources.has_history and is_whole,
        "missing_records": missing,
        "gaps": gaps,
        "conflicts": row.conflicts_count if row else 0,
        "dropped": dropped,
        "malformed": malformed,
        "wrong_clock_records": sources.wrong_clock_records,
        "redelivered": redelivered,
        "source": source,
        "live": is_live,
        "history": sources.has_history,
        "last_ingest_at": rfc3339(sources.live.last_activity_at if sources.live else None),
        "last_snapshot_at": rfc3339(row.last_snapshot_at if row else None),
        "snapshot_lag_seconds": row.snapshot_lag_seconds if row else None,
        "snapshot_lag_records": row.snapshot_lag_records if row else None,
        "last_retention_at": rfc3339(retention_at),
    }


def _kept_beside(sources: RunSources) -> tuple[list[dict[str, Any]], datetime | None]:
    """Return where records of the run went missing, newest first, and when retention removed ops last."""
    if not sources.has_history:
        return [], None
    try:
        found = history(lambda: list(Gap.objects.filter(run_id=sources.run_id)[:GAPS_SHOWN])) if sources.row else []
        retention_at = history(newest_retention_at)
    except HistoryUnavailableError:
        sources.has_history = False
        return [], None
    return [_gap_fields(gap) for gap in found], retention_at


def _gap_fields(gap: Gap) -> dict[str, Any]:
    return {
        "list": gap.list_key,
        "after_at": rfc3339(gap.after_at),
        "before_at": rfc3339(gap.before_at),
        "records_count": gap.records_count,
        "found_at": rfc3339(gap.found_at),
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
