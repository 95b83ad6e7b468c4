"""The parts of one bar that says what GPUs did: of each run, switching, idle while somebody waited, idle. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN_RUNS = 6  # as many colours as people tell apart; the others are one part
REST = (  # what is no computing: kind, mark, label
    ("switching", "⇄", "switching between runs"),
    ("idle_while_waited", "▲", "idle while a run waited"),
    ("idle", "○", "idle"),
)
_TENTHS = 1_000  # of a percent, in the whole


@dataclass(frozen=True, slots=True)
class GpuPart:
    """One part: what stands in the legend, and its share of all devices' time (0 to 1).

    `mark` stands in the bar and in the legend, so that no colour stands alone; `run_id` is empty but for a run's part.
    """

    kind: str
    mark: str
    label: str
    seconds: float
    share: float
    run_id: str = ""


def gpu_bar(gpu: Mapping[str, Any]) -> list[GpuPart]:
    """Return the parts of the fleet's `gpu`; their shares add up to 1, and there are none without a device."""
    by_run = {entry["run_id"]: entry["seconds"] for entry in gpu["by_run"]}
    rest = {kind: gpu[kind]["seconds"] for kind, _, _ in REST}
    return bar_parts(by_run, rest, shown_runs(by_run), gpu["total_seconds"], others=gpu["other_runs"]["seconds"])


def shown_runs(by_run: Mapping[str | None, float]) -> list[str | None]:
    """Return the runs that have a part of their own: those with the most computing. None: ops that name no run.

    In the order of their ids: runs that take turns change places all the time, and must keep their colours.
    """
    computed = [run for run, seconds in by_run.items() if seconds]
    most = sorted(computed, key=lambda run: (-by_run[run], run or ""))[:SHOWN_RUNS]
    return sorted(most, key=lambda run: (run is None, run))


def bar_parts(
    by_run: Mapping[str | None, float],
    rest: Mapping[str, float],
    shown: Sequence[str | None],
    total: float,
    *,
    others: float = 0.0,
) -> list[GpuPart]:
    """Return the parts of `total` seconds: the `shown` runs in that order, the other ones as one, and the rest.

    Bars with the same `shown` have the same colours and marks. `others` are seconds of runs that `by_run` leaves out.
    """
    if not total:
        return []
    parts = [
        GpuPart(f"run-{number}", str(number), run or "ops of no run", by_run[run], by_run[run] / total, run or "")
        for number, run in enumerate(shown, start=1)
        if by_run.get(run)
    ]
    others += sum(seconds for run, seconds in by_run.items() if run not in shown)
    if others:
        parts.append(GpuPart("run-7", "…", "other runs", others, others / total))
    return parts + [GpuPart(kind, mark, label, rest[kind], rest[kind] / total) for kind, mark, label in REST]


def percents(parts: Iterable[float]) -> list[float]:
    """Return the share of each part in percent, to a tenth, so that they add up to exactly 100 (largest remainders).

    All are 0 where the parts are nothing.
    """
    values = list(parts)
    total = sum(values)
    if not total:
        return [0.0] * len(values)
    exact = [_TENTHS * value / total for value in values]
    tenths = [int(value) for value in exact]
    missing = _TENTHS - sum(tenths)
    for index in sorted(range(len(values)), key=lambda index: tenths[index] - exact[index])[:missing]:
        tenths[index] += 1
    return [value / 10 for value in tenths]
