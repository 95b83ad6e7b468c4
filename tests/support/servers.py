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

_FOLDER = Path(tempfile.mkdtemp(prefix="telemetry-test-"))
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
    shutil.rmtree(_FOLDER, ignore_errors=True)
