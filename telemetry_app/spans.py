"""Sets of instants as spans of whole microseconds, so that what is split adds up exactly. Pure.

A span is half-open, `[start, end)`. Functions take spans in any order, overlapping or not, and return disjoint ones,
oldest first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

Span = tuple[int, int]
_EVER = 2**63  # microseconds: before and behind every instant


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
    first, second = union(spans), union(others)
    found: list[Span] = []
    place = 0
    for start, end in first:
        while place < len(second) and second[place][1] <= start:
            place += 1
        index = place
        while index < len(second) and second[index][0] < end:
            found.append((max(start, second[index][0]), min(end, second[index][1])))
            index += 1
    return found


def difference(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Return the instants that are in the spans and in none of the others."""
    edges = [-_EVER, *(edge for span in union(others) for edge in span), _EVER]
    return intersection(spans, zip(edges[::2], edges[1::2], strict=True))
