"""How soon a password may be tried again: after a few failures one waits, longer each time, and never for long.

Counted by the address with the user name, by the address, and by the user name: the last waits for seconds alone, so
that nobody can keep a person out by failing in their place. What comes while one waits is refused unseen, and does not
count. While the cache is out nobody waits.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest

REMEMBERED_SECONDS = 900  # after the first failure all begins anew


@dataclass(frozen=True, slots=True)
class _Rule:
    """After `free_failures` the next one makes a wait of 1 s, which doubles with each up to `longest_wait_seconds`."""

    free_failures: int
    longest_wait_seconds: int

    def wait_seconds(self, failures_count: int) -> int:
        beyond = failures_count - self.free_failures
        return min(2 ** min(beyond - 1, 20), self.longest_wait_seconds) if beyond > 0 else 0


_OF_PERSON_THERE = _Rule(free_failures=4, longest_wait_seconds=300)
_OF_ADDRESS = _Rule(free_failures=20, longest_wait_seconds=300)
_OF_PERSON = _Rule(free_failures=20, longest_wait_seconds=5)


def seconds_to_wait(request: HttpRequest, username: str) -> int:
    """Return how long this caller has to wait before it may try this user's password; 0: not at all."""
    until = cache.get_many([f"{key}:until" for _, key in _keys(request, username)]) or {}
    now = time.time()
    return max((math.ceil(each - now) for each in until.values() if each > now), default=0)


def note_failure(request: HttpRequest, username: str) -> None:
    """Count a password that was wrong."""
    for rule, key in _keys(request, username):
        cache.add(key, 0, REMEMBERED_SECONDS)
        try:
            count = cache.incr(key)
        except ValueError:  # the cache is out, or forgot it just now
            continue
        wait_seconds = rule.wait_seconds(count or 0)
        if wait_seconds:
            cache.set(f"{key}:until", time.time() + wait_seconds, REMEMBERED_SECONDS)


def forget_failures(request: HttpRequest, username: str) -> None:
    """Forget what this person failed at this address: a password was right."""
    _, key = next(_keys(request, username))
    cache.delete_many([key, f"{key}:until"])


def _keys(request: HttpRequest, username: str) -> Iterator[tuple[_Rule, str]]:
    """Yield each rule with the key under which it is counted; names and addresses are not told in them."""
    address = _address(request)
    for rule, name in (
        (_OF_PERSON_THERE, f"{address}\n{username}"),
        (_OF_ADDRESS, address),
        (_OF_PERSON, f"\n{username}"),
    ):
        digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=16).hexdigest()
        yield rule, f"sign-in:{digest}"


def _address(request: HttpRequest) -> str:
    """Return where a request comes from: behind a proxy that ends TLS, what the proxy says last."""
    told = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.BEHIND_TLS else ""
    return told.rpartition(",")[2].strip() or request.META.get("REMOTE_ADDR", "")
