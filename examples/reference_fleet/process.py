"""What every process of the fleet does alike: stop when told, die with the fleet, log short lines."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import redis

import workers_client

AnyRecorder = workers_client.AnyRecorder

_PR_SET_PDEATHSIG = 1  # of prctl(2)
_REDIS_PAUSE_SECONDS = 1.0


def log(name: str, text: str) -> None:
    """Print one line, at once."""
    print(f"{time.strftime('%H:%M:%S')} {name}: {text}", flush=True)


def stop_on_sigterm() -> threading.Event:
    """Return an event that SIGTERM sets."""
    stop = threading.Event()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    return stop


def die_with_parent() -> None:
    """Have the kernel kill this process when the fleet dies, however it dies (Linux; elsewhere this does nothing)."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent == 1 or os.getppid() != parent:  # the fleet died before the kernel knew
        os._exit(1)


def repeat(name: str, stop: threading.Event, turn: Callable[[], None]) -> None:
    """Call `turn` until told to stop; while Redis is out, say so once and try again every second."""
    is_out = False
    while not stop.is_set():
        try:
            turn()
        except redis.RedisError as error:
            if not is_out:
                log(name, f"Redis is out ({type(error).__name__}), trying again")
            is_out = True
            stop.wait(_REDIS_PAUSE_SECONDS)
        else:
            is_out = False
