"""Which site is asked and with which token: from options, the environment, the configuration or `access.json`.

A token goes to the site that it was kept for, and to no other: with `--url` naming another site, what files hold for
the first is not sent there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openrl_inspect.exceptions import InspectError, RefusedError

URL_VARIABLE = "OPENRL_INSPECT_URL"
TOKEN_VARIABLE = "OPENRL_INSPECT_TOKEN"
CONFIG_VARIABLE = "OPENRL_INSPECT_CONFIG"
PARENTS_LOOKED_AT = 4  # a shell is rarely deeper inside of a checkout


@dataclass(frozen=True, slots=True)
class Address:
    """A site, the token for it (empty where there is none), and where both come from, for messages."""

    url: str
    token: str
    url_from: str
    token_from: str


def find_address(url: str | None, token: str | None) -> Address:
    """Return the address that options (None: not given), environment and files lead to, in this order.

    Raises:
        InspectError: nothing names a site.
        RefusedError: the URL is none of a site.
    """
    named, named_by = _first((url, "--url"), (os.environ.get(URL_VARIABLE), URL_VARIABLE))
    kept = list(_kept())
    if not named:
        named, named_by = _first(*((entry.url, entry.url_from) for entry in kept))
    if not named:
        raise InspectError(
            f"No site is named: give --url, set {URL_VARIABLE}, or sign in once with `openrl-inspect login`. Where the "
            "site runs on this machine, start this in its folder, and var/access.json is found."
        )
    site = checked_url(named, named_by)
    given = _first((token, "--token"), (os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE))
    matching = ((entry.token, entry.token_from) for entry in kept if entry.url == site)
    found, found_by = given if given[0] else _first(*matching)
    return Address(site, found, named_by, found_by)


def checked_url(url: str, named_by: str) -> str:
    """Return a site's URL without what may stand behind it.

    Raises:
        RefusedError: it is no http or https URL, or holds a password.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RefusedError(f"{named_by}={url!r} must be a URL such as http://127.0.0.1:8000.")
    if parts.username or parts.password:
        raise RefusedError(f"{named_by} must hold no user and no password: the site takes a token, see --token.")
    path = parts.path.partition("/api/v1/inspect")[0].rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def keep_token(url: str, token: str) -> Path:
    """Write a token to the configuration, readable by its owner alone, and make its site the default one."""
    path = config_file()
    content = _object_in(path)
    tokens = content["tokens"] if isinstance(content.get("tokens"), dict) else {}
    content |= {"url": url, "tokens": {**tokens, url: token}}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file, indent=2)
    fresh.replace(path)
    return path


def config_file() -> Path:
    """Return where the configuration is: `OPENRL_INSPECT_CONFIG`, else a file below `XDG_CONFIG_HOME`."""
    if named := os.environ.get(CONFIG_VARIABLE):
        return Path(named).expanduser()
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "openrl-inspect" / "config.json"


def _kept() -> Iterator[Address]:
    """Yield what files hold, the most particular last: the configuration, then the access file of a site nearby."""
    config = _object_in(config_file())
    tokens = config.get("tokens") if isinstance(config.get("tokens"), dict) else {}
    urls = dict.fromkeys([config.get("url"), *(tokens or {})])
    yield from _entries([(url, (tokens or {}).get(url)) for url in urls], config_file())
    for path in _access_files():
        access = _object_in(path)
        yield from _entries([(access.get("url"), access.get("token"))], path)


def _entries(pairs: list[tuple[Any, Any]], path: Path) -> Iterator[Address]:
    for url, token in pairs:
        if isinstance(url, str) and url:
            kept = token if isinstance(token, str) else ""
            yield Address(url.rstrip("/"), kept, str(path), str(path))


def _access_files() -> list[Path]:
    folders = [Path(os.environ["VAR_DIR"])] if os.environ.get("VAR_DIR") else []
    here = Path.cwd()
    folders += [parent / "var" for parent in [here, *here.parents][: PARENTS_LOOKED_AT + 1]]
    return [folder / "access.json" for folder in folders]


def _object_in(path: Path) -> dict[str, Any]:
    """Return what a file holds; nothing where there is none.

    Raises:
        InspectError: it can't be read as what it must be.
    """
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except PermissionError:
        return {}  # the access file of another user
    except (OSError, ValueError) as error:
        raise InspectError(f"{path} can't be read ({error}): mend it or remove it.") from error
    return content if isinstance(content, dict) else {}


def _first(*pairs: tuple[str | None, str]) -> tuple[str, str]:
    return next(((value, source) for value, source in pairs if value), ("", ""))
