"""What GPUs did over a span of time, from their turns. Pure; instants are unix seconds.

A node counts as one device, and so do all turns without a node: turns tell no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from telemetry_app.gpu_turns import SWITCHES
from workers_client.wire import TurnRecord

_HELD, _WAITED, _SWITCHING, _COMPUTING = range(4)
_Change = tuple[float, int, int, str | None]  # instant, begin or end (1, -1), what, run


@dataclass(slots=True)
class GpuShare:
    """Seconds of all devices together: they add up to `devices` times the span.

    Each instant of a device is one of: computing (of the runs whose ops run, in equal parts), switching, idle while
    somebody waited for the device, idle. `overlap_seconds` is how long more than one turn held a device.
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
    changes: dict[str | None, list[_Change]] = {}
    for turn in turns:
        found = [
            (min(max(instant, start), end), step, what, run_id)
            for begin, finish, what, run_id in _parts(turn)
            if begin < end and finish > start and finish > begin
            for instant, step in ((begin, 1), (finish, -1))
        ]
        if found:
            changes.setdefault(turn.node, []).extend(found)
    share = GpuShare(devices=len(changes), total_seconds=len(changes) * (end - start))
    for of_device in changes.values():
        _sweep(share, sorted(of_device, key=lambda change: change[:2]), start, end)
    return share


def _parts(turn: TurnRecord) -> Iterator[tuple[float, float, int, str | None]]:
    """Yield begin, end and kind of what a turn says; ops are cut to the turn."""
    yield turn.started_at, turn.at, _HELD, None
    if turn.requested_at is not None:
        yield turn.requested_at, turn.started_at, _WAITED, None
    for op in turn.ops:
        what = _SWITCHING if op.name in SWITCHES else _COMPUTING
        yield max(op.start, turn.started_at), min(op.end, turn.at), what, op.run_id


def _sweep(share: GpuShare, changes: list[_Change], start: float, end: float) -> None:
    open_counts = [0, 0, 0, 0]
    running: dict[str | None, int] = {}
    before = start
    for at, step, what, run_id in [*changes, (end, 0, _HELD, None)]:
        if at > before:
            _count(share, at - before, open_counts, running)
            before = at
        open_counts[what] += step
        if what == _COMPUTING:
            running[run_id] = running.get(run_id, 0) + step
            if not running[run_id]:
                del running[run_id]


def _count(share: GpuShare, seconds: float, open_counts: list[int], running: dict[str | None, int]) -> None:
    if open_counts[_HELD] > 1:
        share.overlap_seconds += seconds
    if running:
        for run_id in running:
            share.computing_seconds[run_id] = share.computing_seconds.get(run_id, 0.0) + seconds / len(running)
    elif open_counts[_SWITCHING]:
        share.switching_seconds += seconds
    elif open_counts[_WAITED]:
        share.idle_while_waited_seconds += seconds
    else:
        share.idle_seconds += seconds
