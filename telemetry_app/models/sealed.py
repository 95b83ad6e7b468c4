"""Texts that PostgreSQL holds sealed: who reads a dump or a replica of it can't read them without `SECRET_KEY`."""

from __future__ import annotations

import base64
import functools
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import models

PURPOSE = b"telemetry_app sealed texts"  # so that this key is no other use's of SECRET_KEY


class LostText(str):
    """A text that no key of the site opens: empty, and written back as it stands, for when the key is found again."""

    __slots__ = ("token",)
    token: str


def seal(text: str) -> str:
    """Return a text as it is stored: sealed by `SECRET_KEY`. What is empty stays so."""
    return _keys(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).encrypt(text.encode()).decode() if text else ""


def unseal(token: str) -> str:
    """Return the text of what is stored, sealed by `SECRET_KEY` or one of its fallbacks; a `LostText` for neither."""
    if not token:
        return ""
    try:
        return _keys(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).decrypt(token).decode()
    except InvalidToken:
        lost = LostText()
        lost.token = token
        return lost


@functools.lru_cache(maxsize=8)
def _keys(*secrets: str) -> MultiFernet:
    """Return what seals by the first secret and opens by any."""
    derived = (HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret.encode()) for secret in secrets)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])


class SealedCharField(models.CharField):
    """A text of at most `max_length` characters, sealed in PostgreSQL, where nothing can be looked for in it."""

    def get_internal_type(self) -> str:
        """Name the column's type: what is sealed is longer than `max_length`."""
        return "TextField"

    def get_prep_value(self, value: Any) -> str:
        """Seal what is stored."""
        return value.token if isinstance(value, LostText) else seal(super().get_prep_value(value) or "")

    def from_db_value(self, value: str | None, *_: object) -> str | None:
        """Open what was stored."""
        return None if value is None else unseal(value)
