"""Who held a GPU while a turn waited for it. Pure: turns in, holders out; instants are unix seconds.

Turns say on which node they were, not on which device: turns of one node (or of unknown nodes) are taken to share one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from workers_client.wire import TurnRecord

SWITCHES = frozenset({"wake_up", "sleep", "weight_sync"})  # ops of a turn that compute nothing for a run


@dataclass(slots=True)
class Holder:
    """How long a worker's turns kept another waiting, and what ran in them meanwhile."""

    workload: str
    worker: str | None
    seconds: float = 0.0
    run_ids: set[str] = field(default_factory=set)
    operations: set[str] = field(default_factory=set)


class TurnsByEnd:
    """Turns, ordered by when they ended, so that those that overlap an interval are found quickly."""

    def __init__(self, turns: Iterable[TurnRecord]) -> None:
        self._turns = sorted(turns, key=lambda turn: turn.at)
        self._ends = [turn.at for turn in self._turns]
        self._longest = max((turn.at - turn.started_at for turn in self._turns), default=0.0)

    def holders(self, waiting: TurnRecord) -> list[Holder]:
        """Return who held the device while a turn waited, who held it longest first."""
        if waiting.requested_at is None:
            return []
        found: dict[tuple[str, str | None], Holder] = {}
        first = bisect_right(self._ends, waiting.requested_at)
        for turn in self._turns[first : bisect_right(self._ends, waiting.started_at + self._longest)]:
            start, end = max(turn.started_at, waiting.requested_at), min(turn.at, waiting.started_at)
            if end <= start or turn.identity == waiting.identity or not share_a_device(turn, waiting):
                continue
            holder = found.setdefault((turn.workload, turn.worker), Holder(turn.workload, turn.worker))
            holder.seconds += end - start
            running = [op for op in turn.ops if op.start < end and op.end > start]
            holder.operations.update(op.name for op in running)
            holder.run_ids.update(op.run_id for op in running if op.run_id)
        return sorted(found.values(), key=lambda holder: (-holder.seconds, holder.workload, holder.worker or ""))


def first_instant(turn: TurnRecord) -> float:
    """Return when a turn was asked for, or began where that is not known."""
    return turn.started_at if turn.requested_at is None else min(turn.requested_at, turn.started_at)


def share_a_device(turn: TurnRecord, other: TurnRecord) -> bool:
    """Return whether two turns are taken to be of one device."""
    return turn.node is None or other.node is None or turn.node == other.node
