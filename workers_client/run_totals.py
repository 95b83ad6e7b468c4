"""What is counted of one run: folded totals, which are never dropped."""

from __future__ import annotations

from collections import deque
from typing import Any

from workers_client import wire
from workers_client.sampling import SamplingWindow

Command = tuple[Any, ...]
VALUES_PER_COMMAND = 1_000  # Lua can unpack some 8,000 arguments


_INSTANTS = {name: f"last_{name}_at" for name in wire.LEDGER_COUNTS}


class RunTotals:
    """What is counted of one run and not yet taken into a flush, and the run's steps as this worker knows them.

    `steps_base` is the run's count when this worker first asked; None until then, and its records wait. `steps_own`
    counts this worker's successful optim_steps, `steps_known` is the highest count Redis ever told.
    """

    __slots__ = (
        "counts", "heads", "instants", "last_activity_at", "operations_key", "run_id", "samples_key", "sampling",
        "step_times", "steps_added", "steps_base", "steps_known", "steps_own", "worker",
    )  # fmt: skip

    def __init__(self, run_id: str, worker: str) -> None:
        self.run_id = run_id
        self.worker = worker
        self.heads: dict[str, bytes] = {}  # by role: what its op records start with
        self.operations_key = wire.operations_key(run_id)
        self.samples_key = wire.samples_key(run_id)
        self.counts: dict[str, int] = {}
        self.instants: dict[str, float] = {}
        self.steps_base: int | None = None
        self.steps_own = self.steps_known = self.steps_added = 0
        self.step_times: deque[float] = deque(maxlen=wire.LIST_LIMIT)
        self.last_activity_at = 0.0
        self.sampling = SamplingWindow()

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the run is open or untold here."""
        return not (self.counts or self.steps_added or self.sampling.open_count or self.sampling.count)

    def count(self, name: str, at: float) -> None:
        """Count one request and keep the newest instant."""
        self.counts[name] = self.counts.get(name, 0) + 1
        instant = _INSTANTS[name]
        if at > self.instants.get(instant, 0.0):
            self.instants[instant] = at
        if at > self.last_activity_at:
            self.last_activity_at = at

    def step(self, at: float) -> None:
        """Count one successful optim_step."""
        self.steps_own += 1
        self.steps_added += 1
        self.step_times.append(at)

    def take(self) -> list[Command]:
        """Move what is counted into commands for one flush: it lives on there until Redis has it."""
        ledger = wire.ledger_key(self.run_id)
        commands: list[Command] = [("HINCRBY", ledger, name, count) for name, count in self.counts.items()]
        commands += [
            ("MAX", ledger, name, repr(at)) for name, at in self.instants.items() if name in wire.LEDGER_INSTANTS
        ]
        if self.steps_added or self.steps_known:  # also without a new step: Redis may have come back empty
            commands.append(("STEPS", wire.steps_key(self.run_id), self.steps_known, self.steps_added))
        times = [repr(at) for at in self.step_times]
        for start in range(0, len(times), VALUES_PER_COMMAND):
            part = times[start : start + VALUES_PER_COMMAND]
            commands.append(("PUSH", wire.step_times_key(self.run_id), wire.LIST_LIMIT, "", "", *part))
        if self.last_activity_at:
            commands.append(("ZADD", wire.RUNS_KEY, "GT", self.last_activity_at, self.run_id))
        self.counts, self.instants, self.steps_added = {}, {}, 0
        self.step_times.clear()
        return commands
