"""Pages of GPU turns, newest first, of what only Redis has and what is stored; and those of all workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Collate

from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.gpu_turns import SWITCHES
from telemetry_app.inspection.coverage import source_word
from telemetry_app.inspection.records import COUNT_LIMIT, newest_snapshot_at
from telemetry_app.inspection.sources import history
from telemetry_app.inspection.turn_sources import new_turns
from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import Turn
from telemetry_app.rows import turn_of
from workers_client import wire

Position = tuple[datetime, str, str]  # end, identity and workload of the last turn of a page


@dataclass(frozen=True, slots=True)
class TurnFilter:
    """Which turns are shown; None lets all through. By when they ended: half-open, `[since, until)`."""

    since: datetime | None = None
    until: datetime | None = None
    workload: str | None = None
    node: str | None = None
    worker: str | None = None

    def admits(self, turn: wire.TurnRecord) -> bool:
        """Return whether a live turn is shown."""
        at = from_unix(turn.at)
        return (
            (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
            and (self.workload is None or turn.workload == self.workload)
            and (self.node is None or turn.node == self.node)
            and (self.worker is None or turn.worker == self.worker)
        )

    def apply(self, rows: QuerySet[Turn]) -> QuerySet[Turn]:
        """Return the query of the stored turns that are shown."""
        wanted = {
            "at__gte": self.since,
            "at__lt": self.until,
            "workload": self.workload,
            "node": self.node,
            "worker": self.worker,
        }
        return rows.filter(**{name: value for name, value in wanted.items() if value is not None})


@dataclass(slots=True)
class TurnsOfAll:
    """One page of the turns of all workloads, newest first."""

    results: list[dict[str, Any]]
    next_position: Position | None
    total_matching: int
    is_total_capped: bool
    coverage: dict[str, Any]


def all_turns(wanted: TurnFilter, after: Position | None, size: int) -> TurnsOfAll:
    """Return a page of the turns of all workloads.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    live = new_turns()
    fresh = [turn for turn in live.records if wanted.admits(turn)]
    snapshot_at = None
    try:
        stored, stored_count = stored_page(wanted.apply(Turn.objects.all()), after, size)
        snapshot_at = newest_snapshot_at()
    except HistoryUnavailableError:
        if not live.is_live:
            raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.") from None
        stored, stored_count, live.has_history = [], 0, False
    page, following = cut(fresh, stored, after, size)
    shown, total = {key_of(turn) for turn in page}, stored_count + len(fresh)
    return TurnsOfAll(
        results=[_fields(turn) for turn in page],
        next_position=following,
        total_matching=min(total, COUNT_LIMIT),
        is_total_capped=total > COUNT_LIMIT,
        coverage={
            "live": live.is_live,
            "history": live.has_history,
            "source": source_word(
                live=live.is_live and (not shown or any(key_of(turn) in shown for turn in fresh)),
                stored=any(key_of(turn) in shown for turn in stored) or not live.is_live,
            ),
            "malformed_turns": live.malformed_count,
            "last_snapshot_at": rfc3339(snapshot_at),
        },
    )


# --- Paging ---------------------------------------------------------------------------------------------------
def key_of(turn: wire.TurnRecord) -> Position:
    """Return where a turn stands in lists. Unique."""
    return from_unix(turn.at), turn.identity, turn.workload


def stored_page(rows: QuerySet[Turn], after: Position | None, size: int) -> tuple[list[wire.TurnRecord], int]:
    """Return the stored turns of a page, one more where there are more, and how many match (up to the limit).

    Raises:
        HistoryUnavailableError: PostgreSQL can't be asked.
    """
    # Collation "C" orders texts as Python does, whatever the database's own.
    behind = rows.alias(record_mark=Collate("record_id", "C"), workload_mark=Collate("workload", "C"))
    if after is not None:
        at, record_id, workload = after
        tied = Q(record_mark__lt=record_id) | Q(record_mark=record_id, workload_mark__lt=workload)
        behind = behind.filter(Q(at__lt=at) | (Q(at=at) & tied))
    behind = behind.order_by("-at", "-record_mark", "-workload_mark")[: size + 1]
    count = history(lambda: rows.order_by()[: COUNT_LIMIT + 1].count())
    return history(lambda: [turn_of(row) for row in behind]), count


def cut(
    fresh: Sequence[wire.TurnRecord], stored: Sequence[wire.TurnRecord], after: Position | None, size: int
) -> tuple[list[wire.TurnRecord], Position | None]:
    """Return a page of turns of both sources, each once, and where it ended if there are more."""
    turns = {key_of(turn): turn for turn in fresh if after is None or key_of(turn) < after}
    turns |= {key_of(turn): turn for turn in stored}
    ordered = [turns[key] for key in sorted(turns, reverse=True)]
    page = ordered[:size]
    return page, key_of(page[-1]) if len(ordered) > size else None


# --- Fields of the answer -------------------------------------------------------------------------------------
def times_of(turn: wire.TurnRecord) -> dict[str, Any]:
    """Return when a turn was, and how long it waited, held and switched."""
    return {
        "requested_at": rfc3339(turn.requested_at),
        "started_at": rfc3339(turn.started_at),
        "ended_at": rfc3339(turn.at),
        "wait_seconds": None if turn.requested_at is None else max(0.0, turn.started_at - turn.requested_at),
        "hold_seconds": max(0.0, turn.at - turn.started_at),
        "switch_seconds": sum((max(0.0, op.end - op.start) for op in turn.ops if op.name in SWITCHES), start=0.0),
    }


def op_fields(op: wire.TurnOp) -> dict[str, Any]:
    """Return ops of a turn as lists show them."""
    return {
        "operation": op.name,
        "count": op.count,
        "status": op.status,
        "request_id": op.request_id,
        "started_at": rfc3339(op.start),
        "ended_at": rfc3339(op.end),
        "seconds": max(0.0, op.end - op.start),
    }


def _fields(turn: wire.TurnRecord) -> dict[str, Any]:
    return {
        "id": turn.identity,
        "workload": turn.workload,
        "role": turn.role,
        "worker": turn.worker,
        "node": turn.node,
        **times_of(turn),
        "run_ids": sorted({op.run_id for op in turn.ops if op.run_id}),
        "operations": [{"run_id": op.run_id, **op_fields(op)} for op in turn.ops],
    }
