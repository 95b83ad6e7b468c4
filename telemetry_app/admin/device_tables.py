"""What one device did, as tables whose shares add up to 100 %: a row for each run, or a row for each day. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from telemetry_app.admin.gpu_bar import REST, GpuPart, percents
from telemetry_app.device_share import COMPUTING, DeviceRow

SHOWN_RUNS = 200
SHOWN_DAYS = 62  # the newest ones; the CSV has all


@dataclass(frozen=True, slots=True)
class RunRow:
    """One row: a run's computing (`part` where the bar shows it), many runs' together, or another state."""

    kind: str
    mark: str
    run_id: str | None
    label: str
    seconds: float
    percent: float
    neighbours_waited_seconds: float


@dataclass(frozen=True, slots=True)
class DeviceRuns:
    """All that a device did over a stretch."""

    rows: list[RunRow]
    seconds: float
    neighbours_waited_seconds: float


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day, or the part of it that is shown, in unix seconds; `parts` are those of its bar, with percents."""

    start: float
    end: float
    bar: list[GpuPart]

    @property
    def parts(self) -> list[tuple[GpuPart, float]]:
        """The parts of the bar, each with its percent: they add up to 100."""
        return list(zip(self.bar, percents(part.seconds for part in self.bar), strict=True))


@dataclass(frozen=True, slots=True)
class DeviceDays:
    """Days, the newest first, and how many there are."""

    rows: list[DayRow] = field(default_factory=list)
    days_count: int = 0


def computing_by_run(rows: Iterable[DeviceRow]) -> dict[str | None, float]:
    """Return how long devices computed for each run."""
    found: dict[str | None, float] = {}
    for row in rows:
        if row.activity == COMPUTING:
            found[row.run_id] = found.get(row.run_id, 0.0) + row.seconds
    return found


def by_run(rows: Sequence[DeviceRow], shown: Sequence[str | None]) -> DeviceRuns:
    """Return a row for each run, the 200 with the most computing; the others are one; then the other states."""
    runs = [row for row in rows if row.activity == COMPUTING]
    told = [
        (*_look(row.run_id, shown), row.run_id, row.run_id or "ops of no run", row.seconds,
         row.neighbours_waited_seconds)
        for row in runs[:SHOWN_RUNS]
    ]  # fmt: skip
    others = runs[SHOWN_RUNS:]
    if others:
        seconds, waited = sum(row.seconds for row in others), sum(row.neighbours_waited_seconds for row in others)
        told.append(("run-7", "…", None, f"{len(others)} other runs", seconds, waited))
    for kind, mark, label in REST:
        told.append((kind, mark, None, label, sum(row.seconds for row in rows if row.activity == kind), 0.0))
    shares = percents(seconds for *_, seconds, _ in told)
    return DeviceRuns(
        rows=[
            RunRow(kind, mark, run_id, label, seconds, percent, waited)
            for (kind, mark, run_id, label, seconds, waited), percent in zip(told, shares, strict=True)
        ],
        seconds=sum(row.seconds for row in rows),
        neighbours_waited_seconds=sum(row.neighbours_waited_seconds for row in rows),
    )


def by_day(rows: Iterable[DeviceRow], parts_of: Callable[[Iterable[DeviceRow]], list[GpuPart]]) -> DeviceDays:
    """Return the days that rows (oldest day first) are of, the newest first; `parts_of` makes the bar of a day."""
    days = [
        (start, end, parts_of(list(own))) for (start, end), own in groupby(rows, key=lambda row: (row.start, row.end))
    ]
    return DeviceDays([DayRow(start, end, bar) for start, end, bar in reversed(days[-SHOWN_DAYS:])], len(days))


def _look(run_id: str | None, shown: Sequence[str | None]) -> tuple[str, str]:
    """Return the colour and the mark of a run, as in the bar."""
    if run_id not in shown:
        return "run-7", "…"
    number = shown.index(run_id) + 1
    return f"run-{number}", str(number)
