"""Which step an op belongs to. Pure; ours are stamped, records of others are counted from their `optim_step`s."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import attrgetter, eq

from workers_client.wire import OPTIM_STEP, OpRecord, Status

_FINISH = attrgetter("at")
_FINISH_AND_IDENTITY = attrgetter("at", "identity")


def number_steps(records: Iterable[OpRecord], *, steps_completed: int | None = None) -> list[tuple[int, OpRecord]]:
    """Pair each record with its step, oldest record first.

    Stamped records keep their stamp. Among records without one, each successful `optim_step`, in order of finish
    time, ends a step. Their numbering ends at `steps_completed` where that is known (the list may have lost its
    oldest records), and starts at 0 otherwise.
    """
    ordered = sorted(records, key=_FINISH)
    instants = [record.at for record in ordered]
    if any(map(eq, instants, islice(instants, 1, None))):
        ordered.sort(key=_FINISH_AND_IDENTITY)
    stamps = [record.step for record in ordered]
    if None not in stamps:  # as all of ours are
        return list(zip(stamps, ordered, strict=True))  # type: ignore[arg-type]
    step = max(0, (steps_completed or 0) - count_unstamped_steps(ordered))
    numbered: list[tuple[int, OpRecord]] = []
    for record in ordered:
        if record.step is not None:
            numbered.append((record.step, record))
            continue
        numbered.append((step, record))
        step += _ends_a_step(record)
    return numbered


def count_unstamped_steps(records: Iterable[OpRecord]) -> int:
    """Return how many steps the records without a stamp completed."""
    return sum(map(_ends_a_step, [record for record in records if record.step is None]))


def _ends_a_step(record: OpRecord) -> bool:
    return record.operation == OPTIM_STEP and record.status == Status.SUCCEEDED.value
