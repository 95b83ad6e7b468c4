"""What one device did over a stretch of time, by run and by day, as rows. Pure; instants are unix seconds."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_app.device_sums import DeviceSums
from telemetry_app.spans import microseconds, seconds

COMPUTING, SWITCHING, IDLE_WHILE_WAITED, IDLE = ACTIVITIES = ("computing", "switching", "idle_while_waited", "idle")
DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """How long a device was in one state from `start` to `end`: computing for one run, or another.

    `share` is of that stretch. `neighbours_waited_seconds` is how long others waited while turns for the run held the
    device, each waiting turn on its own.
    """

    start: float
    end: float
    activity: str
    run_id: str | None
    seconds: float
    share: float
    neighbours_waited_seconds: float


def days_of(start: float, end: float) -> list[tuple[float, float]]:
    """Return the days (UTC) of a stretch, oldest first, the first and the last cut to it."""
    found, at = [], start
    while at < end:
        following = min((at // DAY_SECONDS + 1) * DAY_SECONDS, end)
        found.append((at, following))
        at = following
    return found


def device_rows(sums: DeviceSums, start: float, end: float) -> list[DeviceRow]:
    """Return what one device did from `start` to `end`: runs by time, and then the rest. They add up to all of it."""
    duration = microseconds(end) - microseconds(start)
    computing = {**dict.fromkeys(sums.neighbours_waited, 0), **sums.computing}
    told: list[tuple[str, str | None, int]] = [
        (COMPUTING, run, taken) for run, taken in sorted(computing.items(), key=lambda pair: (-pair[1], pair[0] or ""))
    ]
    told += [
        (SWITCHING, None, sums.switching),
        (IDLE_WHILE_WAITED, None, sums.idle_while_waited),
        (IDLE, None, sums.idle(duration)),
    ]
    waited = sums.neighbours_waited
    return [
        DeviceRow(
            start, end, activity, run_id, seconds(taken), taken / duration if duration else 0.0,
            seconds(waited.get(run_id, 0)) if activity == COMPUTING else 0.0,
        )
        for activity, run_id, taken in told
    ]  # fmt: skip
