"""Files that only their owner may read, written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file with mode 0600; a reader sees the old content or the new, never half of it."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
    fresh.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return what a file holds; nothing where it is missing or not readable as an object."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
