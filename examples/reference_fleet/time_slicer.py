"""The time slicer: lets one workload at a time onto the GPU that they share."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class TimeSlicer:
    """A lease on the device, for processes and threads of one host.

    The lease is a lock on an open file: the kernel takes it back from a workload that dies, so a killed trainer never
    keeps the device. Workloads get it in the order in which they came, as far as the kernel promises an order.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path

    @contextmanager
    def lease(self, workload: str) -> Iterator[None]:
        """Wait for the device and hold it; the file names the workload that held it last."""
        with self._path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                file.truncate(0)
                file.write(workload)
                file.flush()
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
