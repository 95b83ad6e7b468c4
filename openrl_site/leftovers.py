"""The programs an earlier supervisor left when it was killed: on record, so that the next start can end them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from openrl_site import process_table
from openrl_site.private_files import read_json, write_json
from openrl_site.supervised_process import SupervisedProcess

STOP_TIMEOUT_SECONDS = 5.0


def record_file(folder: Path) -> Path:
    """Return the file that names a running supervisor and its programs."""
    return folder / "supervisor.json"


def write_record(folder: Path, url: str, processes: Iterable[SupervisedProcess]) -> None:
    """Put on record who we are, where the site is and which processes are ours."""
    children = [record for process in processes if (record := process.on_record()) is not None]
    write_json(record_file(folder), {"pid": os.getpid(), "url": url, "children": children})


def end_leftovers(folder: Path) -> None:
    """End what still runs of an earlier start; the supervisor's lock must be held."""
    children = read_json(record_file(folder)).get("children", [])
    for child in children:
        process_table.end(
            child["pid"], child["identity"], signal.SIGTERM, timeout_seconds=STOP_TIMEOUT_SECONDS, whole_group=True
        )
    record_file(folder).unlink(missing_ok=True)


def running_site(folder: Path) -> str:
    """Return who runs the site, for a sentence."""
    record = read_json(record_file(folder))
    return f"process {record['pid']} at {record['url']}" if record else "on its way up"
