"""GPU turns in whole microseconds on Redis's clock, as the step clock reads them. Pure.

The same turns are read for each run that a device serves, and each time that somebody looks: what was made of one is
kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from telemetry_app.spans import Span, microseconds
from workers_client.wire import TurnRecord

KEPT = 4_000  # as many as `kept_records.py` keeps of stored turns; about 2 KB each


class Use(NamedTuple):
    """What a device was held for. `run_id` is None where several runs or none are named, `operation` between ops."""

    workload: str
    run_id: str | None
    operation: str | None


Piece = tuple[int, int, Use]  # start and end in unix microseconds


@dataclass(frozen=True, slots=True, eq=False)
class TurnSpans:
    """One turn. `ops` are span, name and run of what ran inside; `order` is that in which turns began."""

    turn: TurnRecord
    start: int
    end: int
    wait: Span | None
    runs: frozenset[str]
    ops: tuple[tuple[Span, str, str | None], ...]
    order: tuple[float, float, str, str]
    _pieces: list[Piece] = field(default_factory=list)

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Return what it was held for from `start` to `end`, both within it."""
        if (start, end) != (self.start, self.end):
            return self._cut(start, end)
        if not self._pieces:
            self._pieces[:] = self._cut(start, end)
        return self._pieces

    def _cut(self, start: int, end: int) -> list[Piece]:
        """Cut it at its ops; where several run at once, the one that began first counts."""
        workload = self.turn.workload
        between = Use(workload, next(iter(self.runs)) if len(self.runs) == 1 else None, None)
        pieces: list[Piece] = []
        at = start
        for (first, last), name, run_id in self.ops:
            begin, finish = max(first, at), min(last, end)
            if finish <= begin:
                continue
            if begin > at:
                pieces.append((at, begin, between))
            pieces.append((begin, finish, Use(workload, run_id or between.run_id, name)))
            at = finish
        if at < end:
            pieces.append((at, end, between))
        return pieces


def spans_of(turn: TurnRecord, offset: float = 0.0) -> TurnSpans:
    """Return the spans of a turn whose writer's clock is `offset` seconds ahead."""
    start, end = turn.started_at - offset, turn.at - offset
    requested = None if turn.requested_at is None else turn.requested_at - offset
    ops = sorted([(op.start - offset, op.end - offset, op.name, op.run_id or "") for op in turn.ops])
    return TurnSpans(
        turn,
        microseconds(start),
        microseconds(end),
        None if requested is None else (microseconds(requested), microseconds(start)),
        frozenset([op.run_id for op in turn.ops if op.run_id]),
        tuple([((microseconds(first), microseconds(last)), name, run or None) for first, last, name, run in ops]),
        (start, end, turn.workload, turn.identity),
    )


def kept_spans_of(turn: TurnRecord, offset: float = 0.0) -> TurnSpans:
    """Do the same, once for each object that a turn is read as.

    What is kept can't get old: a turn never changes, and is held here, so that no other has its address meanwhile.
    """
    key = id(turn), offset
    found = _kept.get(key)
    if found is None:
        if len(_kept) >= KEPT:
            _kept.clear()
        found = _kept[key] = spans_of(turn, offset)
    return found


_kept: dict[tuple[int, float], TurnSpans] = {}
