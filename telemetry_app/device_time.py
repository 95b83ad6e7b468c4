"""Who had a device at each instant, and what it ran for whom, from GPU turns. Pure.

At one instant one turn has a device: where more hold it, the one that began first; all instants at which more than one
did are reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from telemetry_app.spans import Span, difference, microseconds, union
from workers_client.wire import TurnRecord


@dataclass(frozen=True, slots=True)
class Use:
    """What a device was held for. `run_id` is None where several runs or none are named, `operation` between ops."""

    workload: str
    run_id: str | None
    operation: str | None


Piece = tuple[int, int, Use]  # start and end in unix microseconds


@dataclass(slots=True)
class DeviceTime:
    """The uses of one device: disjoint, oldest first. `overlaps` are instants with more than one turn."""

    pieces: list[Piece] = field(default_factory=list)
    overlaps: list[Span] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)

    def during(self, spans: Iterable[Span]) -> dict[Use | None, int]:
        """Return how many microseconds of disjoint spans each use takes; None is the time that nobody held it."""
        found: dict[Use | None, int] = {}
        for start, end in spans:
            free = end - start
            index = bisect_right(self._ends, start)
            while index < len(self.pieces) and self.pieces[index][0] < end:
                begin, finish, use = self.pieces[index]
                taken = min(finish, end) - max(begin, start)
                found[use] = found.get(use, 0) + taken
                free -= taken
                index += 1
            if free:
                found[None] = found.get(None, 0) + free
        return found


def device_time(turns: Iterable[TurnRecord]) -> DeviceTime:
    """Return who had the device that these turns are of, each turn once."""
    found = DeviceTime()
    overlaps: list[Span] = []
    taken_until: int | None = None
    unique = {(turn.workload, turn.identity): turn for turn in turns}
    for turn in sorted(unique.values(), key=_order):
        start, end = microseconds(turn.started_at), microseconds(turn.at)
        if taken_until is not None and start < taken_until:
            overlaps.append((start, min(end, taken_until)))
            start = taken_until
        if end > start:
            found.pieces += _pieces(turn, start, end)
            taken_until = end
    found.overlaps = union(overlaps)
    found._ends = [end for _, end, _ in found.pieces]
    return found


def waited_for(devices: Iterable[tuple[Iterable[Span], DeviceTime]]) -> DeviceTime:
    """Return the uses of several devices, each of those instants at which it was waited for: the first that was."""
    found = DeviceTime()
    taken: list[Span] = []
    for waits, device in devices:
        for start, end in difference(waits, taken):
            found.pieces += [
                (max(begin, start), min(finish, end), use)
                for begin, finish, use in device.pieces
                if begin < end and finish > start
            ]
        taken = union([*taken, *waits])
        found.overlaps = union([*found.overlaps, *device.overlaps])
    found.pieces.sort(key=itemgetter(0))
    found._ends = [end for _, end, _ in found.pieces]
    return found


def runs_of(turn: TurnRecord) -> set[str]:
    """Return the runs that a turn worked for."""
    return {op.run_id for op in turn.ops if op.run_id}


def _order(turn: TurnRecord) -> tuple[float, float, str, str]:
    return turn.started_at, turn.at, turn.workload, turn.identity


def _pieces(turn: TurnRecord, start: int, end: int) -> list[Piece]:
    """Cut a turn at its ops; where several run at once, the one that began first counts."""
    runs: Sequence[str] = sorted(runs_of(turn))
    between = Use(turn.workload, runs[0] if len(runs) == 1 else None, None)
    pieces: list[Piece] = []
    at = start
    for op in sorted(turn.ops, key=lambda op: (op.start, op.end, op.name, op.run_id or "")):
        begin, finish = max(microseconds(op.start), at), min(microseconds(op.end), end)
        if finish <= begin:
            continue
        if begin > at:
            pieces.append((at, begin, between))
        pieces.append((begin, finish, Use(turn.workload, op.run_id or between.run_id, op.name)))
        at = finish
    if at < end:
        pieces.append((at, end, between))
    return pieces
