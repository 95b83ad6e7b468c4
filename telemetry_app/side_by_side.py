"""Take runs two at a time: while PostgreSQL stores one, or waits for the disk, Python reads another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from django.db import connection


def take_each(run_ids: Iterable[str], take: Callable[[str], object]) -> None:
    """Call `take` for each run, in this thread and in another one with a connection of its own.

    In a transaction of the caller's it is this thread alone: no other connection sees what that has not committed.
    What one of them raises ends both, each behind the run that it is at.
    """
    waiting = deque(run_ids)
    if len(waiting) < 2 or connection.in_atomic_block:
        _take_waiting(waiting, take)
        return
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(_take_with_own_connection, waiting, take)
        _take_waiting(waiting, take)
    other.result()


def _take_waiting(waiting: deque[str], take: Callable[[str], object]) -> None:
    try:
        while waiting:
            try:
                run_id = waiting.popleft()
            except IndexError:  # the other thread was faster
                return
            take(run_id)
    except BaseException:
        waiting.clear()
        raise


def _take_with_own_connection(waiting: deque[str], take: Callable[[str], object]) -> None:
    try:
        _take_waiting(waiting, take)
    finally:
        connection.close()
