"""What an earlier supervisor left."""

import signal
import subprocess
import sys

import pytest

from openrl_site import leftovers, process_table
from openrl_site.private_files import write_json


@pytest.fixture
def sleeper():
    """A process that leads a group of its own and does not end on SIGTERM by itself."""
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as process:
        process.stdout.readline()
        yield process
        process.kill()


def _record(folder, pid, identity):
    write_json(
        leftovers.record_file(folder),
        {"pid": 1, "url": "http://127.0.0.1:8000", "children": [{"name": "web", "pid": pid, "identity": identity}]},
    )


def test_program_on_record_is_ended_even_if_it_does_not_want_to(tmp_path, sleeper, monkeypatch):
    monkeypatch.setattr(leftovers, "STOP_TIMEOUT_SECONDS", 0.2)
    _record(tmp_path, sleeper.pid, process_table.identity_of(sleeper.pid))
    leftovers.end_leftovers(tmp_path)
    assert sleeper.wait(5) == -signal.SIGKILL
    assert not leftovers.record_file(tmp_path).exists()


def test_stranger_with_the_old_pid_is_left_alone(tmp_path, sleeper):
    _record(tmp_path, sleeper.pid, "another start time")
    leftovers.end_leftovers(tmp_path)
    assert sleeper.poll() is None


def test_running_site_is_named_by_process_and_url(tmp_path):
    assert leftovers.running_site(tmp_path) == "on its way up"
    _record(tmp_path, 1, "")
    assert leftovers.running_site(tmp_path) == "process 1 at http://127.0.0.1:8000"
