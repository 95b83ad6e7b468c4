"""One program under the supervisor."""

import os
import signal
import sys
import time

import pytest

from openrl_site import process_table, supervised_process
from openrl_site.supervised_process import Program, SupervisedProcess

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def supervise(tmp_path):
    """Start a Python program; returns its process and the lines written so far."""
    processes = []

    def start(program, **options):
        lines = []
        process = SupervisedProcess(
            Program("program", (sys.executable, "-c", program), **options),
            env=os.environ,
            cwd=tmp_path,
            write=lambda name, line: lines.append((name, line)),
        )
        process.start()
        processes.append(process)
        return process, lines

    yield start
    for process in processes:
        process.kill_rest()


def _until(condition, *, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def test_lines_of_both_streams_carry_the_name(supervise):
    process, lines = supervise("import sys; print('one'); sys.stdout.flush(); print('two', file=sys.stderr)")
    _until(lambda: len(lines) == 2)
    assert lines == [("program", "one"), ("program", "two")]
    assert process.program.name == "program"


def test_ended_program_is_started_again_after_longer_and_longer_pauses(supervise, monkeypatch):
    monkeypatch.setattr(supervised_process, "FIRST_PAUSE_SECONDS", 0.05)
    process, lines = supervise("raise SystemExit(3)")
    process._pause_seconds = 0.05
    starts = 0

    def third_start():
        nonlocal starts
        starts += process.watch()
        return starts == 2

    _until(third_start)
    assert process._pause_seconds == 0.2
    assert lines[0] == ("server", "program ended (status 3); starting it again in 0 s")


def test_pause_has_an_end(supervise):
    process, _ = supervise("raise SystemExit(3)")
    process._pause_seconds = 1e6
    _until(lambda: process.has_ended)
    process.watch()
    assert process._pause_seconds == supervised_process.LONGEST_PAUSE_SECONDS


def test_program_that_may_finish_is_left_alone_after_doing_so(supervise):
    process, lines = supervise("pass", may_finish=True)
    _until(lambda: process.has_ended)
    assert not process.watch()
    assert process.is_finished
    assert ("server", "program has finished") in lines


def test_program_that_may_finish_but_failed_is_started_again(supervise):
    process, _ = supervise("raise SystemExit(1)", may_finish=True)
    _until(lambda: process.has_ended)
    process.watch()
    assert not process.is_finished


def test_children_of_a_killed_program_do_not_stay(supervise):
    process, lines = supervise(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPS!r}])")
    _until(lambda: ("program", "up") in lines)
    record = process.on_record()
    group = int(record["pid"])
    os.kill(group, signal.SIGKILL)
    _until(lambda: process.has_ended)
    process.watch()
    _until(lambda: not _group_lives(group))


def _group_lives(group):
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            alive = os.getpgid(int(name)) == group and process_table.identity_of(int(name)) is not None
        except ProcessLookupError:
            continue
        if alive:
            return True
    return False


def test_record_names_the_running_process(supervise):
    process, _ = supervise(SLEEPS)
    record = process.on_record()
    assert record["name"] == "program"
    assert process_table.identity_of(record["pid"]) == record["identity"]
    process.kill_rest()
    assert process.on_record() is None
