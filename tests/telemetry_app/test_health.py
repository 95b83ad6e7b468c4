"""Health of a worker from its own facts."""

from __future__ import annotations

import pytest

from telemetry_app.health import worker_health
from tests.support.records import START


def health(age_seconds, *, exited=False, interval_seconds=5.0):
    now = START + age_seconds
    return worker_health(heartbeat_at=START, interval_seconds=interval_seconds, exited=exited, now=now).value


@pytest.mark.parametrize(
    ("age_seconds", "expected"),
    [(0, "alive"), (15, "alive"), (15.1, "late"), (60, "late"), (60.1, "lost"), (86_400, "lost")],
)
def test_health_follows_the_heartbeats_missed(age_seconds, expected):
    assert health(age_seconds) == expected


def test_a_slower_worker_has_longer():
    assert health(60.1, interval_seconds=30.0) == "alive"


@pytest.mark.parametrize("age_seconds", [0, 30, 86_400])
def test_a_worker_that_said_so_has_exited_whatever_its_age(age_seconds):
    assert health(age_seconds, exited=True) == "exited"


def test_a_heartbeat_from_a_clock_ahead_is_alive():
    assert health(-3_600) == "alive"
