"""What one device did over a stretch of time, by run and by day. Pure; instants are unix seconds.

Each instant is in one class (see `gpu_share.py`), so the rows of a stretch add up to it. A node is a device, and so
are all turns without a node together: turns tell no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from telemetry_app.device_time import DeviceTime, device_time, runs_of
from telemetry_app.gpu_share import gpu_share
from telemetry_app.spans import microseconds, seconds
from workers_client.wire import TurnRecord

UNNAMED = "unnamed"  # the device of turns without a node
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


def device_of(turn: TurnRecord) -> str:
    """Return the name of the device that a turn is of."""
    return turn.node or UNNAMED


def stretches(start: float, end: float, *, by_day: bool) -> list[tuple[float, float]]:
    """Return the whole, or its days (UTC), oldest first."""
    if not by_day:
        return [(start, end)]
    found, at = [], start
    while at < end:
        following = min((at // DAY_SECONDS + 1) * DAY_SECONDS, end)
        found.append((at, following))
        at = following
    return found


def device_rows(turns: Iterable[TurnRecord], start: float, end: float, *, by_day: bool = False) -> list[DeviceRow]:
    """Return what the one device of these turns did: days in order, within each runs by time, and then the rest."""
    known = list(turns)
    held = device_time(known)
    return [row for first, last in stretches(start, end, by_day=by_day) for row in _rows(known, held, first, last)]


def _rows(turns: Sequence[TurnRecord], held: DeviceTime, start: float, end: float) -> Iterator[DeviceRow]:
    share = gpu_share(turns, start=start, end=end)
    idle = share.idle_seconds if share.devices else end - start
    waited = _waited_by_holder(turns, held, start, end)
    computing = {**dict.fromkeys(waited, 0.0), **share.computing_seconds}
    rows = [
        (COMPUTING, run, taken) for run, taken in sorted(computing.items(), key=lambda pair: (-pair[1], pair[0] or ""))
    ]
    rest = ((SWITCHING, share.switching_seconds), (IDLE_WHILE_WAITED, share.idle_while_waited_seconds), (IDLE, idle))
    for state, run_id, taken in [*rows, *((state, None, taken) for state, taken in rest)]:
        neighbours = waited.get(run_id, 0) if state == COMPUTING else 0
        yield DeviceRow(start, end, state, run_id, taken, taken / (end - start), seconds(neighbours))


def _waited_by_holder(turns: Iterable[TurnRecord], held: DeviceTime, start: float, end: float) -> dict[str | None, int]:
    """Return how many microseconds others waited for each run's turns."""
    waited: dict[str | None, int] = {}
    for turn in turns:
        if turn.requested_at is None:
            continue
        span = microseconds(max(turn.requested_at, start)), microseconds(min(turn.started_at, end))
        own = runs_of(turn)
        for use, length in held.during([span] if span[0] < span[1] else []).items():
            if use is not None and use.run_id not in own:
                waited[use.run_id] = waited.get(use.run_id, 0) + length
    return waited
