"""Arguments of `start()`, checked, with the environment's values where an argument is left out.

The one module of the package that reads the environment, and only when `start()` asks.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

from workers_client import wire
from workers_client.exceptions import ConfigurationError

REDIS_SCHEMES = ("redis", "rediss", "unix")


class Config(NamedTuple):
    """How one process records. Times in seconds, sizes in bytes."""

    role: str
    redis_url: str | None
    interval_seconds: float = wire.HEARTBEAT_INTERVAL_SECONDS
    max_records: int = 50_000
    max_bytes: int = 64 * 1024 * 1024
    socket_timeout: float = 1.0


def make_config(
    role: str,
    *,
    redis_url: str | None,
    interval_seconds: float,
    max_records: int,
    max_bytes: int,
    socket_timeout: float,
) -> Config:
    """Check the arguments of `start()`; `REDIS_URL` of the environment stands in for a missing URL.

    Raises:
        ConfigurationError: an argument breaks a rule; the message names it, its value and the rule.
    """
    if role not in [known.value for known in wire.Role]:  # a list: what is given may have no hash
        raise ConfigurationError(f"role={role!r} must be one of {', '.join(known.value for known in wire.Role)}.")
    _require_positive("interval_seconds", interval_seconds)
    _require_positive("socket_timeout", socket_timeout)
    _require_positive("max_records", max_records)
    _require_positive("max_bytes", max_bytes)
    if redis_url is not None and not _is_redis_url(redis_url):
        raise ConfigurationError("redis_url must start with redis://, rediss:// or unix://.")  # it may hold a password
    return Config(
        role=str(role),
        redis_url=redis_url or _environment_url(),
        interval_seconds=float(interval_seconds),
        max_records=int(max_records),
        max_bytes=int(max_bytes),
        socket_timeout=float(socket_timeout),
    )


def is_recording_rank(rank: int | None) -> bool:
    """Return whether this process records: rank 0 alone of a multi-rank trainer (`RANK`, or the argument).

    Raises:
        ConfigurationError: the argument is no whole number from 0.
    """
    if rank is not None:
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            raise ConfigurationError(f"rank={rank!r} must be a whole number from 0.")
        return rank == 0
    named = os.environ.get("RANK", "").strip()
    if not named:
        return True
    if not named.isdecimal():
        _warn("RANK=%r is no whole number; recording as rank 0", named)
        return True
    return int(named) == 0


def _environment_url() -> str | None:
    url = os.environ.get("REDIS_URL", "").strip()
    if not url:
        return None
    if not _is_redis_url(url):
        _warn("REDIS_URL must start with redis://, rediss:// or unix://; nothing is recorded")
        return None
    return url


def _warn(message: str, *values: str) -> None:
    import logging  # takes longer to import than the rest of this package, and is seldom needed

    logging.getLogger(__name__).warning(message, *values)


def _is_redis_url(url: str) -> bool:
    return isinstance(url, str) and url.partition("://")[0] in REDIS_SCHEMES and "://" in url


def _require_positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise ConfigurationError(f"{name}={value!r} must be a number above 0.")
