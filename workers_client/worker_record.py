"""The record a worker writes of itself with each flush: who it is, what it holds, how its recording fares."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workers_client import wire
from workers_client.ledger import Fold, OpenRequest
from workers_client.settings_filter import allowed_settings, installed_versions

MAX_RUNS = 100  # runs named in the record, newest activity first


@dataclass
class Identity:
    """Who a worker is: new at each process start and after a fork, since pods and workloads reuse their names."""

    role: str
    parent: str | None = None
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    started_at: float = field(default_factory=time.time)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def worker(self) -> str:
        """`<role>-<pod or host>-<pid>-<start, hex>`; the start in microseconds."""
        place = self.environment.get("POD_NAME") or self.host
        return f"{self.role}-{place}-{self.pid}-{int(self.started_at * 1e6):x}"

    def fields(self) -> dict[str, Any]:
        """Return the fields that stay as they are for the process's life."""
        named = {
            "pod": self.environment.get("POD_NAME"),
            "pod_uid": self.environment.get("POD_UID"),
            "node": self.environment.get("NODE_NAME"),
            "parent": self.parent,
        }
        return {
            "worker": self.worker,
            "role": self.role,
            "wire": wire.WIRE_VERSION,
            "host": self.host,
            "pid": self.pid,
            "started_at": self.started_at,
            "settings": allowed_settings(self.environment),
            "versions": installed_versions(),
            **{name: value for name, value in named.items() if value},
        }


def outstanding(requests: Mapping[str, OpenRequest]) -> list[dict[str, Any]]:
    """Group open requests by run and op, oldest first, 20 groups at most with their oldest 20 ids each."""
    groups: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for request_id, request in requests.items():
        groups.setdefault((request.run_id, request.operation), []).append((request.since, request_id))
    entries = []
    for (run_id, operation), held in groups.items():
        held.sort()
        entries.append(
            {
                "run_id": run_id,
                "operation": operation,
                "count": len(held),
                "oldest_at": held[0][0],
                "request_ids": [request_id for _, request_id in held[: wire.OUTSTANDING_LIMIT]],
            }
        )
    entries.sort(key=lambda entry: float(str(entry["oldest_at"])))
    return entries[: wire.OUTSTANDING_LIMIT]


def newest_runs(fold: Fold) -> list[str]:
    """Return the runs this worker had to do with, newest activity first."""
    ordered = sorted(fold.runs.items(), key=lambda item: -item[1].last_activity_at)
    return [run_id for run_id, _ in ordered[:MAX_RUNS]]
