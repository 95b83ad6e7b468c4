"""What was found of parts of a long stretch, kept as long as the rows that it was made of are the same. Pure."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

from telemetry_app.spans import Span

M = TypeVar("M")
P = TypeVar("P")


class KeptParts(Generic[M, P]):
    """Parts by their span, together at most `most` heavy: those go first that were asked for longest ago."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._weight = 0
        self._parts: OrderedDict[Span, tuple[M, P, int]] = OrderedDict()
        self._lock = Lock()  # requests are answered by several threads

    def get(self, span: Span, mark: M) -> P | None:
        """Return what was found of a part, None where it isn't kept, or with another mark."""
        with self._lock:
            found = self._parts.get(span)
            if found is None or found[0] != mark:
                return None
            self._parts.move_to_end(span)
            return found[1]

    def put(self, span: Span, mark: M, part: P, weight: int) -> None:
        """Keep what was found of a part instead of what is kept of it."""
        with self._lock:
            if span in self._parts:
                self._weight -= self._parts.pop(span)[2]
            self._parts[span] = mark, part, weight
            self._weight += weight
            while self._weight > self._most:
                self._weight -= self._parts.popitem(last=False)[1][2]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._parts.clear()
            self._weight = 0
