"""How sentences write names of the contract and spans of time."""

from __future__ import annotations

import pytest

from telemetry_app.models import RunState
from telemetry_app.plain_words import exact_span_words, in_words, span_words


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (286, "4 min 46 s"), (7_500, "2 h 5 min"), (90_000, "1 d 1 h"),
    ],
)  # fmt: skip
def test_a_span_has_the_two_largest_of_its_units(seconds: float, expected: str) -> None:
    assert span_words(seconds) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(0.0763, "0.0763 s"), (59.4, "59.4 s"), (1_240, "20 min 40 s")])
def test_what_is_compared_keeps_its_digits_below_a_minute(seconds: float, expected: str) -> None:
    assert exact_span_words(seconds) == expected


def test_names_are_written_with_the_capitals_that_people_give_them() -> None:
    assert in_words(RunState.WAITING_FOR_GPU) == "waiting for GPU"
    assert in_words("api_server") == "API server"
