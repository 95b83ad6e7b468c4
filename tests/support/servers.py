"""A pytest plugin: real PostgreSQL and Redis for the whole run, up before Django reads its settings.

`DATABASE_URL` and `REDIS_URL` put other servers in their place.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from openrl_site.embedded import EmbeddedServers
from openrl_site.file_locks import FileLock

_PREFIX = "telemetry-test-"


def _remove_data_of_killed_runs() -> None:
    """Remove the folders of runs that ended without doing so; the lock of one that runs is taken."""
    for lock_file in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/run.lock"):
        lock = FileLock(lock_file)
        if lock_file.stat().st_uid == os.geteuid() and lock.take():
            shutil.rmtree(lock_file.parent, ignore_errors=True)
            lock.release()


_remove_data_of_killed_runs()
_FOLDER = Path(tempfile.mkdtemp(prefix=_PREFIX))
_LOCK = FileLock(_FOLDER / "run.lock")
_LOCK.take()
_SERVERS = EmbeddedServers(
    _FOLDER,
    postgres=not os.environ.get("DATABASE_URL"),
    redis=not os.environ.get("REDIS_URL"),
    durable=False,
)
_SERVERS.start()
for _name, _url in _SERVERS.urls().items():
    os.environ[_name.upper()] = _url
os.environ["VAR_DIR"] = str(_FOLDER)
os.environ.setdefault("SECRET_KEY", "only-for-tests-" + "x" * 50)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers and remove their data."""
    _SERVERS.stop()
    _LOCK.release()
    shutil.rmtree(_FOLDER, ignore_errors=True)
