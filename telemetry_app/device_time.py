"""Who had a device at each instant, and what it ran for whom, from GPU turns. Pure.

At one instant one turn has a device: where more hold it, the one that began first; all instants at which more than one
did are reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter

from telemetry_app.spans import Span, difference, union
from telemetry_app.turn_spans import Piece, TurnSpans, Use

_Held = tuple[int, int, TurnSpans]
_order = attrgetter("order")


@dataclass(slots=True)
class DeviceTime:
    """Who had one device: disjoint turns, oldest first. `overlaps` are instants with more than one.

    A turn is cut at its ops where somebody asks what it ran: most are waited for by nobody.
    """

    held: list[_Held] = field(default_factory=list)
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

    def within(self, start: int, end: int) -> Iterator[_Held]:
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
            pieces = turn.pieces(first, last)
            self._cut[index] = [end for _, end, _ in pieces], pieces
        return self._cut[index]


def device_time_of(turns: Iterable[TurnSpans]) -> DeviceTime:
    """Return who had the device that these turns, on one clock, are of; each turn once."""
    held: list[_Held] = []
    overlaps: list[Span] = []
    taken_until: int | None = None
    unique = {turn.order[2:]: turn for turn in turns}
    for turn in sorted(unique.values(), key=_order):
        start, end = turn.start, turn.end
        if taken_until is not None and start < taken_until:
            overlaps.append((start, min(end, taken_until)))
            start = taken_until
        if end > start:
            held.append((start, end, turn))
            taken_until = end
    return DeviceTime(held, union(overlaps))


def waited_for(devices: Iterable[tuple[Iterable[Span], DeviceTime]]) -> DeviceTime:
    """Return the uses of several devices, each of those instants at which it was waited for: the first that was."""
    held: list[_Held] = []
    overlaps: list[Span] = []
    taken: list[Span] = []
    for waits, device in devices:
        for start, end in difference(waits, taken):
            held += device.within(start, end)
        taken = union([*taken, *waits])
        overlaps = union([*overlaps, *device.overlaps])
    return DeviceTime(sorted(held, key=itemgetter(0)), overlaps)
