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

    def gpu_turn(self, workload: Any, lease: Any) -> Any:
        """Return the lease itself."""
        return lease

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
