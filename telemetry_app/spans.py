"""Sets of instants as spans of whole microseconds, so that what is split adds up exactly. Pure.

A span is half-open, `[start, end)`. Functions take spans in any order, overlapping or not, and return disjoint ones,
oldest first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from operator import itemgetter

Span = tuple[int, int]


def microseconds(at: float) -> int:
    """Return unix seconds, or a duration in seconds, as whole microseconds."""
    return round(at * 1e6)


def seconds(duration: int) -> float:
    """Return a duration in microseconds as seconds."""
    return duration / 1e6


def length(spans: Iterable[Span]) -> int:
    """Return how long disjoint spans are together."""
    return sum(end - start for start, end in spans)


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the instants that are in any of the spans; one that ends before it begins holds none."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def cut(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """Return what of disjoint spans, oldest first, lies from `start` to `end`; quick where they are many."""
    first = bisect_right(spans, start, key=itemgetter(1))
    last = bisect_left(spans, end, key=itemgetter(0))
    return [(max(begin, start), min(finish, end)) for begin, finish in spans[first:last]]


def intersection(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Return the instants that are in both."""
    return divided(union(spans), union(others))[0]


def difference(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Return the instants that are in the spans and in none of the others."""
    return divided(union(spans), union(others))[1]


def divided(spans: Sequence[Span], others: Sequence[Span]) -> tuple[list[Span], list[Span]]:
    """Return the instants that are in both, and those that are in the spans alone, in one pass.

    Unlike the functions above it takes what they return: disjoint spans, oldest first.
    """
    if not others:
        return [], list(spans)
    inside: list[Span] = []
    outside: list[Span] = []
    place, count = 0, len(others)
    for start, end in spans:
        while place < count and others[place][1] <= start:
            place += 1
        while place < count and others[place][0] < end:
            begin, finish = others[place]
            if begin > start:
                outside.append((start, begin))
                start = begin
            if finish >= end:  # it may reach into the next span, too
                inside.append((start, end))
                start = end
                break
            inside.append((start, finish))
            start = finish
            place += 1
        if start < end:
            outside.append((start, end))
    return inside, outside


def length_until(spans: Sequence[Span]) -> Callable[[int], int]:
    """Return a function that tells how much of disjoint spans, oldest first, lies before an instant."""
    ends = [end for _, end in spans]
    sums = list(accumulate((end - start for start, end in spans), initial=0))

    def until(instant: int) -> int:
        whole = bisect_left(ends, instant)
        return sums[whole] if whole == len(ends) else sums[whole] + max(0, instant - spans[whole][0])

    return until
