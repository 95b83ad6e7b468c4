"""What one device did over a stretch of time, in whole microseconds, from its turns: one sort, one sweep. Pure.

Each instant is in one class: computing, switching, idle while somebody waited for the device, idle. What is no other
is idle, so the classes of a stretch add up to it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter

from telemetry_app.device_turns import DeviceOp, DeviceTurn
from telemetry_app.gpu_turns import SWITCHES
from telemetry_app.spans import microseconds
from workers_client.wire import TurnOp

RunTimes = dict[str | None, int]  # microseconds by run; None: ops that name none, or several runs together

_HELD, _WAITED, _SWITCHING, _COMPUTING, _HOLDER = range(5)
_Change = tuple[int, int, int, str | None, tuple[str, ...]]  # instant, what, begin or end (1, -1), run, runs
_order = attrgetter("start", "end", "workload", "identity")
_instant = itemgetter(0)


@dataclass(slots=True)
class DeviceSums:
    """Microseconds of one device. `overlap` is how long more than one turn held it.

    `computing` is that of the runs whose ops ran, in equal parts. `held` is how long turns for a run had the device
    (where more than one did, the one that began first), and `neighbours_waited` how long turns for others waited
    meanwhile, each on its own.
    """

    computing: RunTimes = field(default_factory=dict)
    switching: int = 0
    idle_while_waited: int = 0
    overlap: int = 0
    held: RunTimes = field(default_factory=dict)
    neighbours_waited: RunTimes = field(default_factory=dict)

    def idle(self, duration: int) -> int:
        """Return what of the stretch, which is so long, is in no other class."""
        return duration - sum(self.computing.values()) - self.switching - self.idle_while_waited

    def add(self, other: DeviceSums) -> None:
        """Count another stretch of the same device."""
        self.switching += other.switching
        self.idle_while_waited += other.idle_while_waited
        self.overlap += other.overlap
        for own, added in (
            (self.computing, other.computing), (self.held, other.held),
            (self.neighbours_waited, other.neighbours_waited),
        ):  # fmt: skip
            for run_id, taken in added.items():
                own[run_id] = own.get(run_id, 0) + taken

    def add_wait(self, turn: DeviceTurn, duration: int) -> None:
        """Count a turn that waited during the whole of the stretch, which is so long."""
        self.idle_while_waited += self.idle(duration)
        for run_id, taken in self.held.items():
            if run_id not in turn.runs:
                self.neighbours_waited[run_id] = self.neighbours_waited.get(run_id, 0) + taken


def device_sums(turns: Iterable[DeviceTurn], start: int, end: int) -> DeviceSums:
    """Return what the one device of these turns did from `start` to `end` (unix microseconds), each turn once."""
    unique = {(turn.workload, turn.identity): turn for turn in turns}
    changes = _changes(sorted(unique.values(), key=_order), start, end)
    changes.sort(key=_instant)
    return _swept(changes)


# --- Changes ----------------------------------------------------------------------------------------------------
def _changes(turns: Iterable[DeviceTurn], start: int, end: int) -> list[_Change]:
    """Return when what began and ended, cut to the stretch; those of the holder in order."""
    found: list[_Change] = []

    def add(first: int, last: int, what: int, run_id: str | None = None, runs: tuple[str, ...] = ()) -> None:
        begin, finish = (first if first > start else start), (last if last < end else end)
        if begin < finish:
            found.append((begin, what, 1, run_id, runs))
            found.append((finish, what, -1, run_id, runs))

    free_from = start
    for turn in turns:
        add(turn.start, turn.end, _HELD)
        if turn.asked_at is not None:
            add(turn.asked_at, turn.start, _WAITED, None, turn.runs)
        for op in turn.ops:
            first, last = max(microseconds(op.start), turn.start), min(microseconds(op.end), turn.end)
            add(first, last, _SWITCHING if op.name in SWITCHES else _COMPUTING, op.run_id or None)
        begin, finish = max(turn.start, free_from), min(turn.end, end)
        if begin < finish:
            free_from = finish
            found += [(first, _HOLDER, 1, run_id, ()) for first, run_id in _runs_in_turn(turn, begin, finish)]
            found.append((finish, _HOLDER, -1, None, ()))
    return found


def _runs_in_turn(turn: DeviceTurn, begin: int, finish: int) -> Iterable[tuple[int, str | None]]:
    """Yield from when on a turn had the device for which run; of ops that ran at once the one that began first."""
    if len(turn.runs) <= 1:
        yield begin, turn.runs[0] if turn.runs else None
        return
    at = begin
    for op in sorted(turn.ops, key=_order_of_op):
        first, last = max(microseconds(op.start), at), min(microseconds(op.end), finish)
        if first < last:
            if at < first:
                yield at, None
            yield first, op.run_id or None
            at = last
    if at < finish:
        yield at, None


def _order_of_op(op: DeviceOp | TurnOp) -> tuple[float, float, str, str]:
    return op.start, op.end, op.name, op.run_id or ""


# --- The sweep --------------------------------------------------------------------------------------------------
def _swept(changes: Iterable[_Change]) -> DeviceSums:
    sums = DeviceSums()
    open_counts = [0, 0, 0]
    running: dict[str | None, int] = {}
    waiting: dict[str | None, int] = {}  # turns that wait and work for a run, among others
    holder: str | None = None
    is_held = False
    before = 0
    for at, what, step, run_id, runs in changes:
        if at > before:
            taken, waiting_count = at - before, open_counts[_WAITED]
            _classify(sums, taken, open_counts, running)
            if is_held:
                sums.held[holder] = sums.held.get(holder, 0) + taken
                if others := waiting_count - waiting.get(holder, 0) if waiting_count else 0:
                    sums.neighbours_waited[holder] = sums.neighbours_waited.get(holder, 0) + others * taken
            before = at
        if what == _HOLDER:
            is_held, holder = step > 0, run_id
        elif what == _COMPUTING:
            _count(running, run_id, step)
        else:
            open_counts[what] += step
            for run in runs:
                _count(waiting, run, step)
    return sums


def _classify(sums: DeviceSums, taken: int, open_counts: list[int], running: dict[str | None, int]) -> None:
    if open_counts[_HELD] > 1:
        sums.overlap += taken
    if running:
        each, rest = divmod(taken, len(running))
        for run_id in running:
            sums.computing[run_id] = sums.computing.get(run_id, 0) + each
        if rest:  # less than a microsecond a run
            sums.computing[min(running, key=_by_name)] += rest
    elif open_counts[_SWITCHING]:
        sums.switching += taken
    elif open_counts[_WAITED]:
        sums.idle_while_waited += taken


def _by_name(run_id: str | None) -> str:
    return run_id or ""


def _count(counts: dict[str | None, int], run_id: str | None, step: int) -> None:
    """Count one more or less; what is 0 goes."""
    count = counts.get(run_id, 0) + step
    if count:
        counts[run_id] = count
    else:
        del counts[run_id]
