"""The context manager around one op."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

from workers_client import ledger, wire
from workers_client.commands import CommandIds, ErrorWords, command_ids, failure_of, metrics_of

if TYPE_CHECKING:
    from workers_client.core import Core

current_operation: ContextVar[Operation | None] = ContextVar("workers_client_operation", default=None)
_CANCELLED = ErrorWords(wire.Status.CANCELLED.value, "CancelledError")


class Operation:
    """One op while it runs. Use with `with` or `async with`; call `finish` with the worker's result."""

    __slots__ = (
        "_clock", "_core", "_error", "_metrics", "_replaced", "_role", "_token", "_work", "command", "started_at",
    )  # fmt: skip

    def __init__(self, core: Core, role: str, command: Any) -> None:
        self._core = core
        self._role = role
        self._error: ErrorWords | None = None
        self._metrics: dict[str, Any] | None = None
        self._replaced: dict[str, str] | None = None
        self._work: tuple[Any, Any, Any] = (None, None, None)
        self._token: Token[Operation | None] | None = None
        self.command: CommandIds | None = None
        self.started_at = self._clock = 0.0
        try:
            self.command = command_ids(command)
        except Exception:  # noqa: BLE001 - nonsense from a host never reaches it as an error
            core.count_error()

    @property
    def phase(self) -> str:
        """The phase that this op puts its worker in."""
        saves = self.command is not None and self.command.operation.startswith("save")
        return wire.Phase.SAVING.value if saves else wire.Phase.RUNNING.value

    def finish(self, result: Any, *, tokens: Any = None, datums: Any = None, batch: Any = None) -> None:
        """Take the worker's result: its `metrics`, and whether it is a `RequestFailedResponse`.

        `tokens` and `datums` say how much work it was; `batch` is the same for ops that ran as one computation.
        """
        try:
            self._error = failure_of(result)
            self._metrics = metrics_of(result)
            self._work = (tokens, datums, batch)
        except Exception:  # noqa: BLE001
            self._core.count_error()

    def note_replaced(self, replaced: dict[str, str]) -> None:
        """Remember which metrics were not finite: their stand-ins are no values."""
        self._replaced = {**(self._replaced or {}), **replaced}

    def __enter__(self) -> Operation:
        self._token = current_operation.set(self)
        self._core.running[id(self)] = self
        self.started_at = time.time()
        self._clock = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = time.perf_counter()
        try:
            self._end(kind, ended - self._clock)
        except Exception:  # noqa: BLE001
            self._core.count_error()
        self._core.hook_costs.append(time.perf_counter() - ended)

    async def __aenter__(self) -> Operation:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _end(self, kind: type[BaseException] | None, elapsed_seconds: float) -> None:
        core = self._core
        core.running.pop(id(self), None)
        if self._token is not None:
            try:
                current_operation.reset(self._token)
            except ValueError:  # left in another context than it was entered in
                current_operation.set(None)
        if self.command is None:
            return
        at = time.time()
        if kind is not None:
            cancelled = issubclass(kind, asyncio.CancelledError)
            self._error = _CANCELLED if cancelled else ErrorWords(wire.Status.FAILED.value, kind.__name__)
        core.record(
            (
                ledger.OP, self._role, self.command, self.started_at, at, elapsed_seconds, self._error,
                self._metrics, self._replaced, self._work,
            )
        )  # fmt: skip
        for turn in list(core.turns.values()):
            status = wire.Status.SUCCEEDED.value if self._error is None else self._error.status
            turn.note(self.command.operation, self.started_at, at, status, self.command.run_id, self.command.request_id)
