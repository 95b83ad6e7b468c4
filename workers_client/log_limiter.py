"""At most one log line for a reason and minute."""

from __future__ import annotations

import time
from collections.abc import Callable

LOG_INTERVAL_SECONDS = 60.0


class LogLimiter:
    """Logs warnings, at most one for a reason and minute, each with how many were suppressed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def warn(self, reason: str, message: str) -> None:
        """Log a warning unless one for the same reason was logged within the last minute."""
        now = self._clock()
        if now - self._last.get(reason, -LOG_INTERVAL_SECONDS) < LOG_INTERVAL_SECONDS:
            self._suppressed[reason] = self._suppressed.get(reason, 0) + 1
            return
        self._last[reason] = now
        import logging  # takes longer to import than the rest of this package, and is seldom needed

        more = self._suppressed.pop(reason, 0)
        logging.getLogger("workers_client").warning("%s (%s more like it since the last line)", message, more)
