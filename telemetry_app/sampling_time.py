"""When a run's sampling requests were open, as group records tell it. Pure.

A group says how long requests were open (`busy_seconds`) within a span (first acceptance to last answer), not when.
Its time is placed so, until it is used up:

1. From the first acceptance to the first answer: a request is open all the while.
2. While a sampler's turn worked for the run.
3. Between the run's ops, where a client samples before it goes on: first around 1 and 2, next before the last answer,
   then in the other pauses from the oldest on.

Time that the span has beyond that belongs to whatever else was true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from telemetry_app.spans import Span, cut, difference, intersection, length, microseconds, union
from workers_client import wire

SAMPLE = wire.SAMPLE
_WHOLE = 1_000  # microseconds that may lack of a span that was busy throughout: its two ends come from two processes


def sampling_spans(records: Iterable[wire.SampleRecord], ops: Iterable[Span], turns: Iterable[Span]) -> list[Span]:
    """Return when sampling requests were open: `ops` are the run's open ops, `turns` those of samplers for it."""
    busy_with_ops, serving = union(ops), union(turns)
    found: list[Span] = []
    for record in records:
        if isinstance(record, wire.SampleGroup):
            found += _of_group(record, busy_with_ops, serving)
        elif record.accepted_at is not None:
            found.append((microseconds(record.accepted_at), microseconds(record.at)))
    return union(found)


def _of_group(group: wire.SampleGroup, ops: Sequence[Span], serving: Sequence[Span]) -> list[Span]:
    start, end = _span_of(group)
    left = _busy(group, end - start)
    if left >= end - start - _WHOLE:
        return [(start, end)]
    first_answer = end if group.first_answered_at is None else microseconds(group.first_answered_at)
    sure = union([(start, min(first_answer, end)), *cut(serving, start, end)])
    placed = list(sure)
    left -= length(sure)
    pauses = difference([(start, end)], ops)
    for pause in sorted(pauses, key=lambda pause: (not intersection([pause], sure), pause[1] != end, pause[0])):
        for begin, finish in difference([pause], sure):
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
