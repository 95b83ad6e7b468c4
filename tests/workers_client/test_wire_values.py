"""Checks of single values: each returns the usable value or nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers_client import wire_values as values

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("value", [True, False, None, "1", [], {}, math.nan, math.inf, -math.inf, 10**400])
def test_no_finite_number_is_none(value):
    assert values.number(value) is None


@pytest.mark.parametrize(("value", "expected"), [(0, 0.0), (-1.5, -1.5), (2**60, float(2**60))])
def test_a_finite_number_is_a_float(value, expected):
    assert values.number(value) == expected


@pytest.mark.parametrize("value", [0, -1, 1e-9, values.LAST_INSTANT + 1, math.nan, "2026-11-30", True])
def test_an_instant_outside_of_1970_to_9999_is_none(value):
    assert values.instant(value) is None


def test_the_last_instant_of_9999_is_one():
    assert values.instant(values.LAST_INSTANT) == values.LAST_INSTANT


def test_an_instant_has_the_microseconds_that_history_keeps():
    assert values.instant(1_800_000_000.123456789) == 1_800_000_000.123457


@pytest.mark.parametrize(("value", "expected"), [(0, 0.0), (1.5, 1.5), (-0.1, None), (math.inf, None)])
def test_a_duration_is_never_negative(value, expected):
    assert values.duration(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (4.0, 4), (4.5, None), (-1, None), (2**53, 2**53), (2**53 + 1, None), (True, None), (1e300, None)],
)
def test_a_count_is_a_whole_number_that_every_json_reader_holds(value, expected):
    assert values.count(value) == expected


@pytest.mark.parametrize("value", ["", None, 1, ["a"], "x" * 513])
def test_no_text_of_1_to_512_characters_is_none(value):
    assert values.text(value) is None


def test_a_text_keeps_emoji_and_new_lines():
    assert values.text("läuft 🚀\nweiter") == "läuft 🚀\nweiter"


@pytest.mark.parametrize(("raw", "expected"), [("a\x00b", "a\ufffdb"), ("a\ud800b", "a?b")])
def test_what_no_store_can_hold_is_replaced(raw, expected):
    assert values.text(raw) == expected


@given(ANYTHING)
def test_any_value_becomes_a_storable_text_or_none(value):
    text = values.text(value)
    assert text is None or (0 < len(text) <= values.TEXT_LIMIT and "\x00" not in text and text.encode())


@given(ANYTHING)
def test_metrics_of_anything_are_finite_and_named(value):
    for name, number in values.metrics(value).items():
        assert math.isfinite(number)
        assert 0 < len(name) <= values.METRIC_NAME_LIMIT


@given(ANYTHING)
def test_nonfinite_of_anything_maps_names_to_kinds(value):
    kinds = values.nonfinite(value).values()
    assert set(kinds) <= {*values.NONFINITE_KINDS, values.UNKNOWN_KIND}


def test_metrics_keep_256_of_more():
    assert len(values.metrics({f"m{number}": 1.0 for number in range(300)})) == values.METRICS_LIMIT


def test_a_stand_in_for_a_nonfinite_value_is_no_metric():
    assert values.metrics({"loss": 0.0, "reward": 1.0}, without={"loss": "nan"}) == {"reward": 1.0}


def test_a_bare_list_of_nonfinite_names_has_unknown_kinds():
    assert values.nonfinite(["loss", 3, "grad_norm"]) == {"loss": "unknown", "grad_norm": "unknown"}


@pytest.mark.parametrize("kind", ["NaN", 7, None, [], {}, ["nan"]])
def test_a_kind_that_is_no_word_of_the_contract_is_unknown(kind):
    assert values.nonfinite({"loss": kind}) == {"loss": "unknown"}


def test_nonfinite_metrics_name_their_kinds():
    metrics = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1.0, "e": "nan"}
    assert values.nonfinite_of(metrics) == {"a": "nan", "b": "inf", "c": "-inf"}


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb", "a\x00b", "\ud800"])
def test_a_metric_name_that_no_store_or_page_can_hold_is_left_out(name):
    assert values.metrics({name: 1.0, "loss:sum": 2.0}) == {"loss:sum": 2.0}
