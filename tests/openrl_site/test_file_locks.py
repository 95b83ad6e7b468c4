"""Locks that end with their holder."""

import subprocess
import sys

import pytest

from openrl_site.file_locks import FileLock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.lock"


def test_many_share_and_one_alone_waits_for_all(path):
    first, second, alone = FileLock(path), FileLock(path), FileLock(path)
    assert first.take(shared=True)
    assert second.take(shared=True)
    assert not alone.take()
    first.release()
    second.release()
    assert alone.take()
    alone.release()


def test_last_sharer_may_turn_its_lock_into_the_only_one(path):
    last = FileLock(path)
    assert last.take(shared=True)
    assert last.take()
    assert FileLock(path).is_taken()
    last.release()
    assert not FileLock(path).is_taken()


def test_lock_of_a_killed_process_is_free(path):
    program = (
        "import sys, time; from pathlib import Path; from openrl_site.file_locks import FileLock\n"
        "lock = FileLock(Path(sys.argv[1])); print(lock.take(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"True\n"
        assert FileLock(path).is_taken()
        holder.kill()
    assert not FileLock(path).is_taken()
