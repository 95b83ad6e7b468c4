"""The step clock: where each step's wall time went. Pure: spans in, parts out, in whole microseconds.

Each instant belongs to one part, the first of `PARTS` that claims it. What nobody claims is the client's: nothing of
the run was open then. What can't be known stays `untracked`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_app.device_time import DeviceTime
from telemetry_app.spans import Span, cut, divided, length_until, union
from telemetry_app.turn_spans import Use

TRAINING = "training"
SAVING = "saving"
GPU_SWITCH = "gpu_switch"
GPU_WAIT = "gpu_wait"
QUEUE = "queue"
SAMPLING = "sampling"
CLIENT = "client"
NO_WORKER = "no_worker"
UNTRACKED = "untracked"
PARTS = (TRAINING, SAVING, GPU_SWITCH, GPU_WAIT, QUEUE, SAMPLING, CLIENT, NO_WORKER, UNTRACKED)
# The client has what nobody claims, so the two behind it are looked at before: no instant is both.
_CLAIMED = tuple(part for part in PARTS if part != CLIENT)

Claims = Mapping[str, Iterable[Span]]  # by part; none of `client`


@dataclass(frozen=True, slots=True)
class StepWindow:
    """When a step was: from the end of the step before to the end of its last op, in unix microseconds."""

    step: int
    completed: bool
    start: int
    end: int


@dataclass(slots=True)
class StepTime:
    """Where one step's wall time went, in microseconds: the parts add up to it exactly.

    `gpu_wait_by` adds up to the part `gpu_wait`; None is the wait while nobody held the device. `overlap` is how long
    more than one turn held the device that the run used.
    """

    window: StepWindow
    parts: dict[str, int]
    gpu_wait_by: dict[Use | None, int] = field(default_factory=dict)
    overlap: int = 0
    clock_offset_seconds: float | None = None  # the largest by which a clock was off, where that exceeded a second

    @property
    def wall(self) -> int:
        """The step's wall time."""
        return self.window.end - self.window.start


def step_times(windows: Sequence[StepWindow], claims: Claims, device: DeviceTime) -> list[StepTime]:
    """Split each window into its parts; `device` is the one that the run waits for."""
    parts = exclusive(claims, [(window.start, window.end) for window in windows])
    until = {part: length_until(parts[part]) for part in PARTS}
    overlapped = length_until(device.overlaps)
    return [
        StepTime(
            window=window,
            parts={part: until[part](window.end) - until[part](window.start) for part in PARTS},
            gpu_wait_by=device.during(cut(parts[GPU_WAIT], window.start, window.end)),
            overlap=overlapped(window.end) - overlapped(window.start),
        )
        for window in windows
    ]


def exclusive(claims: Claims, within: Iterable[Span]) -> dict[str, list[Span]]:
    """Return the instants of each part: disjoint, and together those of `within`."""
    rest = union(within)
    found: dict[str, list[Span]] = {}
    for part in _CLAIMED:
        found[part], rest = divided(rest, union(claims.get(part, ())))
    found[CLIENT] = rest
    return found
