"""`script/server` from start to end, as a user sees it."""

import json
import os
import signal
import socket
import stat
import time

import psycopg
import pytest
from psycopg import conninfo

from tests.support.running_site import (
    READY,
    STOP_SECONDS,
    RunningSite,
    free_port,
    processes_on,
    refusal,
    wait_for_none_on,
)


def test_ctrl_c_leaves_no_process_and_the_next_start_finds_its_data(tmp_path):
    with RunningSite(tmp_path, "--no-fleet") as site:
        site.wait_for(READY)
        first = site.access
        assert stat.S_IMODE((tmp_path / "access.json").stat().st_mode) == 0o600
        assert set(first) == {"url", "username", "password", "token", "redis_url", "database_url"}
        assert sum(first["password"] in line for line in site.lines) == 1
        assert site.get("/admin/login/")[0] == 200
        assert site.get("/api/v1/inspect/runs")[0] == 401
        assert site.get("/api/v1/inspect/runs", token=first["token"])[0] == 200
        for option in ("--no-fleet", "--reset"):
            assert "runs already" in refusal(tmp_path, "--port", str(free_port()), option)
        assert site.stop() == 0
        assert wait_for_none_on(tmp_path, timeout_seconds=0.5) == []

    with RunningSite(tmp_path, "--no-fleet") as site:
        site.wait_for(READY)
        second = site.access
        assert (second["password"], second["token"]) == (first["password"], first["token"])
        assert second["url"] == f"http://127.0.0.1:{site.port}"
        assert not any(first["password"] in line for line in site.lines)
        assert site.get("/api/v1/inspect/runs", token=first["token"])[0] == 200
        assert site.stop(signal.SIGTERM) == 0
        assert wait_for_none_on(tmp_path, timeout_seconds=0.5) == []


def test_after_sigkill_nothing_stays_and_a_start_right_after_works(tmp_path):
    with RunningSite(tmp_path) as killed:
        killed.wait_for(READY)
        killed.wait_for("fleet  |")
        killed.process.kill()
        killed.process.wait()
        with RunningSite(tmp_path) as site:
            site.wait_for(READY)
            assert site.get("/api/v1/inspect/runs", token=killed.access["token"])[0] == 200
            site.wait_for("fleet  |")  # a web server may lose a signal that comes while it starts
            site.process.kill()
            site.process.wait()
            # Nobody is left to end a task that is under way: it fails once it finds that its servers are gone.
            assert wait_for_none_on(tmp_path, timeout_seconds=6 * STOP_SECONDS) == []


@pytest.fixture
def other_database_url():
    """The URL of a new, empty database on this run's server."""
    # Read late: the plugin that starts the server sets it.
    parts = conninfo.conninfo_to_dict(os.environ["DATABASE_URL"])
    with psycopg.connect(conninfo.make_conninfo(**{**parts, "dbname": "postgres"}), autocommit=True) as connection:
        connection.execute("CREATE DATABASE other_site")
        yield os.environ["DATABASE_URL"].replace(f"/{parts['dbname']}?", "/other_site?")
        connection.execute("DROP DATABASE other_site WITH (FORCE)")


def _kill(pattern, folder):
    """Kill the processes on a folder whose command lines have a pattern in them."""
    found = processes_on(folder, pattern)
    assert found, pattern
    for process in found:
        process.kill()


def test_what_is_killed_comes_back(tmp_path):
    with RunningSite(tmp_path, "--no-fleet") as site:
        site.wait_for(READY)
        token = site.access["token"]
        _kill("celery", tmp_path)
        site.wait_for("ended (SIGKILL)")
        _kill("redis-server", tmp_path)
        _kill("bin/postgres -D", tmp_path)
        assert _answers_within(site, token, seconds=30)
        _kill("openrl_site.server_keeper", tmp_path)
        assert _answers_within(site, token, seconds=30)
        assert site.stop() == 0
        assert wait_for_none_on(tmp_path, timeout_seconds=0.5) == []


def _answers_within(site, token, *, seconds):
    """Return whether the API answers from Redis and PostgreSQL within a time, after it may have failed for a while."""
    time.sleep(0.5)  # the kill reaches the servers before the question does
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status, body = site.get("/api/v1/inspect/runs", token=token)
        if status == 200 and json.loads(body):
            return True
        time.sleep(0.3)
    return False


def test_external_servers_take_the_place_of_the_embedded_ones(tmp_path, redis_url, other_database_url):
    with RunningSite(tmp_path, "--no-fleet", DATABASE_URL=other_database_url, REDIS_URL=redis_url) as site:
        site.wait_for(READY)
        assert site.access["database_url"] == other_database_url
        assert site.access["redis_url"] == redis_url
        assert not (tmp_path / "postgres").exists()
        assert not (tmp_path / "redis").exists()
        assert site.stop() == 0


def test_taken_port_is_refused(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"Port {port} on 127.0.0.1 can't be listened on" in refusal(tmp_path, "--port", str(port))
    assert wait_for_none_on(tmp_path, timeout_seconds=0.5) == []


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("DATABASE_URL", "postgresql://me:hidden@127.0.0.1:1/telemetry", "must name a database that can be reached"),
        ("DATABASE_URL", "mysql://127.0.0.1/telemetry", "must start with postgres:// or postgresql://"),
        ("REDIS_URL", "redis://127.0.0.1:1/0", "must name a Redis that can be reached"),
        ("REDIS_URL", "http://127.0.0.1/0", "must start with redis://, rediss:// or unix://"),
    ],
)
def test_unusable_server_is_refused_by_value_and_rule(tmp_path, name, value, rule):
    said = refusal(tmp_path, "--port", str(free_port()), **{name: value})
    assert said.startswith(f"script/server: {name}=")
    assert rule in said
    assert "hidden" not in said
    assert "Traceback" not in said


def test_settings_value_that_does_not_parse_is_refused_and_leaves_nothing_running(tmp_path):
    said = refusal(tmp_path, "--port", str(free_port()), TELEMETRY_RETENTION_DAYS="a week")
    assert said == "script/server: TELEMETRY_RETENTION_DAYS='a week' must be a whole number of at least 1."
    assert wait_for_none_on(tmp_path, timeout_seconds=0.5) == []


def test_fleet_alone_needs_a_redis(tmp_path):
    assert "--fleet-only needs a Redis" in refusal(tmp_path, "--fleet-only")


def test_fleet_alone_records_into_the_redis_named(tmp_path, redis_url, redis_client):
    with RunningSite(tmp_path, "--fleet-only", REDIS_URL=redis_url) as fleet:
        fleet.wait_for("step 1")
        assert fleet.stop() == 0
        assert wait_for_none_on(tmp_path, timeout_seconds=0.5) == []
    assert redis_client.keys("open_rl:*")
