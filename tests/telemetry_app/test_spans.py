"""Sets of instants: checked against sets of whole numbers, which say what they mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.spans import cut, difference, divided, intersection, length, length_until, union

_spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=10)


def instants(spans):
    return {instant for start, end in spans for instant in range(start, end)}


def is_canonical(spans):
    edges = [edge for span in spans for edge in span]
    return edges == sorted(set(edges))  # disjoint, oldest first, none empty, none that touch


@given(spans=_spans, others=_spans)
def test_what_comes_out_is_the_same_set_told_in_the_one_way(spans, others):
    for found, expected in (
        (union(spans), instants(spans)),
        (intersection(spans, others), instants(spans) & instants(others)),
        (difference(spans, others), instants(spans) - instants(others)),
    ):
        assert instants(found) == expected
        assert is_canonical(found)
        assert length(found) == len(expected)


@given(spans=_spans, others=_spans)
def test_one_pass_divides_as_two_would(spans, others):
    assert divided(union(spans), union(others)) == (intersection(spans, others), difference(spans, others))


@given(spans=_spans, start=st.integers(0, 60), end=st.integers(0, 60))
def test_a_stretch_of_spans_is_cut_and_measured(spans, start, end):
    start, end = min(start, end), max(start, end)
    expected = instants(spans) & set(range(start, end))
    assert instants(cut(union(spans), start, end)) == expected
    until = length_until(union(spans))
    assert until(end) - until(start) == len(expected)
