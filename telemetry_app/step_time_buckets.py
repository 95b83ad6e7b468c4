"""How long steps took, by buckets of steps, for plots. Pure.

Buckets are those of `metric_buckets.py`: a power of two wide, begun at a multiple of it. Each keeps its slowest step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from telemetry_app.grouping import OperationGroup, StepGroup
from telemetry_app.sample_windows import MOST_SECONDS
from telemetry_app.spans import seconds
from telemetry_app.step_clock import PARTS, StepTime


@dataclass(slots=True)
class OperationTimes:
    """The ops of one name in the steps of a bucket: sums over them, in seconds."""

    count: int = 0
    failures: int = 0
    seconds: float = 0.0
    queue_seconds: float = 0.0

    def add(self, other: OperationTimes | OperationGroup) -> None:
        """Count other ops."""
        self.count += other.count
        self.failures += other.failures
        self.seconds += min(other.seconds, MOST_SECONDS)
        self.queue_seconds += min(other.queue_seconds, MOST_SECONDS)


Holder = tuple[str | None, str | None, str | None]  # workload, run and op; three times None while nobody held it


@dataclass(slots=True)
class ClockTimes:
    """Where the time of some steps went: sums over them, in seconds."""

    steps_count: int = 0
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    gpu_wait_by: dict[Holder, float] = field(default_factory=dict)

    def add(self, other: ClockTimes) -> None:
        """Count other steps."""
        self.steps_count += other.steps_count
        for part, taken in other.parts.items():
            self.parts[part] += taken
        for holder, waited in other.gpu_wait_by.items():
            self.gpu_wait_by[holder] = self.gpu_wait_by.get(holder, 0.0) + waited


@dataclass(slots=True)
class StepTimes:
    """Some steps. `wall_sum` is over the `timed_count` steps whose wall time is known; instants are unix seconds."""

    steps_count: int = 0
    open_count: int = 0  # steps that no `optim_step` ended yet
    timed_count: int = 0
    wall_sum: float = 0.0
    wall_max: float = -math.inf
    wall_max_step: int = 0
    started_at: float = math.inf
    finished_at: float = -math.inf
    operations: dict[str, OperationTimes] = field(default_factory=dict)
    clock: ClockTimes = field(default_factory=ClockTimes)

    def add(self, other: StepTimes) -> None:
        """Count other steps; of two that took equally long the earlier one is the slowest."""
        self.steps_count += other.steps_count
        self.open_count += other.open_count
        self.timed_count += other.timed_count
        self.wall_sum += other.wall_sum
        longest, step = max((self.wall_max, -self.wall_max_step), (other.wall_max, -other.wall_max_step))
        self.wall_max, self.wall_max_step = longest, -step
        self.started_at = min(self.started_at, other.started_at)
        self.finished_at = max(self.finished_at, other.finished_at)
        for name, times in other.operations.items():
            self.operations.setdefault(name, OperationTimes()).add(times)
        self.clock.add(other.clock)


def times_of(groups: Iterable[StepGroup], width: int) -> dict[int, StepTimes]:
    """Fold steps into buckets, by the bucket's number."""
    buckets: dict[int, StepTimes] = {}
    for group in groups:
        buckets.setdefault(group.step // width, StepTimes()).add(_of_step(group))
    return buckets


def clock_of(times: Iterable[StepTime]) -> dict[int, ClockTimes]:
    """Return where the time of each step went, by its number."""
    return {
        time.window.step: ClockTimes(
            1,
            {part: seconds(time.parts[part]) for part in PARTS},
            {
                (None, None, None) if use is None else (use.workload, use.run_id, use.operation): seconds(waited)
                for use, waited in time.gpu_wait_by.items()
            },
        )
        for time in times
    }


def _of_step(group: StepGroup) -> StepTimes:
    times = StepTimes(
        steps_count=1,
        open_count=int(not group.completed),
        started_at=group.started_at,
        finished_at=max(operation.finished_at for operation in group.operations.values()),
    )
    if group.wall_seconds is not None:
        times.timed_count, times.wall_sum = 1, group.wall_seconds
        times.wall_max, times.wall_max_step = group.wall_seconds, group.step
    for name, operation in group.operations.items():
        times.operations.setdefault(name, OperationTimes()).add(operation)
    return times
