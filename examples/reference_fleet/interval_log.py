"""What a process did and when, in its own words: the other witness, beside the records, of where time went.

One JSON object a line, in a file for each process: `what`, `start` and `end` (unix seconds, this process's clock),
`runs`, and `request_id` where it was for one. It knows nothing of `workers_client`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class IntervalLog:
    """Appends to `<folder>/<duty>.jsonl`; without a folder it does nothing."""

    def __init__(self, folder: Path | None = None, duty: str = "") -> None:
        self._file = None if folder is None else _open(folder / f"{duty.replace(':', '-')}.jsonl")

    def note(self, what: str, start: float, runs: Sequence[str], request_id: str | None = None) -> None:
        """Write down something that ends now."""
        if self._file is None:
            return
        line = {"what": what, "start": start, "end": time.time(), "runs": list(runs), "request_id": request_id}
        os.write(self._file, json.dumps(line).encode() + b"\n")  # one call: threads and a kill leave whole lines

    @contextmanager
    def during(self, what: str, runs: Sequence[str], request_id: str | None = None) -> Iterator[None]:
        """Write down when the block began and ended, however it ends."""
        start = time.time()
        try:
            yield
        finally:
            self.note(what, start, runs, request_id)


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
