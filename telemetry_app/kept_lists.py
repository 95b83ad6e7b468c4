"""Lists of Redis that are kept between two readings, so that of most of them only the end is read again. Pure.

Workers push at a list's end, and its start is cut: elements neither change nor move. A run's 2,000 records are a
megabyte, which a page that is open asks for every few seconds. What is kept is told only where the end that was read
goes on from it element by element and the lengths agree; else the whole list is read.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

TAIL = 128  # elements read of a list that is kept: what a run that makes 25 a second adds in 5 s
OVERLAP = 16  # of them at least have to be known in this order
LISTS = 32
LARGEST_BYTES = 4_194_304  # of a list; three times what 2,000 op records with 8 metrics take

_kept: dict[str, list[bytes]] = {}  # the list that was looked at last stands last
_lock = Lock()


def wanted(key: str, newest: int) -> int:
    """Return how many of a list's newest elements have to be read so that `joined` can tell the newest `newest`."""
    return TAIL if key in _kept and newest > TAIL else newest


def joined(key: str, read: Any, length: Any, *, read_count: int, newest: int) -> Any:
    """Return the newest `newest` elements of a list of which the newest `read_count` were read, and its length after.

    Returns None where what is kept does not go on in what was read: the whole list has to be read, and nothing is kept
    of it. What is no list of Redis comes back as it is.
    """
    if not isinstance(read, list) or not isinstance(length, int):
        forget(key)
        return read
    if read_count >= min(newest, length):
        _keep(key, read)
        return read
    whole = _continued(_kept.get(key), read)
    shown = min(length, newest)
    if whole is None or len(whole) < shown:
        forget(key)
        return None
    if len(whole) > shown:
        whole = whole[-shown:]
    _keep(key, whole)
    return whole


def forget(key: str) -> None:
    """Keep nothing of a list."""
    with _lock:
        _kept.pop(key, None)


def _continued(old: list[bytes] | None, read: list[bytes]) -> list[bytes] | None:
    """Return the old elements with those that were pushed since, None where nobody can tell.

    Elements that stand twice in what was read could go on from the old ones in more than one place.
    """
    if old is None or len(set(read)) < len(read):
        return None
    for new_count in range(len(read) - OVERLAP + 1):
        known_count = len(read) - new_count
        if old[-known_count:] == read[:known_count]:
            return old + read[known_count:] if new_count else old
    return None


def _keep(key: str, elements: list[bytes]) -> None:
    with _lock:
        known = _kept.pop(key, None)
        if elements is not known and (len(elements) <= TAIL or sum(map(len, elements)) > LARGEST_BYTES):
            return
        _kept[key] = elements
        if len(_kept) > LISTS:
            del _kept[next(iter(_kept))]
