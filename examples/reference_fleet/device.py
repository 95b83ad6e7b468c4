"""The GPU that the fleet pretends to have: NumPy needs microseconds where a GPU needs long enough to be waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Device:
    """Makes what runs on it last at least `seconds`, unless the process is told to stop."""

    def __init__(self, seconds: float, stop: threading.Event) -> None:
        self._seconds = seconds
        self._stop = stop

    def occupy(self, share: float) -> None:
        """Be busy for `share` times the device's seconds."""
        with self.busy(share):
            pass

    @contextmanager
    def busy(self, share: float = 1.0) -> Iterator[None]:
        """Run the block and wait out the rest of `share` times the device's seconds."""
        until = time.monotonic() + share * self._seconds
        yield
        if (rest := until - time.monotonic()) > 0:
            self._stop.wait(rest)
