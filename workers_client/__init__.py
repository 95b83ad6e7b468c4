"""Record what RL trainers, samplers, dispatchers and API servers do, without hurting them.

`start(role)` once per process, `get_recorder()` anywhere else. Importing reads no environment, starts nothing and does
not load redis.
"""

from __future__ import annotations

import threading
from typing import Union

from workers_client.config import is_recording_rank, make_config
from workers_client.core import Core
from workers_client.exceptions import ConfigurationError, WorkersClientError
from workers_client.exits import prepare_late_imports, register_fork, register_process_exit
from workers_client.null_recorder import NullRecorder
from workers_client.recorder import Recorder
from workers_client.wire import HEARTBEAT_INTERVAL_SECONDS

__all__ = [
    "AnyRecorder", "ConfigurationError", "NullRecorder", "Recorder", "WorkersClientError", "get_recorder", "start",
]  # fmt: skip

AnyRecorder = Union[Recorder, NullRecorder]
"""What `start` and `get_recorder` return, for annotations: `def train(recorder: workers_client.AnyRecorder)`."""

_NULL = NullRecorder()
_recorder: Recorder | None = None
_start_lock = threading.Lock()  # protects `_recorder`: two threads may start at once


def start(
    role: str,
    *,
    redis_url: str | None = None,
    interval_seconds: float = HEARTBEAT_INTERVAL_SECONDS,
    max_records: int = 50_000,
    max_bytes: int = 64 * 1024 * 1024,
    socket_timeout: float = 1.0,
    rank: int | None = None,
) -> AnyRecorder:
    """Make this process's recorder and return it at once; called again, return the first one.

    Opens no socket; the flush thread starts with the first record. Without a URL (`redis_url`, else `REDIS_URL`), or
    on a rank above 0 (`rank`, else `RANK`), the null recorder is returned, which does nothing.

    Raises:
        ConfigurationError: an argument breaks a rule. A bad value of the environment is logged once instead.
    """
    global _recorder
    with _start_lock:
        if _recorder is not None:
            return _recorder
        config = make_config(
            role,
            redis_url=redis_url,
            interval_seconds=interval_seconds,
            max_records=max_records,
            max_bytes=max_bytes,
            socket_timeout=socket_timeout,
        )
        if config.redis_url is None or not is_recording_rank(rank):
            return _NULL
        core = Core(config)
        prepare_late_imports()
        register_fork(core)
        register_process_exit()
        _recorder = Recorder(core, config.role)
        return _recorder


def get_recorder() -> AnyRecorder:
    """Return what `start()` made in this process, or the null recorder."""
    return _recorder if _recorder is not None else _NULL
