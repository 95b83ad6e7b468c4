"""When a run's sampling requests were open, as group records tell it. Pure.

A group says how long requests were open (`busy_seconds`) within a span (first acceptance to last answer), not when.
Its time, with that of the groups whose spans overlap it, is placed so until it is used up:

1. From the first acceptance to the first answer: a request is open all the while.
2. While a sampler's turn worked for the run.
3. Between the run's ops, where a client samples before it goes on: first around 1 and 2, next before the last answer,
   then in the other pauses from the oldest on.

Time that the span has beyond that belongs to whatever else was true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from telemetry_app.spans import Span, cut, difference, length, microseconds, union
from workers_client import wire

SAMPLE = wire.SAMPLE
_WHOLE = 1_000  # microseconds that may lack of a span that was busy throughout: its two ends come from two processes


def sampling_spans(records: Iterable[wire.SampleRecord], ops: Iterable[Span], turns: Iterable[Span]) -> list[Span]:
    """Return when sampling requests were open: `ops` are the run's open ops, `turns` those of samplers for it."""
    busy_with_ops, serving = union(ops), union(turns)
    found: list[Span] = []
    groups: list[wire.SampleGroup] = []
    for record in records:
        if isinstance(record, wire.SampleGroup):
            groups.append(record)
        elif record.accepted_at is not None:
            found.append((microseconds(record.accepted_at), microseconds(record.at)))
    for stretch in _stretches(groups):
        found += _placed(stretch, busy_with_ops, serving)
    return union(found)


@dataclass(slots=True)
class _Stretch:
    """Groups of one worker whose spans overlap: a request that is open when one ends counts in the next, too."""

    start: int
    end: int
    busy: int
    sure: list[Span]


def _stretches(groups: Iterable[wire.SampleGroup]) -> list[_Stretch]:
    found: dict[str | None, list[_Stretch]] = {}
    for (start, end), group in sorted(((_span_of(group), group) for group in groups), key=lambda pair: pair[0]):
        first_answer = end if group.first_answered_at is None else microseconds(group.first_answered_at)
        stretch = _Stretch(start, end, _busy(group, end - start), [(start, min(first_answer, end))])
        of_worker = found.setdefault(group.worker, [])
        if not of_worker or of_worker[-1].end < start:
            of_worker.append(stretch)
            continue
        newest = of_worker[-1]
        newest.end, newest.busy = max(newest.end, end), newest.busy + stretch.busy
        newest.sure += stretch.sure
    return [stretch for of_worker in found.values() for stretch in of_worker]


def _placed(stretch: _Stretch, ops: Sequence[Span], serving: Sequence[Span]) -> list[Span]:
    start, end, left = stretch.start, stretch.end, stretch.busy
    if left >= end - start - _WHOLE:
        return [(start, end)]
    sure = union([*stretch.sure, *cut(serving, start, end)])
    placed = list(sure)
    left -= length(sure)
    pauses = difference([(start, end)], cut(ops, start, end))
    for pause in sorted(pauses, key=lambda pause: (not cut(sure, *pause), pause[1] != end, pause[0])):
        for begin, finish in difference([pause], cut(sure, *pause)):
            if left <= 0:
                return placed
            placed.append((begin, min(finish, begin + left)))
            left -= min(finish - begin, left)
    return placed


def _span_of(group: wire.SampleGroup) -> Span:
    """Return the span of a group; where nobody knows when its first request came, its longest ends with the last."""
    end = microseconds(group.at)
    if group.first_accepted_at is not None:
        return min(microseconds(group.first_accepted_at), end), end
    return end - microseconds(group.seconds_max or 0.0), end


def _busy(group: wire.SampleGroup, span: int) -> int:
    """Return how long requests were open; ops that a trainer sampled itself are told by their sum alone."""
    if group.busy_seconds:
        return microseconds(min(group.busy_seconds, 1e9))
    return span if group.seconds_sum is None else microseconds(min(group.seconds_sum, 1e9))
