"""Totals of a ledger that outlive a Redis which came back empty."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.ledger_totals import advance
from workers_client.wire_worker import Ledger


def totals_after(*ledgers):
    totals, seen = {}, {}
    for ledger in ledgers:
        moved = advance(totals, seen, ledger)
        totals, seen = moved.totals, moved.seen
    return totals


def test_the_first_ledger_is_the_total():
    assert totals_after(Ledger(enqueued=7, answered=5))["enqueued"] == 7


def test_a_ledger_that_goes_on_adds_the_difference():
    assert totals_after(Ledger(enqueued=7), Ledger(enqueued=7), Ledger(enqueued=9))["enqueued"] == 9


def test_a_ledger_that_started_again_adds_all_of_it():
    totals = totals_after(
        Ledger(enqueued=7, answered=7), Ledger(enqueued=2, answered=1), Ledger(enqueued=3, answered=3)
    )
    assert (totals["enqueued"], totals["answered"]) == (10, 10)


def test_a_count_that_the_ledger_does_not_have_leaves_its_total():
    assert totals_after(Ledger(recorded=5), Ledger(), Ledger(recorded=6))["recorded"] == 6


def test_a_count_never_said_has_no_total():
    assert "recorded" not in totals_after(Ledger(enqueued=1))


def test_what_was_given_stays_as_it_was():
    totals, seen = {"enqueued": 3}, {"enqueued": 3}
    advance(totals, seen, Ledger(enqueued=9))
    assert (totals, seen) == ({"enqueued": 3}, {"enqueued": 3})


@given(st.lists(st.lists(st.integers(0, 50), max_size=6), max_size=4))
def test_the_total_is_the_sum_over_the_lives_of_redis(lives):
    """A life counts upwards; the next one starts below where the last one ended, else nobody could tell."""
    ledgers, expected, last = [], 0, -1
    for life in lives:
        counts = sorted(life)
        if not counts or counts[0] >= last >= 0:
            continue
        ledgers += [Ledger(enqueued=count) for count in counts]
        expected += counts[-1]
        last = counts[-1]
    assert totals_after(*ledgers).get("enqueued", 0) == expected


@given(st.lists(st.integers(0, 1_000), min_size=1))
def test_a_total_never_falls(counts):
    totals = [
        totals_after(*(Ledger(enqueued=count) for count in counts[: end + 1]))["enqueued"] for end in range(len(counts))
    ]
    assert totals == sorted(totals)
    assert totals[-1] >= max(counts)
