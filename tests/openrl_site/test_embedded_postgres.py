"""The embedded PostgreSQL: start, stop, crashes, leftovers, long paths, and who it runs as."""

import os
import signal
import stat
import subprocess
import sys

import psycopg
import pytest

from openrl_site import embedded_postgres, process_table, unprivileged
from openrl_site.embedded_postgres import EmbeddedPostgres
from openrl_site.exceptions import SetUpError


@pytest.fixture
def server(tmp_path):
    """A server that runs."""
    postgres = EmbeddedPostgres(tmp_path, durable=False)
    postgres.start()
    yield postgres
    postgres.stop()


def _execute(server, statement):
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else None


def _postmaster(folder):
    return int((folder / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def test_data_outlive_a_stop_with_clients_connected(server):
    _execute(server, "CREATE TABLE kept AS SELECT 7 AS number")
    with psycopg.connect(server.url("postgres")):
        server.stop()
    assert not server.is_running()
    server.start()
    assert _execute(server, "SELECT number FROM kept") == [(7,)]


def test_what_was_committed_outlives_sigkill(tmp_path):
    server = EmbeddedPostgres(tmp_path)
    server.start()
    _execute(server, "CREATE TABLE kept AS SELECT 7 AS number")
    os.kill(_postmaster(tmp_path), signal.SIGKILL)
    server.stop()
    server.start()
    assert _execute(server, "SELECT number FROM kept") == [(7,)]
    server.stop()


def test_database_is_created_once(server):
    server.create_database("telemetry")
    server.create_database("telemetry")
    assert _execute(server, "SELECT count(*) FROM pg_database WHERE datname = 'telemetry'") == [(1,)]


def test_nobody_else_can_reach_the_socket(server, tmp_path):
    assert stat.S_IMODE((tmp_path / ".s.PGSQL.5432").stat().st_mode) & 0o077 == 0
    assert _execute(server, "SHOW listen_addresses") == [("",)]


def test_pid_file_of_a_stranger_is_forgotten(server, tmp_path):
    server.stop()
    (tmp_path / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path}\n")
    server.start()
    assert server.is_running()


def test_server_of_a_killed_parent_is_ended_before_the_next_starts(tmp_path):
    # A parent that only the death signal would end its server for, taken away: as on systems that have none.
    program = (
        "import sys, time; from pathlib import Path; from openrl_site import child_process\n"
        "child_process._LIBC = None\n"
        "from openrl_site.embedded_postgres import EmbeddedPostgres\n"
        "EmbeddedPostgres(Path(sys.argv[1]), durable=False).start(); print('up', flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"up\n"
        parent.kill()
    left = _postmaster(tmp_path)
    assert process_table.identity_of(left) is not None
    server = EmbeddedPostgres(tmp_path, durable=False)
    server.start()
    assert process_table.identity_of(left) is None
    assert _postmaster(tmp_path) != left
    server.stop()


def test_path_too_long_for_a_socket_gets_a_short_private_folder(tmp_path):
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    server = EmbeddedPostgres(deep, durable=False)
    server.start()
    assert _execute(server, "SELECT 1") == [(1,)]
    assert server.sockets != deep
    assert stat.S_IMODE(server.sockets.stat().st_mode) == 0o700
    server.stop()
    server.sockets.rmdir()


def test_locale_that_is_not_installed_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setenv("LANG", "xx_XX.UTF-8")
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    server = EmbeddedPostgres(tmp_path, durable=False)
    server.start()
    assert _execute(server, "SHOW server_encoding") == [("UTF8",)]
    server.stop()


def test_data_of_another_version_are_refused(tmp_path):
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("9\n")
    with pytest.raises(SetUpError, match=r"was made by PostgreSQL 9, and .* is installed"):
        EmbeddedPostgres(tmp_path).start()


def _identities():
    """Every way to run it that there is for this user."""
    if os.geteuid() != 0:
        return [unprivileged.Identity(unprivileged._stay, os.geteuid())]
    return [
        unprivileged.Identity(unprivileged._enter_user_namespace, 0),
        unprivileged.Identity(unprivileged._become_nobody, unprivileged.NOBODY),
    ]


def test_every_identity_that_works_here_reads_the_data_of_every_other(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    probe = [str(embedded_postgres.find_binaries() / "postgres"), "--version"]
    working = [identity for identity in _identities() if unprivileged._works(probe, identity)]
    assert working
    for number, identity in enumerate([*working, *working]):
        monkeypatch.setattr(embedded_postgres, "unprivileged_identity", lambda _, found=identity: found)
        server = EmbeddedPostgres(tmp_path, durable=False)
        server.start()
        _execute(server, f"CREATE TABLE made_by_{number} ()")
        assert len(_execute(server, "SELECT 1 FROM pg_tables WHERE tablename LIKE 'made_by_%'")) == number + 1
        server.stop()
        assert (tmp_path / "postgres").stat().st_uid == identity.owner


def test_user_without_a_name_runs_it_in_a_namespace(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(unprivileged, "_has_name", lambda user: False)
    monkeypatch.setattr(unprivileged, "_works", lambda probe, identity: True)
    found = unprivileged.unprivileged_identity(["true"])
    assert found == unprivileged.Identity(unprivileged._enter_user_namespace, 1234)


@pytest.mark.parametrize("user", [0, 1234])
def test_user_without_a_way_out_is_told_what_to_do(monkeypatch, user):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(unprivileged, "_has_name", lambda user: False)
    monkeypatch.setattr(unprivileged, "_works", lambda probe, identity: False)
    with pytest.raises(
        SetUpError, match=rf"refuses to run as user {user}.*run this as an ordinary user, or set DATABASE_URL"
    ):
        unprivileged.unprivileged_identity(["true"])
