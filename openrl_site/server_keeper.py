"""The process that keeps the embedded servers of a data folder up for as long as anybody uses them.

Each user holds a shared lock on `servers-users.lock`. The kernel gives it free however the user ends, so the servers
outlive none of them, not even one that was killed. Started by `shared_servers`; nobody starts it by hand.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

from openrl_site import process_table
from openrl_site.embedded import EmbeddedServers
from openrl_site.exceptions import SetUpError
from openrl_site.file_locks import FileLock
from openrl_site.locations import state_file
from openrl_site.private_files import write_json

KEEPER_LOCK = "servers-keeper.lock"
USERS_LOCK = "servers-users.lock"
EXIT_FAILED = 1
EXIT_ANOTHER_KEEPS = 3
_CHECK_SECONDS = 0.2
_RESTART_PAUSE_SECONDS = 1.0


def main() -> int:
    """Keep the servers until nobody uses them or a signal asks to stop; returns the exit status."""
    options = _parse()
    folder: Path = options.folder
    lock = FileLock(folder / KEEPER_LOCK)
    if not lock.take(wait_seconds=0.5):  # others look whether it is taken, which takes it for an instant
        return EXIT_ANOTHER_KEEPS
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    servers = EmbeddedServers(folder, postgres=options.postgres, redis=options.redis)
    try:
        servers.start()
        me = os.getpid()
        write_json(state_file(folder), {"pid": me, "identity": process_table.identity_of(me), **servers.urls()})
        _keep(servers, FileLock(folder / USERS_LOCK), stopping)
    except SetUpError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_FAILED
    finally:
        state_file(folder).unlink(missing_ok=True)
        servers.stop()
    return 0


def _keep(servers: EmbeddedServers, users: FileLock, stopping: threading.Event) -> None:
    """Watch servers and users. The users' lock, once ours, stays so to the end: a new user waits until all is down."""
    while not stopping.wait(_CHECK_SECONDS) and not users.take():
        for name in servers.restart_ended():
            sys.stderr.write(f"{name} had ended and was started again.\n")
            time.sleep(_RESTART_PAUSE_SECONDS)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--redis", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
