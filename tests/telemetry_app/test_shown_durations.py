"""How pages write durations: the unit that suits them, and the sign of what is behind."""

from __future__ import annotations

import pytest

from telemetry_app.templatetags.telemetry import duration


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 ms"), (0.00111, "1 ms"), (0.0005, "500 µs"), (12.34, "12.3 s"), (250, "4 min 10 s"),
        (7_500, "2 h 5 min"), (3 * 86_400, "3 d"), (-0.00111, "−1 ms"), (-250, "−4 min 10 s"), (None, "–"),
    ],
)  # fmt: skip
def test_a_duration_has_the_unit_that_suits_it(seconds: float | None, expected: str) -> None:
    assert duration(seconds) == expected
