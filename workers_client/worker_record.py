"""The record a worker writes of itself with each flush: who it is, what it holds, how its recording fares."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from workers_client import wire
from workers_client.ledger import Fold
from workers_client.settings_filter import allowed_settings, installed_versions
from workers_client.wire_values import text

if TYPE_CHECKING:
    from workers_client.core import Core
    from workers_client.operation import Operation

MAX_RUNS = 100  # runs named in the record, newest activity first


class Identity:
    """Who a worker is: new at each process start and after a fork, since pods and workloads reuse their names."""

    def __init__(self, role: str, parent: str | None = None) -> None:
        self.role = role
        self.parent = parent
        self.host = _host_name()
        self.pid = os.getpid()
        self.started_at = time.time()
        self.environment: Mapping[str, str] = os.environ

    @cached_property
    def worker(self) -> str:
        """`<role>-<pod or host>-<pid>-<start, hex>`; the start in milliseconds."""
        place = self.environment.get("POD_NAME") or self.host
        return f"{self.role}-{place}-{self.pid}-{int(self.started_at * 1e3):x}"

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The fields that stay as they are for the process's life. Looked up once, in the flush thread."""
        named = {"pod": self.environment.get("POD_NAME"), "parent": self.parent}
        return {
            "worker": self.worker,
            "role": self.role,
            "wire": wire.WIRE_VERSION,
            "host": self.host,
            "pid": self.pid,
            "started_at": self.started_at,
            "settings": allowed_settings(self.environment),
            "versions": installed_versions(),
            **{name: value for name, value in named.items() if value},
            **{name: value for name, value in self.place.items() if name != "runtime_id"},
        }

    @cached_property
    def place(self) -> dict[str, str]:
        """Where the process runs, as far as its environment says: `pod_uid`, `node`, `runtime_id`."""
        named = {"pod_uid": "POD_UID", "node": "NODE_NAME", "runtime_id": "RUNTIME_ID"}
        found = {field: text(self.environment.get(variable)) for field, variable in named.items()}
        return {field: value for field, value in found.items() if value is not None}


def _host_name() -> str:
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket  # loads more than the rest of this package

    return socket.gethostname()


def worker_fields(core: Core, now: float) -> dict[str, Any]:
    """Return the worker record of this moment. The fold lock must be held."""
    fold = core.fold
    phase, phase_since = _phase(core)
    fields: dict[str, Any] = {
        **core.identity.fields,
        "at": now,
        "interval_seconds": core.config.interval_seconds,
        "phase": phase,
        "phase_since": phase_since,
        "runs": _newest_runs(fold),
        "outstanding": fold.open_requests.outstanding(),
        "turns": dict(fold.turn_totals),
        "buffer": core.buffer_fields(),
    }
    optional = {
        "last_progress_at": fold.last_progress_at,
        "current": _current(core),
        "turn": _turn(core),
        "clock_offset_seconds": core.clock_offset_seconds,
    }
    fields.update({name: value for name, value in optional.items() if value is not None})
    if core.exited is not None:
        fields["exited_at"], fields["exit_reason"] = core.exited
    return fields


def _newest_runs(fold: Fold) -> list[str]:
    """Return the runs this worker had to do with, newest activity first."""
    newest = heapq.nlargest(MAX_RUNS, fold.runs.values(), key=lambda totals: totals.last_activity_at)
    return [totals.run_id for totals in newest]


def _running(core: Core) -> list[Operation]:
    """Return the ops that run now."""
    return [op for op in (core.current, *list(core.others)) if op is not None]


def _phase(core: Core) -> tuple[str, float]:
    """Return the worker's phase and since when, from what runs now."""
    if core.exited is not None:
        return wire.Phase.EXITED.value, core.exited[0]
    turns = list(core.turns.values())
    for turn in turns:
        if turn.started_at is None:
            return wire.Phase.WAITING_FOR_GPU.value, turn.requested_at
    for span in list(core.spans.values()):
        return span.phase, span.started_at
    for operation in _running(core):
        ids = operation.ids()
        is_save = ids is not None and str(ids.operation).startswith("save")
        phase = wire.Phase.SAVING if is_save else wire.Phase.RUNNING
        return phase.value, getattr(operation, "started_at", core.identity.started_at)
    for turn in turns:  # held, between two ops
        return wire.Phase.RUNNING.value, turn.started_at or turn.requested_at
    name, since = core.named_phase
    last_progress_at = core.fold.last_progress_at
    if name == wire.Phase.STARTING.value and last_progress_at is not None:
        name = wire.Phase.IDLE.value
    return name, max(since, last_progress_at or 0.0)


def _current(core: Core) -> dict[str, Any] | None:
    for operation in _running(core):
        ids = operation.ids()
        if ids is not None:
            return {
                "run_id": ids.run,
                "operation": text(ids.operation),
                "request_id": text(ids.request_id),
                "started_at": getattr(operation, "started_at", None),
            }
    return None


def _turn(core: Core) -> dict[str, Any] | None:
    for turn in list(core.turns.values()):
        fields = {"workload": turn.workload, "requested_at": turn.requested_at}
        return fields if turn.started_at is None else {**fields, "started_at": turn.started_at}
    return None
