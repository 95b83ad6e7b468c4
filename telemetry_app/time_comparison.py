"""Steps' times summed up and compared: which steps were slow, which part grew, and why. Pure; times in microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median_low

from telemetry_app.plain_words import span_words
from telemetry_app.spans import seconds
from telemetry_app.step_clock import (
    CLIENT,
    GPU_SWITCH,
    GPU_WAIT,
    NO_WORKER,
    PARTS,
    QUEUE,
    SAMPLING,
    SAVING,
    TRAINING,
    UNTRACKED,
    StepTime,
)
from telemetry_app.turn_spans import Use

SLOWEST = 5
_WORTH_A_WORD = 1_000  # microseconds: what differs by less is the same
_WHY = {
    TRAINING: "its own training ops ran longer",
    SAVING: "ops that make, save or load state ran longer",
    GPU_SWITCH: "its worker woke, slept or synced weights for longer",
    QUEUE: "its ops waited in the queue",
    SAMPLING: "its sampling requests were open longer",
    CLIENT: "waited for the client",
    NO_WORKER: "no worker lived to serve it",
    UNTRACKED: "no record tells why",
}


@dataclass(slots=True)
class TimeTotals:
    """The sum over some steps."""

    count: int = 0
    wall: int = 0
    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    gpu_wait_by: dict[Use | None, int] = field(default_factory=dict)

    def a_step(self) -> dict[str, int]:
        """Return the mean of each part."""
        return {part: length // max(1, self.count) for part, length in self.parts.items()}


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much time `wall` is longer, the part that makes most of it, each part's share in it, and why in words."""

    wall: int
    part: str | None
    parts: dict[str, int]
    text: str


def totals(times: Iterable[StepTime]) -> TimeTotals:
    """Add steps up."""
    found = TimeTotals()
    for time in times:
        found.count += 1
        found.wall += time.wall
        for part, length in time.parts.items():
            found.parts[part] += length
        for use, length in time.gpu_wait_by.items():
            found.gpu_wait_by[use] = found.gpu_wait_by.get(use, 0) + length
    return found


def slowest(times: Sequence[StepTime]) -> list[tuple[StepTime, Difference]]:
    """Return the completed steps that took longest beyond what is usual among them, the slowest first.

    Usual is the median, of the wall time and of each part.
    """
    completed = [time for time in times if time.window.completed]
    if not completed:
        return []
    usual_wall = median_low(time.wall for time in completed)
    usual = {part: median_low(time.parts[part] for time in completed) for part in PARTS}
    found: list[tuple[StepTime, Difference]] = []
    for time in sorted(completed, key=lambda time: (-time.wall, time.window.step)):
        if time.wall - usual_wall < _WORTH_A_WORD or len(found) == SLOWEST:
            break
        parts = {part: time.parts[part] - usual[part] for part in PARTS}
        longer = time.wall - usual_wall
        found.append(
            (time, _difference(f"step {time.window.step} took", "than usual", longer, parts, time.gpu_wait_by))
        )
    return found


def compared(newer: TimeTotals, older: TimeTotals, *, what: str, with_what: str) -> Difference:
    """Compare the mean step of two ranges; `what` and `with_what` name them in the text."""
    now, before = newer.a_step(), older.a_step()
    longer = newer.wall // max(1, newer.count) - older.wall // max(1, older.count)
    waits = {
        use: length // max(1, newer.count) - older.gpu_wait_by.get(use, 0) // max(1, older.count)
        for use, length in newer.gpu_wait_by.items()
    }
    parts = {part: now[part] - before[part] for part in PARTS}
    return _difference(f"{what} took", f"a step than {with_what}", longer, parts, waits)


def _difference(begin: str, end: str, longer: int, parts: dict[str, int], waits: dict[Use | None, int]) -> Difference:
    """Name the part that makes most of the difference: that grew most where it is longer, that shrank most else."""
    if abs(longer) < _WORTH_A_WORD:
        return Difference(longer, None, parts, f"{begin} as long {end.replace('than', 'as', 1)}")
    sign = 1 if longer > 0 else -1
    part = max(PARTS, key=lambda part: sign * parts[part])
    told = f"{begin} {_words(abs(longer))} {'longer' if longer > 0 else 'less'} {end}"
    why = _wait_words(waits) if part == GPU_WAIT else _WHY[part]
    return Difference(longer, part, parts, f"{told}: {why}" if longer > 0 else f"{told}, most of it `{part}`")


def _wait_words(waits: dict[Use | None, int]) -> str:
    use = max(waits, key=lambda use: (waits[use], str(use)), default=None)
    if use is None:
        return "waited for the GPU while nobody held it"
    operation = f", `{use.operation}`" if use.operation else ""
    return f"waited for the GPU held by {use.run_id or use.workload}{operation}"


def _words(length: int) -> str:
    amount = seconds(length)
    return span_words(amount) if amount >= 10 else f"{amount:.2g} s"
