"""A GPU turn: the wait before, the hold, and what ran inside; and spans of work that is no request."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from workers_client import events, wire
from workers_client.commands import CommandIds, command_ids
from workers_client.wire_values import text

if TYPE_CHECKING:
    from workers_client.core import Core

NOTES_LIMIT = 4_096  # ops remembered of one turn before they are merged into 64
WAKE_UP = "wake_up"
SLEEP = "sleep"
UNKNOWN = "unknown"
_SPAN_PHASES = {WAKE_UP: wire.Phase.WAKING.value, SLEEP: wire.Phase.SLEEPING.value}


class GpuTurn:
    """Wraps a time slicer's lease, a plain or an async context manager; what the lease returns is what `as` gets.

    Whatever the lease raises reaches the host as it is.
    """

    def __init__(self, core: Core, role: str, workload: Any, lease: Any) -> None:
        self._core = core
        self._role = role
        self._lease = lease
        self.workload = _name(core, workload)
        self.requested_at = 0.0
        self.started_at: float | None = None
        self._value: Any = None  # what the lease gave
        self._notes: list[dict[str, Any]] = []

    def note(
        self, name: str, start: float, end: float, status: str | None = None, run_id: str | None = None,
        request_id: str | None = None,
    ) -> None:  # fmt: skip
        """Remember what ran inside."""
        if self.started_at is None or len(self._notes) >= NOTES_LIMIT:
            return
        words = {"status": status, "run_id": run_id, "request_id": request_id}
        told = {key: value for key, value in words.items() if value is not None}
        self._notes.append({"name": name, "start": start, "end": end, "count": 1, **told})

    def note_op(self, ids: Any, start: float, end: float, status: str) -> None:
        """Remember an op that ran inside; `ids` is what is kept of its command."""
        run_id = wire.checked_run_id(ids[2]) if isinstance(ids[2], str) else None
        self.note(text(ids[1]) or UNKNOWN, start, end, status, run_id, text(ids[0]))

    def __enter__(self) -> Any:
        self._request()
        try:
            value = self._value = self._lease.__enter__()
        except BaseException:
            self._forget()
            raise
        self.started_at = time.time()
        return value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._end()
        result: bool | None = self._lease.__exit__(kind, error, trace)
        return result

    async def __aenter__(self) -> Any:
        if not hasattr(self._lease, "__aenter__"):
            return self.__enter__()
        self._request()
        try:
            value = self._value = await self._lease.__aenter__()
        except BaseException:
            self._forget()
            raise
        self.started_at = time.time()
        return value

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if not hasattr(self._lease, "__aexit__"):
            return self.__exit__(kind, error, trace)
        self._end()
        result: bool | None = await self._lease.__aexit__(kind, error, trace)
        return result

    def _request(self) -> None:
        self.requested_at = time.time()
        self._core.turns[id(self)] = self

    def _forget(self) -> None:
        self._core.turns.pop(id(self), None)

    def _end(self) -> None:
        """End the turn before the lease is given back, so that turns on one device never overlap."""
        at = time.time()
        try:
            self._forget()
            started_at = self.started_at if self.started_at is not None else at
            fields = {
                "role": self._role,
                "requested_at": self.requested_at,
                "started_at": started_at,
                "at": at,
                "ops": merged_ops(self._notes),
                **self._place(),
            }
            self._core.record((events.TURN, self.workload, fields, self._seconds(started_at, at)))
        except Exception:  # noqa: BLE001 - the host's lease must be given back whatever happens here
            self._core.count_error()

    def _place(self) -> dict[str, str]:
        """Return `node`, `pod_uid` and `runtime_id` as far as they are known; a lease may know its runtime."""
        runtime_id = text(getattr(self._lease, "runtime_id", None)) or text(getattr(self._value, "runtime_id", None))
        return {**self._core.identity.place, **({} if runtime_id is None else {"runtime_id": runtime_id})}

    def _seconds(self, started_at: float, at: float) -> dict[str, float]:
        """Return what the turn adds to the worker's totals."""
        return {
            "count": 1,
            "held_seconds": at - started_at,
            "wait_seconds": max(0.0, started_at - self.requested_at),
            "wake_seconds": sum(op["end"] - op["start"] for op in self._notes if op["name"] == WAKE_UP),
            "sleep_seconds": sum(op["end"] - op["start"] for op in self._notes if op["name"] == SLEEP),
        }


class Span:
    """Work inside a turn that is no op: `wake_up`, `sleep`, `weight_sync`. Sets the worker's phase.

    `request` is the command or sampling request it is for, where it is for one alone: a sampler's `sample`.
    """

    def __init__(self, core: Core, name: Any, request: Any = None) -> None:
        self._core = core
        self._ids = None if request is None else _ids(core, request)
        self.name = _name(core, name)
        self.phase = _SPAN_PHASES.get(self.name, wire.Phase.RUNNING.value)
        self.started_at = 0.0

    def __enter__(self) -> Span:
        self.started_at = time.time()
        self._core.spans[id(self)] = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._core.spans.pop(id(self), None)
        at = time.time()
        status = wire.Status.SUCCEEDED.value if kind is None else wire.Status.FAILED.value
        of_request = () if self._ids is None else (self._ids.run, self._ids.request_id)
        for turn in list(self._core.turns.values()):
            turn.note(self.name, self.started_at, at, status, *of_request)

    async def __aenter__(self) -> Span:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _ids(core: Core, request: Any) -> CommandIds | None:
    try:
        return command_ids(request)
    except Exception:  # noqa: BLE001 - nonsense from a host
        core.count_error()
        return None


def _name(core: Core, value: Any) -> str:
    """Return what a host calls a workload or a span, 256 characters at most; `unknown` of what has no name."""
    try:
        name = text(str(value)[: wire.RUN_ID_LIMIT])
    except Exception:  # noqa: BLE001 - an object whose `str` raises
        name = None
    if name is None:
        core.count_error()
    return name or UNKNOWN


def merged_ops(notes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge concurrent ops of one name and run into one with their count; return the first 64 by start."""
    merged: list[dict[str, Any]] = []
    newest: dict[tuple[Any, Any], dict[str, Any]] = {}
    for note in sorted(notes, key=lambda note: float(note["start"])):
        key = (note["name"], note.get("run_id"))
        before = newest.get(key)
        if before is not None and note["start"] < before["end"]:
            before["end"] = max(before["end"], note["end"])
            before["count"] += 1
            continue
        newest[key] = dict(note)
        merged.append(newest[key])
    return merged[: wire.TURN_OPS_LIMIT]
