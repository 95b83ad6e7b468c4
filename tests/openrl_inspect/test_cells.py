"""What stands in cells: units, dashes for what is not known, and nothing that a terminal would obey."""

from __future__ import annotations

import pytest

from openrl_inspect import cells

NOW = "2026-11-30T12:00:00.000Z"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"), (True, "–"), (0, "0 s"), (0.0412, "41 ms"), (0.25, "0.2 s"), (9.94, "9.9 s"), (9.96, "10 s"),
        (59.4, "59 s"), (119.4, "1 min 59 s"), (120, "2 min"), (7_300, "2 h 1 min"), (200_000, "2 d 7 h"),
    ],
)  # fmt: skip
def test_seconds_have_the_unit_that_suits_them(value, shown):
    assert cells.seconds(value) == shown


def test_names_of_the_api_are_words_with_their_capitals():
    assert [cells.words(name) for name in ("waiting_for_gpu", "gpu_switch", "late", None)] == [
        "waiting for GPU", "GPU switch", "late", "–",
    ]  # fmt: skip
    assert cells.word("waiting_for_gpu").plain == "waiting for GPU"


@pytest.mark.parametrize(
    ("instant", "shown"),
    [
        ("2026-11-30T11:59:58.000Z", "2 s"), ("2026-11-30T11:30:00.000Z", "30 min"),
        ("2026-11-28T11:00:00.000Z", "2 d"),
        ("2026-11-30T12:00:03.000Z", "0 s"), (None, "–"), ("yesterday", "–"), (7, "–"),
    ],
)  # fmt: skip
def test_ages_are_told_by_the_answers_own_instant(instant, shown):
    assert cells.ago(instant, NOW) == shown


def test_what_a_site_does_not_say_is_a_dash():
    row = {"a": {"b": 3}, "c": None}
    assert [cells.value_at(row, path) for path in ("a.b", "a.x", "c.d", "x")] == [3, None, None, None]
    assert [show(None) for show in (cells.plain, cells.count, cells.number, cells.share, cells.several)] == ["–"] * 5


def test_an_id_keeps_both_ends_where_there_is_no_room():
    assert cells.shortened("abcdefghij", 10) == "abcdefghij"
    assert cells.shortened("abcdefghij", 7) == "abc…hij"
    assert len(cells.shortened("abcdefghij", 6)) == 6


def test_controls_and_direction_marks_are_shown_as_dots():
    assert cells.plain("a\x1b[31m\u202eb\nc") == "a·[31m·b·c"
