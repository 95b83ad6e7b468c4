"""A gate at the end of a server: what is inside may finish, nothing more comes in."""

from __future__ import annotations

import threading
from types import TracebackType


class GateClosedError(Exception):
    """The server stops."""


class Gate:
    """Counts the threads inside. Use as a context manager, which raises GateClosedError once the gate is closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # protects the two below
        self._inside_count = 0
        self._is_closed = False

    def __enter__(self) -> None:
        with self._changed:
            if self._is_closed:
                raise GateClosedError
            self._inside_count += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._inside_count -= 1
            self._changed.notify_all()

    def close(self, *, timeout: float) -> bool:
        """Let no more in and wait until all are out; False where some are still inside after `timeout` seconds."""
        with self._changed:
            self._is_closed = True
            return self._changed.wait_for(lambda: self._inside_count == 0, timeout)
