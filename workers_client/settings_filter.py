"""Which of the environment a worker tells of itself: an allow-list, never a secret."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from workers_client.wire import SETTING_VALUE_LIMIT

ALLOWED_PREFIXES = ("OPEN_RL_", "VLLM_")
ALLOWED_NAMES = frozenset(
    {"BASE_MODEL", "SAMPLING_BACKEND", "CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "LOCAL_RANK", "NCCL_DEBUG"}
)
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
_PACKAGES = ("torch", "vllm", "transformers", "numpy", "redis", "msgspec")


def allowed_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings worth telling: names on the allow-list without a secret's word, values cut at 256
    characters, URLs cut to scheme, host and port."""
    return {
        name: _safe_value(value)
        for name, value in sorted(environment.items())
        if (name.startswith(ALLOWED_PREFIXES) or name in ALLOWED_NAMES)
        and not any(word in name.upper() for word in SECRET_WORDS)
    }


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter, without importing any."""
    # Loaded by the first flush, not by who imports this package: it took half of the import's time.
    from importlib import metadata

    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in _PACKAGES:
        if package not in sys.modules and package not in ("redis", "msgspec"):
            continue  # only what this process uses
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _safe_value(value: str) -> str:
    if "://" not in value:
        return value[:SETTING_VALUE_LIMIT]
    from urllib.parse import urlsplit  # as above

    try:
        parts = urlsplit(value.strip())
        port = f":{parts.port}" if parts.port else ""
        host = parts.hostname or ""
    except ValueError:  # no URL after all: nothing of it is told, it may hold a password
        return ""
    return f"{parts.scheme}://{host}{port}"[:SETTING_VALUE_LIMIT]
