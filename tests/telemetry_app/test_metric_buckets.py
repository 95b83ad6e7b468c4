"""Metrics by buckets of steps: nothing is lost at the extremes, and the same steps make the same buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.grouping import group_operations
from telemetry_app.metric_buckets import Bucket, buckets_of, width_for
from tests.support.records import START, op

NAMES = frozenset({"m"})


def folded(values, width):
    """Return the buckets of one metric whose values are given by step."""
    records = [(step, op("f", at=START + n, step=step, metrics={"m": value})) for n, (step, value) in enumerate(values)]
    return buckets_of(group_operations(records).items(), NAMES, width).get(("f", "m"), {})


@pytest.mark.parametrize(
    ("first", "last", "points", "expected"),
    [(0, 499, 500, 1), (0, 500, 500, 2), (0, 999, 500, 2), (0, 100_000, 500, 256), (3, 3, 1, 1), (1, 2, 1, 4)],
)
def test_a_bucket_is_as_narrow_as_the_points_allow(first, last, points, expected):
    assert width_for(first, last, points) == expected


@given(first=st.integers(0, 2**53), length=st.integers(0, 10**6), points=st.integers(1, 2_000))
def test_there_are_never_more_buckets_than_points(first, length, points):
    width = width_for(first, first + length, points)
    assert (first + length) // width - first // width + 1 <= points


def test_the_same_steps_make_the_same_bucket_while_the_run_goes_on():
    values = [(step, float(step % 7)) for step in range(100)]
    now, later = folded(values[:70], width_for(0, 69, 50)), folded(values, width_for(0, 99, 50))
    assert {number: now[number] for number in range(34)} == {number: later[number] for number in range(34)}


@given(values=st.lists(st.tuples(st.integers(0, 300), st.floats(-1e300, 1e300)), min_size=1, max_size=60))
def test_minima_and_maxima_survive_with_their_steps(values):
    buckets = folded(values, 16).values()
    least, greatest = min(value for _, value in values), max(value for _, value in values)
    assert min(bucket.least for bucket in buckets) == least
    assert max(bucket.greatest for bucket in buckets) == greatest
    for bucket in buckets:
        assert (bucket.least_step, bucket.least) in values
        assert (bucket.greatest_step, bucket.greatest) in values
    assert sum(bucket.count for bucket in buckets) == len(values)


@given(
    values=st.lists(st.tuples(st.integers(0, 40), st.integers(-9, 9)), min_size=2, max_size=40), cut=st.integers(1, 40)
)
def test_two_parts_make_the_same_buckets_as_the_whole(values, cut):
    values = sorted((step, float(value)) for step, value in values)
    whole, parts = folded(values, 8), folded([pair for pair in values if pair[0] < cut], 8)
    for number, bucket in folded([pair for pair in values if pair[0] >= cut], 8).items():
        parts.setdefault(number, Bucket()).add(bucket)
    assert parts.keys() == whole.keys()
    for number, bucket in parts.items():
        assert bucket.total == pytest.approx(whole[number].total)
        bucket.total = whole[number].total
        assert bucket == whole[number]


def test_a_bucket_without_values_is_a_gap():
    assert set(folded([(0, 1.0), (9, 2.0)], 2)) == {0, 4}


def test_means_of_monstrous_values_stay_finite():
    buckets = folded([(0, 1.7e308), (0, 1.7e308), (1, 1.7e308)], 2)
    assert buckets[0].mean == pytest.approx(1e290)
    assert buckets[0].greatest == 1.7e308
