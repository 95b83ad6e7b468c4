"""A caller's parameters: each checked, and refused by name, value and rule."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.api.parameters import Parameters
from telemetry_app.exceptions import InvalidQueryError


def given_(query):
    return Parameters(QueryDict(query), ("n", "t", "page_size"))


def refusal(call):
    with pytest.raises(InvalidQueryError) as caught:
        call()
    return caught.value


def test_an_unknown_parameter_is_refused_with_the_known_ones():
    error = refusal(lambda: Parameters(QueryDict("lst=5"), ("last", "before")))
    assert error.parameter == "lst"
    assert str(error) == "'lst' is not a parameter of this endpoint. The known ones are before, last."


def test_an_endpoint_without_parameters_says_so():
    assert "There are none." in str(refusal(lambda: Parameters(QueryDict("a=1"), ())))


@pytest.mark.parametrize(("query", "expected"), [("", 20), ("n=0", 0), ("n=007", 7), ("n=9007199254740992", 2**53)])
def test_a_whole_number_is_read(query, expected):
    assert given_(query).number("n", 20) == expected


@pytest.mark.parametrize(
    "raw", ["", "-1", "1.5", "1e3", "seven", "%2B1", "²", "٣", "9007199254740993", "9" * 400, "0x1"]
)
def test_what_is_no_whole_number_is_refused_by_value_and_rule(raw):
    error = refusal(lambda: given_(f"n={raw}").number("n"))
    assert error.parameter == "n"
    assert "must be a whole number, 0 or more" in str(error)


def test_a_text_is_read_and_an_empty_one_is_none():
    assert given_("t=a%20b").text("t") == "a b"
    assert given_("t=").text("t") is None
    assert given_("").text("t") is None


@pytest.mark.parametrize("raw", ["a%00b", "x" * 1_001])
def test_a_text_that_no_store_can_hold_is_refused(raw):
    assert refusal(lambda: given_(f"t={raw}").text("t")).parameter == "t"


def test_a_word_that_is_not_allowed_is_refused_with_those_that_are():
    error = refusal(lambda: given_("t=purple").choice("t", ["red", "blue"]))
    assert str(error) == "t='purple' must be one of red, blue."


@pytest.mark.parametrize(
    "raw",
    ["2026-11-30T02:40:12Z", "2026-11-30T03:40:12%2B01:00", "2026-11-30T03:40:12+01:00", "2026-11-30T02:40:12.000Z"],
)
def test_an_instant_is_read_with_its_offset(raw):
    assert given_(f"t={raw}").instant("t") == datetime(2026, 11, 30, 2, 40, 12, tzinfo=UTC)


def test_an_instant_of_any_offset_comes_in_utc():
    found = Parameters(QueryDict("since=2026-11-30T02:40:12%2B19:54"), ["since"]).instant("since")
    assert found.isoformat() == "2026-11-29T06:46:12+00:00"


@pytest.mark.parametrize(
    "raw",
    ["2026-11-30T02:40:12", "2026-11-30", "yesterday", "", "2026-13-30T02:40:12Z", "1796006412",
     "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00%2B23:59"],
)  # fmt: skip
def test_an_instant_without_offset_or_sense_is_refused(raw):
    assert "RFC 3339" in str(refusal(lambda: given_(f"t={raw}").instant("t")))


@pytest.mark.parametrize(("query", "expected"), [("", 50), ("page_size=1", 1), ("page_size=500", 500)])
def test_a_page_holds_as_many_as_asked(query, expected):
    assert given_(query).page_size() == expected


@pytest.mark.parametrize("raw", ["0", "501", "-3", "all"])
def test_a_page_without_bound_is_refused(raw):
    assert refusal(lambda: given_(f"page_size={raw}").page_size()).parameter == "page_size"


@given(st.text(max_size=30))
def test_no_text_crashes_a_parameter(raw):
    query = QueryDict(mutable=True)
    query["t"] = raw
    parameters = Parameters(query, ("t",))
    for read in (parameters.text, parameters.number, parameters.instant, lambda name: parameters.choice(name, ["a"])):
        try:
            value = read("t")
        except InvalidQueryError as error:
            value = error.parameter
        assert value is None or value == "t" or str(value)
