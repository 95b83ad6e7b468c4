"""Unix seconds, aware datetimes and RFC 3339."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.instants import from_unix, rfc3339, to_unix


@given(st.floats(0, 4e9).map(lambda seconds: round(seconds, 6)))
def test_unix_seconds_survive_the_way_to_a_datetime_and_back(seconds):
    assert to_unix(from_unix(seconds)) == pytest.approx(seconds, abs=1e-6)


def test_no_instant_is_none_throughout():
    assert (from_unix(None), to_unix(None), rfc3339(None)) == (None, None, None)


def test_a_datetime_of_unix_seconds_is_aware_and_utc():
    assert from_unix(0.5) == datetime(1970, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "instant",
    [
        datetime(2026, 11, 30, 2, 40, 12, 120_999, tzinfo=UTC),
        datetime(2026, 11, 30, 4, 10, 12, 120_999, tzinfo=timezone(timedelta(hours=1, minutes=30))),
        1_796_006_412.120999,
    ],
)
def test_an_instant_is_written_in_utc_with_milliseconds(instant):
    assert rfc3339(instant) == "2026-11-30T02:40:12.120Z"
