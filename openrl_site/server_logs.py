"""The log files of the embedded servers: appended to, and put aside when they are large."""

from __future__ import annotations

from pathlib import Path
from typing import IO

LARGEST_BYTES = 10_000_000


def open_log(path: Path) -> IO[bytes]:
    """Open a log to append to; one that has grown large is kept as `<name>.1` in place of the one before."""
    if path.exists() and path.stat().st_size > LARGEST_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return path.open("ab")


def last_line(path: Path) -> str:
    """Return a log's last line with anything on it, empty where there is none."""
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
