"""The embedded Redis: start, stop, crashes, leftovers."""

import signal
import stat
import subprocess
import sys
import time

import pytest
import redis

from openrl_site import embedded_redis, process_table
from openrl_site.embedded_redis import EmbeddedRedis
from openrl_site.exceptions import SetUpError


@pytest.fixture
def server(tmp_path):
    """A server that runs."""
    embedded = EmbeddedRedis(tmp_path)
    embedded.start()
    yield embedded
    embedded.stop()


def test_data_outlive_a_stop(server):
    with redis.Redis.from_url(server.url) as client:
        client.set("kept", "7")
    server.stop()
    assert not server.is_running()
    server.start()
    with redis.Redis.from_url(server.url) as client:
        assert client.get("kept") == b"7"


def test_data_outlive_sigkill(server):
    with redis.Redis.from_url(server.url) as client:
        client.set("kept", "7")
        _wait_for_append_only_file(server)
    server._process.send_signal(signal.SIGKILL)
    server.stop()
    server.start()
    with redis.Redis.from_url(server.url) as client:
        assert client.get("kept") == b"7"


def _wait_for_append_only_file(server):
    """Wait until the last write is in the file; it goes there once a round of the server's loop."""
    deadline = time.monotonic() + 5
    while b"kept" not in (server.data / "appendonly.aof").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_nothing_is_thrown_out_to_make_room(server):
    with redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_socket_is_the_only_way_in(server):
    assert stat.S_IMODE(server.socket.stat().st_mode) == 0o700
    with redis.Redis.from_url(server.url) as client:
        assert client.config_get("port") == {"port": "0"}


def test_server_of_a_killed_parent_is_ended_before_the_next_starts(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from openrl_site import child_process\n"
        "child_process._LIBC = None\n"
        "from openrl_site.embedded_redis import EmbeddedRedis\n"
        "EmbeddedRedis(Path(sys.argv[1])).start(); print('up', flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"up\n"
        parent.kill()
    left = int((tmp_path / "redis.pid").read_text())
    server = EmbeddedRedis(tmp_path)
    server.start()
    assert process_table.identity_of(left) is None
    server.stop()


def test_damaged_data_stop_the_start_with_the_log_named(tmp_path):
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "appendonly.aof").write_text("this is no append-only file\r\n")
    with pytest.raises(SetUpError, match=r"did not start; its log, .*redis\.log, ends: "):
        EmbeddedRedis(tmp_path).start()


def test_missing_binary_is_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr(embedded_redis.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(embedded_redis.shutil, "which", lambda name: None)
    monkeypatch.setattr(embedded_redis.sys, "prefix", "/nowhere")
    with pytest.raises(SetUpError, match=r"No redis-server was found: .* or set REDIS_URL"):
        embedded_redis.find_binary()
