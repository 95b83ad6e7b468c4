"""The recorder of a process that does not record: every call does nothing, and leases and metrics still work."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from workers_client.metrics import sanitize


class _NullOperation:
    """Stands in for an op or a span."""

    def finish(self, result: Any, **_: Any) -> None:
        """Do nothing."""

    def __enter__(self) -> _NullOperation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the host's exception pass."""

    async def __aenter__(self) -> _NullOperation:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the host's exception pass."""


class _NullTurn:
    """Enters and leaves a lease, be it a plain or an async context manager."""

    def __init__(self, lease: Any) -> None:
        self._lease = lease

    def __enter__(self) -> Any:
        return self._lease.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        return self._lease.__exit__(kind, error, trace)

    async def __aenter__(self) -> Any:
        if hasattr(self._lease, "__aenter__"):
            return await self._lease.__aenter__()
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        if hasattr(self._lease, "__aexit__"):
            return await self._lease.__aexit__(kind, error, trace)
        return self.__exit__(kind, error, trace)


class NullRecorder:
    """Has every name of `Recorder` and records nothing."""

    role = ""
    worker = ""

    def as_role(self, role: str) -> NullRecorder:
        """Return itself."""
        return self

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    enqueued = popped = answered = delivered = sample_accepted = sample_answered = phase = _nothing

    def operation(self, command: Any) -> _NullOperation:
        """Return a context manager that does nothing."""
        return _NullOperation()

    def span(self, name: Any) -> _NullOperation:
        """Return a context manager that does nothing."""
        return _NullOperation()

    def gpu_turn(self, workload: Any, lease: Any) -> _NullTurn:
        """Return a context manager, plain and async, that enters the lease and does nothing else."""
        return _NullTurn(lease)

    def sanitize_metrics(self, metrics: Any) -> Any:
        """Return the metrics with finite stand-ins."""
        try:
            return sanitize(metrics)[0]
        except Exception:  # noqa: BLE001 - as the real one: never raises into its host
            return metrics

    def flush(self, timeout: float | None = None) -> bool:
        """Return True: there is nothing to deliver."""
        return True

    def close(self, timeout: float = 5.0, reason: str | None = None) -> bool:
        """Return True: there is nothing to deliver."""
        return True

    def stats(self) -> dict[str, Any]:
        """Return no counters."""
        return {}
