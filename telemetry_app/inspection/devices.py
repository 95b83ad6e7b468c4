"""What devices did over a stretch of time: of both sources, and what goes on now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from telemetry_app import stored_device_time
from telemetry_app.device_parts import DAY, DeviceFold, Mark, Part, Seen, add_seen, add_sums, parts_between, seen_of
from telemetry_app.device_share import DAY_SECONDS, DeviceRow, days_of, device_rows
from telemetry_app.device_sums import DeviceSums
from telemetry_app.device_turns import DeviceTurn, device_turn
from telemetry_app.exceptions import HistoryUnavailableError, InvalidQueryError, LiveDataUnavailableError, NotFoundError
from telemetry_app.facts import known_workers
from telemetry_app.inspection.coverage import source_word
from telemetry_app.inspection.sources import history, or_none_where_live_is_out
from telemetry_app.inspection.turn_sources import new_turns
from telemetry_app.instants import rfc3339
from telemetry_app.kept_parts import KeptParts
from telemetry_app.open_activity import turns_now
from telemetry_app.readers import read_workers
from telemetry_app.spans import Span, microseconds, seconds
from workers_client import wire

SPAN_SECONDS = DAY_SECONDS  # where it is not said since when
MOST_SPAN_SECONDS = 400 * DAY_SECONDS
MOST_TURNS = 500_000  # newest stored turns that an answer is made of: about ten seconds where nothing of them is kept
KEPT_WEIGHT = 20_000  # a month of 100 devices, about 20 MB

_kept: KeptParts[Mark, Part] = KeptParts(KEPT_WEIGHT)


@dataclass(slots=True)
class DeviceTimes:
    """What each device did from `since` to `until`, by day (days since 1970), and what could not be seen.

    `seen` has each device that had a turn. With too many turns `since` is later than what was asked for.
    """

    since: float
    until: float
    is_shortened: bool = False
    days: dict[int, dict[str, DeviceSums]] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    coverage: dict[str, Any] = field(default_factory=dict)
    _totals: dict[str, DeviceSums] = field(init=False, default_factory=dict)

    @property
    def first_instant(self) -> float | None:
        """When the first of the turns was asked for, or began."""
        return seconds(min(seen.first for seen in self.seen.values())) if self.seen else None

    def of(self, device: str) -> DeviceSums:
        """Return what a device did in all that time."""
        if device not in self._totals:
            found = self._totals[device] = DeviceSums()
            for devices in self.days.values():
                if device in devices:
                    found.add(devices[device])
        return self._totals[device]

    def rows(self, device: str, *, by_day: bool = False) -> list[DeviceRow]:
        """Return what a device did, by run, or by day and run, oldest day first."""
        if not by_day:
            return device_rows(self.of(device), self.since, self.until)
        return [
            row
            for start, end in days_of(self.since, self.until)
            for row in device_rows(self._of_day(device, start), start, end)
        ]

    def add(self, span: Span, part: Part) -> None:
        """Count a part of the time."""
        add_sums(self.days.setdefault(span[0] // DAY, {}), part.sums)
        add_seen(self.seen, part.seen)

    def _of_day(self, device: str, start: float) -> DeviceSums:
        return self.days.get(microseconds(start) // DAY, {}).get(device) or DeviceSums()


def device_times(
    since: float | None, until: float | None, *, now: float, span_seconds: float = SPAN_SECONDS
) -> DeviceTimes:
    """Return what all devices did from `since` to `until` (unix seconds), of `span_seconds` where it is not said.

    Raises:
        InvalidQueryError: `until` is not after `since`, or more than 400 days after it.
        LiveDataUnavailableError: neither source can be asked.
    """
    workers = or_none_where_live_is_out(read_workers)
    clock = (workers.redis_time if workers else None) or now
    end = clock if until is None else min(until, clock)
    found = DeviceTimes(since=max(0.0, end - span_seconds) if since is None else since, until=end)
    if not 0 < microseconds(found.until) - microseconds(found.since) <= microseconds(MOST_SPAN_SECONDS):
        rule = f"must be after since={rfc3339(found.since)}, and at most 400 days"
        raise InvalidQueryError("until", f"until={rfc3339(found.until)} {rule}.")
    live = new_turns() if workers is not None else None
    facts = known_workers(workers, clock) if workers else []
    fresh = [device_turn(turn) for turn in (*(live.records if live else ()), *turns_now(facts, clock))]
    try:
        is_stored, has_history = history(lambda: _fold_stored(found, fresh)), True
    except HistoryUnavailableError:
        if workers is None:
            raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.") from None
        is_stored, has_history = False, False
        found.days, found.seen = {}, {}
        _fold(found, {}, (), fresh)
    found.coverage = {
        "live": live is not None and live.is_live,
        "history": has_history and (live is None or live.has_history),
        "source": source_word(live=live is not None, stored=is_stored or live is None),
        "malformed_turns": live.malformed_count if live else 0,
        "is_span_shortened": found.is_shortened,
    }
    return found


def forget() -> None:
    """Forget what is kept of parts."""
    _kept.clear()


def device_fields(device: str, found: DeviceTimes) -> dict[str, Any]:
    """Return one device as the list shows it."""
    sums, seen = found.of(device), found.seen[device]
    return {
        "device": device,
        "turns_count": seen.turns_count,
        "last_turn_at": rfc3339(seconds(seen.last)),
        "workloads": sorted(seen.workloads),
        "computing_seconds": seconds(sum(sums.computing.values())),
        "switching_seconds": seconds(sums.switching),
        "idle_while_waited_seconds": seconds(sums.idle_while_waited),
        "idle_seconds": seconds(sums.idle(microseconds(found.until) - microseconds(found.since))),
        "overlap_seconds": seconds(sums.overlap),
    }


def rows_of_device(device: str, found: DeviceTimes, *, by_day: bool) -> list[DeviceRow]:
    """Return what one device did.

    Raises:
        NotFoundError: it had no turn in that time.
    """
    if device not in found.seen:
        told = f"from {rfc3339(found.since)} to {rfc3339(found.until)}"
        raise NotFoundError(f"There is no turn of a device {device[: wire.RUN_ID_LIMIT]!r} {told}.")
    return found.rows(device, by_day=by_day)


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


# --- From turns -------------------------------------------------------------------------------------------------
def _fold_stored(found: DeviceTimes, fresh: Iterable[DeviceTurn]) -> bool:
    """Count stored turns and fresh ones, and return whether there are stored ones.

    With too many the stretch begins with the oldest part of which all are counted.
    """
    spans = _spans(found)
    marks = stored_device_time.marks_of(spans)
    count = 0
    for span in spans:
        count += marks[span].turns_count if span in marks else 0
        if count > MOST_TURNS and span[1] < spans[0][1]:
            found.since, found.is_shortened = seconds(span[1]), True
            break
    later = stored_device_time.turns_that_end_later(spans[0][1])
    _fold(found, marks, later, fresh)
    return bool(marks or later)


def _fold(
    found: DeviceTimes, marks: Mapping[Span, Mark], later: Sequence[DeviceTurn], fresh: Iterable[DeviceTurn]
) -> None:
    spans = _spans(found)
    start, end = spans[-1][0], spans[0][1]
    own = [turn for turn in fresh if turn.end > start and turn.first < end]
    add_seen(found.seen, seen_of([*later, *own]))
    for span, part in DeviceFold(spans, marks, _kept, stored_device_time.turns_ended_in).parts(later, own):
        found.add(span, part)


def _spans(found: DeviceTimes) -> list[Span]:
    return parts_between(microseconds(found.since), microseconds(found.until))
