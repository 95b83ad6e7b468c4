"""Rates from instants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.rates import RATE_INSTANTS, RATE_WINDOW_SECONDS, per_hour, per_second, percentile_95
from tests.support.records import START


def test_steps_a_minute_apart_are_sixty_an_hour():
    assert per_hour([START, START + 60, START + 120], now=START + 130) == 60.0


def test_a_rate_is_taken_over_the_newest_instants():
    slow = [START - 10_000 * n for n in range(1, 9)]
    fast = [START + n for n in range(RATE_INSTANTS)]
    assert per_hour(slow + fast, now=START + RATE_INSTANTS) == 3600.0


@given(st.permutations([START, START + 30, START + 90]))
def test_the_order_of_instants_changes_no_rate(instants):
    assert per_hour(instants, now=START + 90) == 80.0


@pytest.mark.parametrize("instants", [[], [START], [START, START]])
def test_a_rate_of_fewer_than_two_instants_is_unknown(instants):
    assert per_hour(instants, now=START) is None


def test_a_rate_of_a_run_that_is_quiet_is_unknown_and_not_0():
    assert per_hour([START, START + 60], now=START + 61 + RATE_WINDOW_SECONDS) is None


def test_amounts_a_second_count_the_window_alone():
    amounts = [(START - 500, 7.0), (START - 100, 20.0), (START - 10, 10.0)]
    assert per_second(amounts, now=START, window_seconds=300) == 0.1


def test_amounts_younger_than_the_window_are_taken_since_the_oldest():
    amounts = [(START - 20, 30.0), (START - 10, 10.0)]
    assert per_second(amounts, now=START, window_seconds=300) == 2.0


def test_an_amount_of_this_instant_is_taken_over_a_second():
    assert per_second([(START, 5.0)], now=START, window_seconds=300) == 5.0


def test_amounts_a_second_are_unknown_without_any():
    assert per_second([(START - 500, 7.0)], now=START, window_seconds=300) is None


@pytest.mark.parametrize(
    ("values", "expected"), [([], None), ([3.0], 3.0), (range(1, 21), 19), (range(1, 101), 95), ([2.0, 1.0], 2.0)]
)
def test_the_95th_percentile_is_by_nearest_rank(values, expected):
    assert percentile_95(list(values)) == expected


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=200))
def test_at_most_a_twentieth_of_the_values_lies_above_the_95th_percentile(values):
    found = percentile_95(values)
    assert found in values
    assert sum(value > found for value in values) <= len(values) / 20
