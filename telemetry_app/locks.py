"""Locks by name in PostgreSQL (advisory locks): they end with their holder, so a killed task leaves none behind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import Error, connection


def run_lock(run_id: str) -> str:
    """Return the name of the lock of whoever takes or removes a run."""
    return f"run:{run_id}"


def turns_lock(workload: str) -> str:
    """Return the name of the lock of whoever takes or removes a workload's turns."""
    return f"turns:{workload}"


def take_until_commit(name: str) -> bool:
    """Take a lock that ends with the transaction, without waiting; return whether it was free."""
    return _ask("SELECT pg_try_advisory_xact_lock(%s)", name)


@contextmanager
def held(name: str) -> Iterator[bool]:
    """Hold a lock across transactions, without waiting for it; gives whether it was free.

    It is the connection's: one connection takes it again and again, and loses it with its session.
    """
    taken = _ask("SELECT pg_try_advisory_lock(%s)", name)
    try:
        yield taken
    finally:
        if taken:
            _release(name)


def _release(name: str) -> None:
    with suppress(Error):  # the session is gone, and the lock with it
        _ask("SELECT pg_advisory_unlock(%s)", name)


def _ask(query: str, name: str) -> bool:
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute(query, [key])
        return bool(cursor.fetchone()[0])
