"""Who had a device at each instant, and what it ran for whom, from GPU turns. Pure.

At one instant one turn has a device: where more hold it, the one that began first; all instants at which more than one
did are reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from telemetry_app.spans import Span, difference, microseconds, union
from workers_client.wire import TurnRecord


class Use(NamedTuple):
    """What a device was held for. `run_id` is None where several runs or none are named, `operation` between ops."""

    workload: str
    run_id: str | None
    operation: str | None


Piece = tuple[int, int, Use]  # start and end in unix microseconds


@dataclass(slots=True)
class DeviceTime:
    """Who had one device: disjoint turns, oldest first. `overlaps` are instants with more than one.

    A turn is cut at its ops where somebody asks what it ran: most are waited for by nobody.
    """

    held: list[tuple[int, int, TurnRecord]] = field(default_factory=list)
    overlaps: list[Span] = field(default_factory=list)
    _ends: list[int] = field(init=False)
    _cut: dict[int, tuple[list[int], list[Piece]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._ends = [end for _, end, _ in self.held]

    def during(self, spans: Iterable[Span]) -> dict[Use | None, int]:
        """Return how many microseconds of disjoint spans each use takes; None is the time that nobody held it."""
        found: dict[Use | None, int] = {}
        for start, end in spans:
            free = end - start
            for begin, finish, use in self._uses(start, end):
                taken = (finish if finish < end else end) - (begin if begin > start else start)
                found[use] = found.get(use, 0) + taken
                free -= taken
            if free:
                found[None] = found.get(None, 0) + free
        return found

    def within(self, start: int, end: int) -> Iterator[tuple[int, int, TurnRecord]]:
        """Yield who had it from `start` to `end`."""
        for index in range(bisect_right(self._ends, start), len(self.held)):
            first, last, turn = self.held[index]
            if first >= end:
                break
            yield max(first, start), min(last, end), turn

    def _uses(self, start: int, end: int) -> Iterator[Piece]:
        for index in range(bisect_right(self._ends, start), len(self.held)):
            if self.held[index][0] >= end:
                break
            ends, pieces = self._pieces_of(index)
            for piece in pieces[bisect_right(ends, start) :]:
                if piece[0] >= end:
                    break
                yield piece

    def _pieces_of(self, index: int) -> tuple[list[int], list[Piece]]:
        if index not in self._cut:
            first, last, turn = self.held[index]
            pieces = _pieces(turn, first, last)
            self._cut[index] = [end for _, end, _ in pieces], pieces
        return self._cut[index]


def device_time(turns: Iterable[TurnRecord]) -> DeviceTime:
    """Return who had the device that these turns are of, each turn once."""
    held: list[tuple[int, int, TurnRecord]] = []
    overlaps: list[Span] = []
    taken_until: int | None = None
    unique = {(turn.workload, turn.identity): turn for turn in turns}
    for turn in sorted(unique.values(), key=_order):
        start, end = microseconds(turn.started_at), microseconds(turn.at)
        if taken_until is not None and start < taken_until:
            overlaps.append((start, min(end, taken_until)))
            start = taken_until
        if end > start:
            held.append((start, end, turn))
            taken_until = end
    return DeviceTime(held, union(overlaps))


def waited_for(devices: Iterable[tuple[Iterable[Span], DeviceTime]]) -> DeviceTime:
    """Return the uses of several devices, each of those instants at which it was waited for: the first that was."""
    held: list[tuple[int, int, TurnRecord]] = []
    overlaps: list[Span] = []
    taken: list[Span] = []
    for waits, device in devices:
        for start, end in difference(waits, taken):
            held += device.within(start, end)
        taken = union([*taken, *waits])
        overlaps = union([*overlaps, *device.overlaps])
    return DeviceTime(sorted(held, key=itemgetter(0)), overlaps)


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
    for first, last, name, run_id in sorted((op.start, op.end, op.name, op.run_id or "") for op in turn.ops):
        begin, finish = max(microseconds(first), at), min(microseconds(last), end)
        if finish <= begin:
            continue
        if begin > at:
            pieces.append((at, begin, between))
        pieces.append((begin, finish, Use(turn.workload, run_id or between.run_id, name)))
        at = finish
    if at < end:
        pieces.append((at, end, between))
    return pieces
