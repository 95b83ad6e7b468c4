"""What GPUs did over a span of time, from their turns. Pure; instants are unix seconds.

A node counts as one device, and so do all turns without a node: turns tell no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from telemetry_app.device_sums import DeviceSums, device_sums
from telemetry_app.device_turns import DeviceTurn, device_turn
from telemetry_app.spans import microseconds, seconds
from workers_client.wire import TurnRecord


@dataclass(slots=True)
class GpuShare:
    """Seconds of all devices together: they add up to `devices` times the span.

    Each instant of a device is in one class (`device_sums.py`). `overlap_seconds` is how long more than one turn held
    a device.
    """

    devices: int = 0
    total_seconds: float = 0.0
    computing_seconds: dict[str | None, float] = field(default_factory=dict)  # by run; None: the op names none
    switching_seconds: float = 0.0
    idle_while_waited_seconds: float = 0.0
    idle_seconds: float = 0.0
    overlap_seconds: float = 0.0


def gpu_share(turns: Iterable[TurnRecord], *, start: float, end: float) -> GpuShare:
    """Return what the devices did from `start` to `end`. A turn that is waited for still began at `end`, or later."""
    first, last = microseconds(start), microseconds(end)
    by_device: dict[str, list[DeviceTurn]] = {}
    for turn in map(device_turn, turns):
        if turn.first < last and turn.end > first and turn.first < turn.end:
            by_device.setdefault(turn.device, []).append(turn)
    sums = DeviceSums()
    for own in by_device.values():
        sums.add(device_sums(own, first, last))
    return GpuShare(
        devices=len(by_device),
        total_seconds=len(by_device) * (end - start),
        computing_seconds={run_id: seconds(taken) for run_id, taken in sums.computing.items()},
        switching_seconds=seconds(sums.switching),
        idle_while_waited_seconds=seconds(sums.idle_while_waited),
        idle_seconds=seconds(sums.idle(len(by_device) * (last - first))),
        overlap_seconds=seconds(sums.overlap),
    )
