"""Slices of time in the Trace Event Format, which Perfetto and other viewers read.

The format is described in "Trace Event Format" by the authors of Chrome's tracing: complete events (`ph` X) with
microseconds in `ts` and `dur`, metadata events (`ph` M) that name processes and threads.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that took a while. `start` and `end` are unix seconds; `process` and `track` say where it is drawn."""

    process: str
    track: str
    name: str
    start: float
    end: float
    category: str
    told: dict[str, Any] = field(default_factory=dict)


def trace_events(slices: Iterable[Slice]) -> list[dict[str, Any]]:
    """Return the names of processes and tracks in the order in which they come, then the slices by when they began.

    Viewers drop slices of one track that overlap without lying within each other; so such a track becomes several.
    """
    tracks: dict[tuple[str, str], list[Slice]] = {}
    for one in slices:
        tracks.setdefault((one.process, one.track), []).append(one)
    processes = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in tracks), start=1)}
    names = [_named("process_name", number, 0, name) for name, number in processes.items()]
    events: list[dict[str, Any]] = []
    thread = 0
    for (process, track), found in tracks.items():
        for lane in _lanes(found):
            thread += 1
            names.append(_named("thread_name", processes[process], thread, track))
            events += [_complete(one, processes[process], thread) for one in lane]
    return names + sorted(events, key=lambda event: (event["ts"], -event["dur"]))


def _lanes(slices: Iterable[Slice]) -> list[list[Slice]]:
    """Return the slices in as few lists as have no two that overlap."""
    lanes: list[list[Slice]] = []
    free: list[tuple[int, int]] = []  # end of the lane's last slice in microseconds, and the lane
    for one in sorted(slices, key=lambda one: (one.start, one.end)):
        if free and free[0][0] <= _microseconds(one.start):
            _, lane = heapq.heappop(free)
        else:
            lane = len(lanes)
            lanes.append([])
        lanes[lane].append(one)
        heapq.heappush(free, (_microseconds(one.end), lane))
    return lanes


def _complete(one: Slice, process: int, thread: int) -> dict[str, Any]:
    start = _microseconds(one.start)
    return {
        "ph": "X",
        "name": one.name,
        "cat": one.category,
        "pid": process,
        "tid": thread,
        "ts": start,
        "dur": max(0, _microseconds(one.end) - start),
        "args": one.told,
    }


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
