"""Servers that several processes use: they live as long as the last of them, however it ends."""

import signal
import subprocess
import sys

import psycopg
import pytest

from openrl_site import process_table
from openrl_site.exceptions import SetUpError
from openrl_site.shared_servers import SharedServers, running_servers
from tests.support.running_site import ROOT, clean_environment, wait_for_none_on

USER_PROGRAM = (
    "import sys; from pathlib import Path; from openrl_site.shared_servers import SharedServers\n"
    "servers = SharedServers(Path(sys.argv[1])); servers.use(); print('uses', flush=True)\n"
    "sys.stdin.read(); servers.leave()\n"
)


@pytest.fixture(autouse=True)
def _no_external_servers(monkeypatch):
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("REDIS_URL")


def _start_user(folder):
    """Another process that uses the servers until its input is closed."""
    user = subprocess.Popen(
        [sys.executable, "-c", USER_PROGRAM, str(folder)],
        cwd=ROOT,
        env=clean_environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert user.stdout.readline() == b"uses\n"
    return user


def _end_user(user):
    user.communicate(timeout=20)
    return user.returncode


def test_first_user_may_leave_before_the_second(tmp_path):
    first = SharedServers(tmp_path)
    urls = first.use()
    second = _start_user(tmp_path)
    first.leave()
    with psycopg.connect(urls["database_url"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert _end_user(second) == 0
    assert wait_for_none_on(tmp_path, timeout_seconds=0.5) == []
    assert running_servers(tmp_path) == {}


def test_killed_user_leaves_nothing_running(tmp_path):
    user = _start_user(tmp_path)
    user.kill()
    user.communicate()
    assert wait_for_none_on(tmp_path, timeout_seconds=8) == []


def test_killed_keeper_is_replaced_at_the_next_use(tmp_path):
    servers = SharedServers(tmp_path)
    urls = servers.use()
    killed = running_servers(tmp_path)
    process_table.end(killed["pid"], killed["identity"], signal.SIGKILL, timeout_seconds=5)
    assert servers.use() == urls
    assert running_servers(tmp_path)["pid"] != killed["pid"]
    with psycopg.connect(urls["database_url"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    servers.leave()
    assert wait_for_none_on(tmp_path, timeout_seconds=0.5) == []


def test_stop_takes_the_servers_from_everyone(tmp_path):
    user = _start_user(tmp_path)
    servers = SharedServers(tmp_path)
    servers.use()
    servers.leave(stop=True)
    assert running_servers(tmp_path) == {}
    assert _end_user(user) == 0


def test_who_never_used_the_servers_stops_none(tmp_path):
    servers = SharedServers(tmp_path)
    servers.use()
    SharedServers(tmp_path).leave(stop=True)
    assert running_servers(tmp_path) != {}
    servers.leave()


def test_use_with_other_external_servers_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/telemetry")
    with_external = SharedServers(tmp_path)
    with_external.use()
    monkeypatch.delenv("DATABASE_URL")
    without = SharedServers(tmp_path)
    with pytest.raises(SetUpError, match="started with another DATABASE_URL: set the same one"):
        without.use()
    without.leave()
    with_external.leave()


def test_servers_that_cannot_start_are_told_with_the_reason(tmp_path):
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("9\n")
    servers = SharedServers(tmp_path)
    with pytest.raises(SetUpError, match="was made by PostgreSQL 9"):
        servers.use()
    servers.leave()


def test_external_servers_are_taken_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/telemetry")
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere/0")
    servers = SharedServers(tmp_path)
    assert servers.use() == {"database_url": "postgresql://elsewhere/telemetry", "redis_url": "redis://elsewhere/0"}
    servers.leave()
    assert list(tmp_path.iterdir()) == []
