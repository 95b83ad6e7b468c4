"""Where the time of open sampling requests is placed within the span that a record tells."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.sampling_time import sampling_spans
from telemetry_app.spans import length, microseconds
from tests.support.records import START, sample_failure, sample_group


def spans_of(*records, ops=(), turns=()):
    found = sampling_spans(records, [span(*op) for op in ops], [span(*turn) for turn in turns])
    return [(start / 1e6 - START, end / 1e6 - START) for start, end in found]


def span(start, end):
    return microseconds(START + start), microseconds(START + end)


def group(first, last, busy, answered=None, **fields):
    return sample_group(
        at=START + last,
        first_accepted_at=START + first,
        first_answered_at=None if answered is None else START + answered,
        busy_seconds=busy,
        **fields,
    )


def test_a_span_that_was_busy_throughout_is_all_sampling():
    assert spans_of(group(0, 10, 10.0)) == [(0, 10)]


def test_a_request_is_open_up_to_the_first_answer():
    assert spans_of(group(0, 10, 4.0, answered=4)) == [(0, 4)]


def test_time_is_placed_where_samplers_worked_for_the_run():
    assert spans_of(group(0, 20, 5.0, answered=2), turns=[(10, 13)]) == [(0, 2), (10, 13)]


def test_time_is_placed_in_pauses_between_ops_around_what_is_sure():
    found = spans_of(group(0, 20, 8.0, answered=2), ops=[(5, 10), (14, 18)])
    assert found == [(0, 5), (10, 11), (18, 20)]  # around the first answer, before the last, and then the oldest pause


def test_no_more_is_placed_than_was_measured():
    assert sum(end - start for start, end in spans_of(group(0, 100, 7.0, answered=1))) == 7.0


def test_groups_whose_spans_overlap_are_placed_together():
    # a request open from 0 to 9 and one from 1 to 4: the first window was closed at 5
    assert spans_of(group(1, 4, 5.0, worker="d"), group(0, 9, 4.0, worker="d")) == [(0, 9)]


def test_groups_of_two_workers_are_placed_each_on_its_own():
    assert spans_of(group(0, 4, 1.0, answered=1, worker="d"), group(2, 6, 4.0, worker="e")) == [(0, 1), (2, 6)]


def test_a_trainers_own_samples_are_told_by_their_sum():
    record = sample_group(at=START + 10, first_accepted_at=START + 6, seconds_sum=4.0, busy_seconds=0.0)
    assert spans_of(record) == [(6, 10)]


def test_a_failed_answer_was_open_from_its_acceptance():
    assert spans_of(sample_failure(at=START + 5, accepted_at=START + 2), sample_failure(at=START + 9)) == [(2, 5)]


_at = st.integers(0, 100)


@given(
    groups=st.lists(st.tuples(_at, _at, st.floats(0, 120), _at), max_size=5),
    ops=st.lists(st.tuples(_at, _at), max_size=5),
)
def test_spans_are_disjoint_and_within_what_the_groups_tell(groups, ops):
    records = [group(min(a, b), max(a, b), busy, answered=c, seconds_sum=busy) for a, b, busy, c in groups]
    found = sampling_spans(records, [span(*op) for op in ops], [])
    assert all(start < end for start, end in found)
    assert all(first[1] < second[0] for first, second in pairwise(found))
    outer = [(min(a, b), max(a, b)) for a, b, _, _ in groups]
    assert all(any(span(a, b)[0] <= s and e <= span(0, 100)[1] for a, b in outer) for s, e in found)
    assert length(found) <= sum(b - a for a, b in outer) * 1_000_000
