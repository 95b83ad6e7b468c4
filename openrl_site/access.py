"""Who may sign in at first: one admin user and one API token, kept in `var/access.json` for people and tools."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction

from openrl_site.locations import access_file
from openrl_site.private_files import read_json, write_json
from telemetry_app.models.access import ApiToken, digest_of

USERNAME = "admin"
TOKEN_NAME = "access.json"
_SECRET_BYTES = 18


@dataclass(frozen=True, slots=True)
class Access:
    """How to sign in. `password` is empty where the user existed before and only its owner knows it."""

    username: str
    password: str
    token: str
    is_new: bool


def ensure_access(folder: Path, *, own_database: bool) -> Access:
    """Have an admin user with a token in the database, with the secrets kept in `folder` where there are any.

    A user that exists keeps its password; only in a database of our own, where nobody could know it otherwise, one
    without kept secrets gets a new one.
    """
    kept = read_json(access_file(folder))
    password = str(kept.get("password") or secrets.token_urlsafe(_SECRET_BYTES))
    with transaction.atomic():
        users = get_user_model().objects
        user = users.filter(username=USERNAME).first()
        if user is None:
            user = users.create_superuser(username=USERNAME, password=password)
        elif not kept and own_database:
            user.set_password(password)
            user.save(update_fields=["password"])
        elif not kept:
            password = ""
        token = _ensure_token(user, str(kept.get("token") or ""))
    return Access(username=USERNAME, password=password, token=token, is_new=not kept)


def write_access(folder: Path, access: Access, urls: dict[str, str]) -> None:
    """Keep the secrets, with where the site and its servers are now, readable by nobody else.

    Args:
        folder: the data folder.
        access: the secrets.
        urls: `url` of the site, `redis_url` and `database_url`.
    """
    content = {
        "url": urls["url"],
        "username": access.username,
        "password": access.password,
        "token": access.token,
        "redis_url": urls["redis_url"],
        "database_url": urls["database_url"],
    }
    write_json(access_file(folder), content)


def _ensure_token(user: Any, kept: str) -> str:
    """Return a token of the user: the kept one, unless it was revoked or is past its end, else a new one."""
    digest = digest_of(kept) if kept else ""
    if ApiToken.objects.active().filter(user=user, digest=digest).exists():
        return kept
    is_over = ApiToken.objects.filter(digest=digest).exists()
    _, key = ApiToken.objects.issue(None if is_over or not kept else kept, user=user, name=TOKEN_NAME)
    return key
