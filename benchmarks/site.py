"""A PostgreSQL and a Redis of the benchmark's own, with Django set up on them and all tables made."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openrl_site.embedded import EmbeddedServers


@contextmanager
def running_site() -> Iterator[None]:
    """Start durable servers, migrate, and stop them at the end. Django may be imported inside alone."""
    with tempfile.TemporaryDirectory(prefix="telemetry-benchmark-") as folder:
        servers = EmbeddedServers(Path(folder), postgres=True, redis=True)
        servers.start()
        try:
            os.environ |= {name.upper(): url for name, url in servers.urls().items()}
            os.environ |= {"VAR_DIR": folder, "DJANGO_SETTINGS_MODULE": "openrl_site.settings"}
            os.environ.setdefault("SECRET_KEY", "only-for-benchmarks-" + "x" * 50)
            import django  # settings read the environment that was made just now

            django.setup()
            from django.core.management import call_command

            call_command("migrate", verbosity=0)
            yield
        finally:
            servers.stop()
