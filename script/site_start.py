"""The second half of `script/server`, under the virtual environment's Python."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from openrl_site import leftovers
from openrl_site.exceptions import SetUpError
from openrl_site.file_locks import FileLock
from openrl_site.locations import var_dir
from openrl_site.programs import Address
from openrl_site.refusals import refuse_unreachable
from openrl_site.server_keeper import KEEPER_LOCK
from openrl_site.shared_servers import running_servers
from openrl_site.supervisor import Supervisor, take_site_lock

# Only what the site itself made: VAR_DIR may name a folder that holds other things.
_DATA = (
    "postgres", "postgres.new", "postgres.log", "postgres.log.1", "redis", "redis.log", "redis.log.1", "redis.pid",
    "reference_fleet", "access.json", "secret_key", "servers.json", "servers.log", "supervisor.json",
)  # fmt: skip
_LEFTOVER_SECONDS = 5.0


def run(options: argparse.Namespace) -> int:
    """Do what the options ask for until a signal comes; returns the exit status."""
    folder = var_dir()
    try:
        if options.fleet_only:
            Supervisor(folder).run_fleet(options.fleet_args, _redis_for_fleet(folder))
            return 0
        if options.reset:
            reset(folder)
        arguments = None if options.no_fleet else tuple(options.fleet_args)
        Supervisor(folder).run_site(Address(options.host, options.port), fleet_arguments=arguments)
    except SetUpError as error:
        sys.stderr.write(f"script/server: {error}\n")
        return 1
    return 0


def _redis_for_fleet(folder: Path) -> str:
    external = os.environ.get("REDIS_URL")
    if external:
        refuse_unreachable({"redis_url": external})
        return external
    url = running_servers(folder).get("redis_url")
    if not url:
        raise SetUpError(f"--fleet-only needs a Redis: start script/server on {folder} first, or set REDIS_URL.")
    return str(url)


def reset(folder: Path) -> None:
    """Delete what the site made under a data folder, after saying so.

    Raises:
        SetUpError: something uses it now.
    """
    site, keeper = take_site_lock(folder), FileLock(folder / KEEPER_LOCK)
    try:
        leftovers.end_leftovers(folder)
        # The servers of a start that was just killed go down by themselves; those of a command stay.
        if not keeper.take(wait_seconds=_LEFTOVER_SECONDS):
            raise SetUpError(f"--reset deletes {folder}, and a manage.py command uses it now: wait for its end.")
        print(f"--reset: deleting all records, users and secrets under {folder}.", flush=True)
        if os.environ.get("DATABASE_URL") or os.environ.get("REDIS_URL"):
            print("--reset: servers named by DATABASE_URL and REDIS_URL keep theirs.", flush=True)
        for name in _DATA:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    finally:
        keeper.release()
        site.release()
