"""The lease on the device: one workload at a time, and a dead one never keeps it."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from examples.reference_fleet.time_slicer import TimeSlicer

HOLD_FOREVER = """
import sys, time
from pathlib import Path
from examples.reference_fleet.time_slicer import TimeSlicer
with TimeSlicer(Path(sys.argv[1])).lease("holder"):
    print("holding", flush=True)
    time.sleep(60)
"""


def test_one_workload_holds_the_device_at_a_time(tmp_path):
    slicer = TimeSlicer(tmp_path / "gpu.lock")
    holders, most_at_once = [], []

    def work(name):
        for _ in range(20):
            with slicer.lease(name):
                holders.append(name)
                most_at_once.append(len(holders))
                time.sleep(0.0005)
                holders.remove(name)

    threads = [threading.Thread(target=work, args=(f"workload-{index}",)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)

    assert most_at_once == [1] * 80


def test_lease_is_given_back_after_an_error(tmp_path):
    slicer = TimeSlicer(tmp_path / "gpu.lock")
    with pytest.raises(ZeroDivisionError), slicer.lease("unlucky"):
        raise ZeroDivisionError
    with slicer.lease("next"):
        assert (tmp_path / "gpu.lock").read_text() == "next"


@pytest.mark.processes
def test_killed_process_loses_its_lease(tmp_path):
    path = tmp_path / "gpu.lock"
    command = [sys.executable, "-c", HOLD_FOREVER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holding\n"
        waiting = threading.Event()
        holds = threading.Event()

        def wait_for_it():
            waiting.set()
            with TimeSlicer(path).lease("waiting"):
                holds.set()

        thread = threading.Thread(target=wait_for_it)
        thread.start()
        waiting.wait(5)
        held_while_alive = holds.wait(0.1)
        os.kill(holder.pid, signal.SIGKILL)
        thread.join(timeout=5)
    assert not held_while_alive
    assert holds.is_set()
