"""What devices did over a stretch of time: of both sources, and what goes on now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from telemetry_app import stored_activity
from telemetry_app.device_share import ACTIVITIES, DAY_SECONDS, DeviceRow, device_of, device_rows
from telemetry_app.device_time import device_time
from telemetry_app.exceptions import HistoryUnavailableError, InvalidQueryError, LiveDataUnavailableError, NotFoundError
from telemetry_app.facts import known_workers
from telemetry_app.gpu_turns import first_instant
from telemetry_app.inspection.coverage import source_word
from telemetry_app.inspection.sources import history, or_none_where_live_is_out
from telemetry_app.inspection.turn_sources import new_turns
from telemetry_app.instants import rfc3339
from telemetry_app.open_activity import turns_now
from telemetry_app.readers import read_workers
from telemetry_app.spans import cut, length, microseconds, seconds
from workers_client import wire

SPAN_SECONDS = DAY_SECONDS  # where it is not said since when
MOST_SPAN_SECONDS = 400 * DAY_SECONDS


@dataclass(slots=True)
class DeviceTurns:
    """The turns of a stretch of time by device, and what could not be seen. With too many, `since` is later."""

    since: float
    until: float
    is_shortened: bool = False
    by_device: dict[str, list[wire.TurnRecord]] = field(default_factory=dict)
    coverage: dict[str, Any] = field(default_factory=dict)


def turns_of_devices(
    since: float | None,
    until: float | None,
    *,
    now: float,
    span_seconds: float = SPAN_SECONDS,
    most: int = stored_activity.MOST_RECORDS,
) -> DeviceTurns:
    """Return the turns of all devices from `since` to `until` (unix seconds), of `span_seconds` where it is not said.

    At most the newest `most` stored ones.

    Raises:
        InvalidQueryError: `until` is not after `since`, or more than 400 days after it.
        LiveDataUnavailableError: neither source can be asked.
    """
    workers = or_none_where_live_is_out(read_workers)
    clock = (workers.redis_time if workers else None) or now
    end = clock if until is None else min(until, clock)
    found = DeviceTurns(since=max(0.0, end - span_seconds) if since is None else since, until=end)
    if not found.since < found.until <= found.since + MOST_SPAN_SECONDS:
        rule = f"must be after since={rfc3339(found.since)}, and at most 400 days"
        raise InvalidQueryError("until", f"until={rfc3339(found.until)} {rule}.")
    live = new_turns() if workers is not None else None
    stored, has_history = _stored(found, most)
    if workers is None and not has_history:
        raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.")
    facts = known_workers(workers, clock) if workers else []
    for turn in [*stored, *(live.records if live else ()), *turns_now(facts, clock)]:
        if turn.at > found.since and first_instant(turn) < found.until:
            found.by_device.setdefault(device_of(turn), []).append(turn)
    found.coverage = {
        "live": live is not None and live.is_live,
        "history": has_history and (live is None or live.has_history),
        "source": source_word(live=live is not None, stored=bool(stored) or live is None),
        "malformed_turns": live.malformed_count if live else 0,
        "is_span_shortened": found.is_shortened,
    }
    return found


def device_fields(
    device: str, turns: Sequence[wire.TurnRecord], found: DeviceTurns, rows: Sequence[DeviceRow] | None = None
) -> dict[str, Any]:
    """Return one device as the list shows it; `rows` are those of the whole time, where they were made already."""
    rows = device_rows(turns, found.since, found.until) if rows is None else rows
    states = {state: sum((row.seconds for row in rows if row.activity == state), start=0.0) for state in ACTIVITIES}
    start, end = microseconds(found.since), microseconds(found.until)
    return {
        "device": device,
        "turns_count": len(turns),
        "last_turn_at": rfc3339(max(turn.at for turn in turns)),
        "workloads": sorted({turn.workload for turn in turns}),
        "computing_seconds": states["computing"],
        "switching_seconds": states["switching"],
        "idle_while_waited_seconds": states["idle_while_waited"],
        "idle_seconds": states["idle"],
        "overlap_seconds": seconds(length(cut(device_time(turns).overlaps, start, end))),
    }


def rows_of_device(device: str, found: DeviceTurns, *, by_day: bool) -> list[DeviceRow]:
    """Return what one device did.

    Raises:
        NotFoundError: it had no turn in that time.
    """
    if device not in found.by_device:
        told = f"from {rfc3339(found.since)} to {rfc3339(found.until)}"
        raise NotFoundError(f"There is no turn of a device {device[: wire.RUN_ID_LIMIT]!r} {told}.")
    return device_rows(found.by_device[device], found.since, found.until, by_day=by_day)


def row_fields(row: DeviceRow) -> dict[str, Any]:
    """Return one row as the API shows it."""
    return {
        "since": rfc3339(row.start),
        "until": rfc3339(row.end),
        "activity": row.activity,
        "run_id": row.run_id,
        "seconds": row.seconds,
        "share": row.share,
        "neighbours_waited_seconds": row.neighbours_waited_seconds,
    }


def _stored(found: DeviceTurns, most: int) -> tuple[list[wire.TurnRecord], bool]:
    """Return the newest stored turns of the stretch; with too many the stretch begins with the oldest of them."""
    try:
        stored = history(lambda: stored_activity.turns_between(found.since, found.until, most))
    except HistoryUnavailableError:
        return [], False
    if len(stored) == most:
        found.since, found.is_shortened = max(found.since, min(turn.at for turn in stored)), True
    return stored, True
