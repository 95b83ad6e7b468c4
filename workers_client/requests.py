"""Requests by id: what each has been through, and which are open here. Both are bounded."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import Any

from workers_client import wire
from workers_client.wire_values import text

HELD_LIMIT = 50_000  # open requests held: more than any worker has; the oldest is forgotten, the ledger still has it
REMEMBERED_LIMIT = 50_000  # ids remembered at least, and twice as many at most, so that each counts once

# Why a request is open; a request is open while any of them is left.
UNDELIVERED = 1  # enqueued here, and no client has the answer: an API server's own
UNANSWERED = 2  # popped here
UNSAMPLED = 4  # a sampling request accepted here


class RecentMarks:
    """Marks (bits) by request id, in two generations: the older one is forgotten whole, which costs nothing."""

    def __init__(self, limit: int = REMEMBERED_LIMIT) -> None:
        self._limit = limit
        self._young: dict[Any, int] = {}
        self._old: dict[Any, int] = {}

    def add(self, request_id: Any, mark: int) -> bool:
        """Set a mark; False where it was set before."""
        marks = self._young.get(request_id)
        if marks is None:
            marks = self._old.get(request_id, 0)
            if len(self._young) >= self._limit:
                self._old, self._young = self._young, {}
        if marks & mark:
            return False
        self._young[request_id] = marks | mark
        return True

    def has(self, request_id: Any, mark: int) -> bool:
        """Return whether a mark is set."""
        return bool((self._young.get(request_id) or self._old.get(request_id, 0)) & mark)


class OpenRequest:
    """A request that is open here since `since` (unix seconds), and why."""

    __slots__ = ("operation", "reasons", "run_id", "since")

    def __init__(self, run_id: str, operation: str, since: float, reasons: int) -> None:
        self.run_id = run_id
        self.operation = operation
        self.since = since
        self.reasons = reasons


class OpenRequests:
    """The open requests of this worker, oldest first, grouped by run and op as the worker record tells them."""

    def __init__(self, limit: int = HELD_LIMIT) -> None:
        self._limit = limit
        self._by_id: OrderedDict[str, OpenRequest] = OrderedDict()
        self._groups: dict[tuple[str, str], OrderedDict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, request_id: str, run_id: str, operation: str, since: float, reason: int) -> bool:
        """Open a request, or add a reason to one that is open; False where it was open for that reason."""
        request = self._by_id.get(request_id)
        if request is not None:
            is_new = not request.reasons & reason
            request.reasons |= reason
            return is_new
        self._by_id[request_id] = OpenRequest(run_id, operation, since, reason)
        group = self._groups.get((run_id, operation))
        if group is None:
            group = self._groups[run_id, operation] = OrderedDict()
        group[request_id] = since
        if len(self._by_id) > self._limit:
            self._forget(*self._by_id.popitem(last=False))
        return True

    def end(self, request_id: str, reason: int) -> OpenRequest | None:
        """Take a reason away; return the request where it was open for that reason, else None."""
        request = self._by_id.get(request_id)
        if request is None or not request.reasons & reason:
            return None
        request.reasons &= ~reason
        if not request.reasons:
            del self._by_id[request_id]
            self._forget(request_id, request)
        return request

    def outstanding(self) -> list[dict[str, Any]]:
        """Return the oldest 20 groups with their oldest 20 ids each, as the worker record has them."""
        entries: list[dict[str, Any]] = []
        for (run_id, operation), held in self._groups.items():
            ids = list(islice(held, wire.OUTSTANDING_LIMIT))
            entries.append(
                {
                    "run_id": run_id,
                    "operation": operation,
                    "count": len(held),
                    "oldest_at": held[ids[0]],
                    "request_ids": [text(request_id) or "" for request_id in ids],
                }
            )
        entries.sort(key=lambda entry: float(entry["oldest_at"]))
        return entries[: wire.OUTSTANDING_LIMIT]

    def _forget(self, request_id: str, request: OpenRequest) -> None:
        key = (request.run_id, request.operation)
        group = self._groups[key]
        del group[request_id]
        if not group:
            del self._groups[key]
