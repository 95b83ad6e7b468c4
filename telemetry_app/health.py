"""Health of a worker from its own facts. Pure."""

from __future__ import annotations

from enum import StrEnum

ALIVE_INTERVALS = 3  # heartbeats missed before a worker is late
LATE_INTERVALS = 12  # … before it is lost


class Health(StrEnum):
    ALIVE = "alive"
    LATE = "late"
    LOST = "lost"
    EXITED = "exited"


def worker_health(*, heartbeat_at: float, interval_seconds: float, exited: bool, now: float) -> Health:
    """Return a worker's health at `now` (unix seconds, on Redis's clock as far as it is known).

    `alive`: heartbeat within 3 intervals; `late`: within 12; `lost`: older, and it never said it exited.
    """
    if exited:
        return Health.EXITED
    age_seconds = now - heartbeat_at
    if age_seconds <= ALIVE_INTERVALS * interval_seconds:
        return Health.ALIVE
    return Health.LATE if age_seconds <= LATE_INTERVALS * interval_seconds else Health.LOST
