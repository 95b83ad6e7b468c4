"""What devices did over a long stretch of time, part by part, so that of most parts what was found can be kept. Pure.

Parts are whole days (UTC), and hours or less at both ends. What a part amounts to depends on the turns that ended in
it, and on those that ended later and were asked for before its end. So parts are taken newest first, each hands on the
turns that reach into the one before, and a part is folded anew only where one of either kind is another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from telemetry_app.device_sums import DeviceSums, device_sums
from telemetry_app.device_turns import DeviceTurn
from telemetry_app.kept_parts import KeptParts
from telemetry_app.spans import Span

HOUR, DAY = 3_600_000_000, 86_400_000_000  # microseconds

TurnKey = tuple[str, str]  # workload and identity


class Mark(NamedTuple):
    """What tells the stored turns that ended in a part from others: how many they are, and the sum of their ids."""

    turns_count: int
    ids_sum: int


class Seen(NamedTuple):
    """Turns of one device: how many, when the newest ended and the first was asked for, and whose they are."""

    turns_count: int
    last: int
    first: int
    workloads: frozenset[str]

    def __or__(self, other: Seen) -> Seen:
        """Return both together."""
        return Seen(
            self.turns_count + other.turns_count, max(self.last, other.last), min(self.first, other.first),
            self.workloads | other.workloads,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """What was found of a part by device: of the turns that ended in it (`seen`), and of `carried` ones besides.

    `reaching` are turns that ended in it and were asked for before it.
    """

    sums: Mapping[str, DeviceSums] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    reaching: Sequence[DeviceTurn] = ()
    carried: frozenset[TurnKey] = frozenset()

    @property
    def weight(self) -> int:
        """How much memory it takes: about a kilobyte each."""
        return 1 + len(self.reaching) + sum(1 + len(sums.held) // 4 for sums in self.sums.values())


_EMPTY = Part()
_NOTHING = DeviceSums()
Read = Callable[[Sequence[Span]], Iterable[DeviceTurn]]  # stored turns that ended in these spans, newest first


def parts_between(start: int, end: int) -> list[Span]:
    """Return the parts of a stretch (unix microseconds), newest first. None lies in two days."""
    first_day, last_day = -(-start // DAY) * DAY, end // DAY * DAY
    if first_day >= last_day:
        first_day = last_day = end
    cuts = [*_hours(start, first_day), *range(first_day, last_day, DAY), *_hours(last_day, end), end]
    return list(pairwise(cuts))[::-1]


def _by_hour(span: Span) -> list[Span]:
    """Return the hours of a part, newest first."""
    return list(pairwise([*_hours(*span), span[1]]))[::-1]


def _hours(start: int, end: int) -> list[int]:
    return [start, *range((start // HOUR + 1) * HOUR, end, HOUR)] if start < end else []


class DeviceFold:
    """Folds the parts of one stretch, `spans`, newest first.

    `read` is asked once, and once more where a turn reaches from a part that is another into ones that were kept.
    """

    def __init__(
        self, spans: Sequence[Span], marks: Mapping[Span, Mark], kept: KeptParts[Mark, Part], read: Read
    ) -> None:
        self._spans, self._marks, self._kept, self._read = spans, marks, kept, read
        self._known = {span: kept.get(span, marks[span]) if span in marks else _EMPTY for span in spans}

    def parts(self, later: Iterable[DeviceTurn], fresh: Iterable[DeviceTurn]) -> Iterator[tuple[Span, Part]]:
        """Yield what was found of each part.

        `later` are stored turns that ended after all parts, `fresh` ones that are not stored, of any time: they are in
        the sums, and in no `seen`.
        """
        unstored = sorted(fresh, key=attrgetter("end"))
        fresh_keys = frozenset(map(key_of, unstored))
        carried = list(later)
        again: list[tuple[Span, list[DeviceTurn]]] = []
        rows = _NewestFirst(self._read(self._joined([span for span in self._spans if self._known[span] is None])))
        for span in self._spans:
            while unstored and unstored[-1].end >= span[0]:
                carried.append(unstored.pop())
            carried = [turn for turn in carried if turn.first < span[1]]
            part = self._known[span]
            if part is None:
                part = self._folded(span, rows, carried, fresh_keys)
                yield span, _with_waits(part, carried, span)
            elif _holds_good(part, carried, span):
                yield span, _with_waits(_with_others(part, carried, span), carried, span)
            else:
                again.append((span, carried))
            carried = [*carried, *part.reaching]
        rows = _NewestFirst(self._read(self._joined([span for span, _ in again])) if again else ())
        for span, carried in again:
            yield span, _with_waits(self._folded(span, rows, carried, fresh_keys), carried, span)

    def _joined(self, wanted: Collection[Span]) -> list[Span]:
        """Return the spans that hold the wanted parts and no other turns, newest first: few, so that SQL is short."""
        chosen, found = set(wanted), list[Span]()
        is_open = False
        for span in self._spans:
            if span in chosen:
                end = found.pop()[1] if is_open else span[1]
                found.append((span[0], end))
                is_open = True
            elif span in self._marks:
                is_open = False
        return found

    def _folded(
        self, span: Span, rows: _NewestFirst, carried: Sequence[DeviceTurn], fresh_keys: frozenset[TurnKey]
    ) -> Part:
        """Fold a part hour by hour, so that few turns are in memory at once, whole days of which are slow to handle."""
        others = [turn for turn in carried if not _waits_throughout(turn, span)]
        sums: dict[str, DeviceSums] = {}
        seen: dict[str, Seen] = {}
        reaching: list[DeviceTurn] = []
        count = 0
        for hour in _by_hour(span):
            own = rows.down_to(hour[0])
            over = [turn for turn in (*others, *reaching) if turn.first < hour[1]]
            add_sums(sums, _sums([*own, *over], hour))
            add_seen(seen, seen_of(own))
            reaching = [turn for turn in (*reaching, *own) if turn.first < hour[0]]
            count += len(own)
        part = Part(sums, seen, reaching, frozenset(map(key_of, others)))
        mark = self._marks.get(span)
        is_settled = mark is not None and mark.turns_count == count and part.carried.isdisjoint(fresh_keys)
        if mark is not None and is_settled and _is_whole(span):
            self._kept.put(span, mark, part, part.weight)
        return part


def add_sums(to: dict[str, DeviceSums], sums: Mapping[str, DeviceSums]) -> None:
    """Count what devices did in another stretch."""
    for device, own in sums.items():
        to.setdefault(device, DeviceSums()).add(own)


def add_seen(to: dict[str, Seen], seen: Mapping[str, Seen]) -> None:
    """Count other turns of devices."""
    for device, own in seen.items():
        to[device] = to[device] | own if device in to else own


def seen_of(turns: Iterable[DeviceTurn]) -> dict[str, Seen]:
    """Return what is told of turns beside their time, by device."""
    return {
        device: Seen(
            len(own),
            max(turn.end for turn in own),
            min(turn.first for turn in own),
            frozenset(turn.workload for turn in own),
        )
        for device, own in _by_device(turns).items()
    }


def key_of(turn: DeviceTurn) -> TurnKey:
    """Return what tells a turn from others."""
    return turn.workload, turn.identity


# --- One part ---------------------------------------------------------------------------------------------------
def _is_whole(span: Span) -> bool:
    """Return whether others will ask for the same part: what lies at an end of a stretch moves on with the clock."""
    return span[1] - span[0] in (HOUR, DAY) and not span[0] % (span[1] - span[0])


def _waits_throughout(turn: DeviceTurn, span: Span) -> bool:
    return turn.asked_at is not None and turn.asked_at <= span[0] and span[1] <= turn.start


def _holds_good(part: Part, carried: Sequence[DeviceTurn], span: Span) -> bool:
    """Return whether all that a kept part counted is among these, and what it did not is of devices it has not."""
    others = {key_of(turn): turn for turn in carried if not _waits_throughout(turn, span)}
    return part.carried <= others.keys() and all(
        key in part.carried or turn.device not in part.sums for key, turn in others.items()
    )


def _with_others(part: Part, carried: Iterable[DeviceTurn], span: Span) -> Part:
    """Return a kept part with the devices of which it has no turn."""
    others = [turn for turn in carried if turn.device not in part.sums and not _waits_throughout(turn, span)]
    return replace(part, sums={**part.sums, **_sums(others, span)}) if others else part


def _with_waits(part: Part, carried: Iterable[DeviceTurn], span: Span) -> Part:
    """Return a part with the turns that were waited for during all of it: they change no other turn's part."""
    changed: dict[str, DeviceSums] = {}
    for turn in carried:
        if _waits_throughout(turn, span):
            device = turn.device
            if device not in changed:
                changed[device] = DeviceSums()
                changed[device].add(part.sums.get(device, _NOTHING))
            changed[device].add_wait(turn, span[1] - span[0])
    return replace(part, sums={**part.sums, **changed}) if changed else part


def _sums(turns: Iterable[DeviceTurn], span: Span) -> dict[str, DeviceSums]:
    return {device: device_sums(own, *span) for device, own in _by_device(turns).items()}


def _by_device(turns: Iterable[DeviceTurn]) -> dict[str, list[DeviceTurn]]:
    found: dict[str, list[DeviceTurn]] = {}
    for turn in turns:
        found.setdefault(turn.device, []).append(turn)
    return found


class _NewestFirst:
    """Turns, the one that ended last first, taken part by part."""

    def __init__(self, turns: Iterable[DeviceTurn]) -> None:
        self._turns = iter(turns)
        self._next = next(self._turns, None)

    def down_to(self, start: int) -> list[DeviceTurn]:
        """Return those not taken yet that ended at `start` or later."""
        found: list[DeviceTurn] = []
        while self._next is not None and self._next.end >= start:
            found.append(self._next)
            self._next = next(self._turns, None)
        return found
