"""`manage.py`: servers for as long as a command lasts, and one sentence where the set-up is wrong."""

import subprocess
import sys

from tests.support.running_site import ROOT, clean_environment, wait_for_none_on


def _manage(folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=clean_environment(folder, **environment),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_command_has_servers_for_as_long_as_it_lasts(tmp_path):
    program = "from django.db import connection as c; c.ensure_connection(); print(c.settings_dict['NAME'])"
    done = _manage(tmp_path, "shell", "--no-imports", "--command", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "telemetry"
    assert wait_for_none_on(tmp_path, timeout_seconds=0.5) == []


def test_wrong_setting_is_one_sentence(tmp_path):
    done = _manage(tmp_path, "check", DEBUG="perhaps", DATABASE_URL="postgresql://h/d", REDIS_URL="redis://h")
    assert done.returncode == 1
    assert done.stderr == "manage.py: DEBUG='perhaps' must be true or false.\n"


def test_help_starts_nothing(tmp_path):
    assert _manage(tmp_path, "help").returncode == 0
    assert not (tmp_path / "postgres").exists()
