"""A private folder for unix sockets whose paths are short enough for every server."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from openrl_site.exceptions import SetUpError

# sun_path holds 107 bytes; Redis silently cuts a longer one and listens elsewhere, PostgreSQL refuses it.
LONGEST_FOLDER_BYTES = 100 - len("/.s.PGSQL.5432")


def socket_folder(data: Path) -> Path:
    """Return the folder for sockets of the servers under `data`: itself, or a private one with a shorter path.

    Raises:
        SetUpError: the shorter folder belongs to somebody else or is open to others.
    """
    if len(os.fsencode(data)) <= LONGEST_FOLDER_BYTES:
        return data
    name = hashlib.blake2b(os.fsencode(data.resolve()), digest_size=8).hexdigest()
    folder = Path(tempfile.gettempdir()) / f"openrl-telemetry-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise SetUpError(f"{folder} must belong to this user with mode 0700; remove it.")
    return folder
