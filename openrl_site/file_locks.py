"""Advisory locks on files: the kernel gives them free however their holder ends, so none is ever stale."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

_POLL_SECONDS = 0.05


class FileLock:
    """A lock on one file, held by many (shared) or by one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def take(self, *, shared: bool = False, wait_seconds: float = 0.0) -> bool:
        """Take the lock, or turn one that is held into the other kind. False where others keep it too long."""
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(self._descriptor, operation)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    self.release()
                    return False
                time.sleep(_POLL_SECONDS)
            else:
                return True

    def release(self) -> None:
        """Give the lock free."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def is_ours(self) -> bool:
        """Whether we hold the lock, shared or alone."""
        return self._descriptor is not None

    def is_taken(self) -> bool:
        """Return whether another holder has the lock for itself."""
        if not self.path.exists():
            return False
        probe = FileLock(self.path)
        taken = not probe.take(shared=True)
        probe.release()
        return taken
