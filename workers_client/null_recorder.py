"""The recorder of a process that does not record: every call does nothing, and leases and metrics still work."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from workers_client.buffer import KINDS
from workers_client.metrics import sanitize


class NullOperation:
    """Stands in for an op or a span."""

    def finish(self, result: Any, tokens: Any = None, datums: Any = None, batch: Any = None) -> None:
        """Do nothing."""

    def __enter__(self) -> NullOperation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the host's exception pass."""

    async def __aenter__(self) -> NullOperation:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the host's exception pass."""


class NullTurn:
    """Enters and leaves a lease, be it a plain or an async context manager."""

    def __init__(self, lease: Any) -> None:
        self._lease = lease

    def __enter__(self) -> Any:
        return self._lease.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        result: bool | None = self._lease.__exit__(kind, error, trace)
        return result

    async def __aenter__(self) -> Any:
        if hasattr(self._lease, "__aenter__"):
            return await self._lease.__aenter__()
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if not hasattr(self._lease, "__aexit__"):
            return self.__exit__(kind, error, trace)
        result: bool | None = await self._lease.__aexit__(kind, error, trace)
        return result


class NullRecorder:
    """Has every name of `Recorder`, with its arguments, and records nothing."""

    role = ""
    worker = ""

    def as_role(self, role: str) -> NullRecorder:
        """Return itself."""
        return self

    # --- Requests ---------------------------------------------------------------------------------------------
    def enqueued(self, command: Any) -> None:
        """Do nothing: the command is not stamped."""

    def popped(self, commands: Any) -> None:
        """Do nothing."""

    def operation(self, command: Any) -> NullOperation:
        """Return a context manager that does nothing."""
        return NullOperation()

    def answered(self, command: Any, result: Any = None) -> None:
        """Do nothing."""

    def delivered(self, request_id: Any, run_id: Any = None) -> None:
        """Do nothing."""

    # --- Sampling ---------------------------------------------------------------------------------------------
    def sample_accepted(self, request: Any) -> None:
        """Do nothing."""

    def sample_answered(self, request: Any, result: Any, *, source: Any) -> None:
        """Do nothing."""

    # --- Metrics, turns, phases -------------------------------------------------------------------------------
    def sanitize_metrics(self, metrics: Any) -> Any:
        """Return the metrics with finite stand-ins."""
        try:
            return sanitize(metrics)[0]
        except Exception:  # noqa: BLE001 - as the real one: never raises into its host
            return metrics

    def gpu_turn(self, workload: Any, lease: Any) -> NullTurn:
        """Return a context manager, plain and async, that enters the lease and does nothing else."""
        return NullTurn(lease)

    def span(self, name: Any, request: Any = None) -> NullOperation:
        """Return a context manager that does nothing."""
        return NullOperation()

    def phase(self, name: Any) -> None:
        """Do nothing."""

    # --- Delivery ---------------------------------------------------------------------------------------------
    def flush(self, timeout: float | None = None) -> bool:
        """Return True: there is nothing to deliver."""
        return True

    def close(self, timeout: float = 5.0, reason: str | None = None) -> bool:
        """Return True: there is nothing to deliver."""
        return True

    def stats(self) -> dict[str, Any]:
        """Return the counters of `Recorder.stats`, all zero."""
        by_kind: dict[str, Any] = {name: dict.fromkeys(KINDS, 0) for name in ("produced", "sent", "buffered")}
        counts = ("redelivered", "flushes", "failed_flushes", "bytes", "hook_errors")
        costs = ("last_flush_seconds", "flush_seconds", "hook_last_us", "hook_p99_us")
        return {**by_kind, "dropped": {}, **dict.fromkeys(counts, 0), **dict.fromkeys(costs, 0.0)}
