"""A line that says how far long work is, on a terminal only."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

SECONDS_BETWEEN = 0.2


class ProgressLine:
    """Counts what is done by name and writes one line over and over. Use as a context: the line goes at its end."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._counts: dict[str, int] = {}
        self._shown_at = 0.0
        self._is_terminal = stream.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._shown_at:
            self._write("")

    def add(self, name: str, count: int) -> None:
        """Count some more of what has this name."""
        self._counts[name] = self._counts.get(name, 0) + count
        now = time.monotonic()
        if self._is_terminal and now - self._shown_at >= SECONDS_BETWEEN:
            self._shown_at = now
            self._write(", ".join(f"{name} {done:,}" for name, done in self._counts.items()))

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[2K{text}", ending="")
        self._stream.flush()
