"""GPU turns as the time of devices needs them: of very many, each is looked at once. Pure.

A node is a device, and so are all turns without a node together: turns tell no more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from telemetry_app.spans import microseconds
from workers_client.wire import TurnOp, TurnRecord

UNNAMED = "unnamed"  # the device of turns without a node


class DeviceOp(msgspec.Struct, frozen=True, gc=False):
    """What ran inside a turn: of a stored op what is needed. Instants are unix seconds."""

    name: str
    start: float
    end: float
    run_id: str | None = None


class DeviceTurn(msgspec.Struct, frozen=True, gc=False):
    """One turn; instants are unix microseconds. `runs` are those that its ops name, each once.

    Neither this nor an op can be part of a cycle, so the garbage collector needn't look at them: with very many that
    took as long as all the rest.
    """

    device: str
    workload: str
    identity: str
    asked_at: int | None
    start: int
    end: int
    runs: tuple[str, ...]
    ops: Sequence[DeviceOp | TurnOp]

    @property
    def first(self) -> int:
        """When it was asked for, or began where that is not known."""
        return self.start if self.asked_at is None else min(self.asked_at, self.start)


def device_turn(turn: TurnRecord) -> DeviceTurn:
    """Return a turn of the wire."""
    return device_turn_of(
        turn.workload, turn.started_at, turn.at, turn.identity, turn.node, turn.requested_at, turn.ops
    )  # fmt: skip


def device_turn_of(
    workload: str, started_at: float, at: float, identity: str, node: str | None, requested_at: float | None,
    ops: Sequence[DeviceOp | TurnOp],
) -> DeviceTurn:  # fmt: skip
    """Return the turn of these values, instants in unix seconds."""
    return DeviceTurn(
        node or UNNAMED,
        workload,
        identity,
        None if requested_at is None else microseconds(requested_at),
        microseconds(started_at),
        microseconds(at),
        tuple(dict.fromkeys([op.run_id for op in ops if op.run_id])),
        ops,
    )
