"""Tokens for the API: who or what each is of, how long it holds, and when it was last used.

No library: those for Django REST framework were tried. They delete a token when it ends, so that nobody can say later
whose it was, keep no last use, and can't take over a token that exists.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

KEY_START = "orl_"  # lets scanners for leaked secrets know one
PREFIX_LENGTH = 10  # characters that stay readable, so that people can tell tokens apart; 222 random bits stay secret
_SECRET_BYTES = 32


def new_key() -> str:
    """Return a token of 256 random bits."""
    return KEY_START + secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(key: str) -> str:
    """Return what is kept of a token.

    Plain SHA-256: slow, salted hashes protect passwords, which can be guessed; nobody guesses 256 random bits.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Tokens, by whether they open anything."""

    def active(self, at: datetime | None = None) -> ApiTokenQuerySet:
        """Return those that are neither revoked nor past their end."""
        lasting = Q(expires_at=None) | Q(expires_at__gt=at or timezone.now())
        return self.filter(lasting, revoked_at=None)

    def issue(self, key: str | None = None, **fields: Any) -> tuple[ApiToken, str]:
        """Keep a new token (or one that exists already) and return it with its key, which nothing tells again."""
        key = key or new_key()
        return self.create(digest=digest_of(key), prefix=key[:PREFIX_LENGTH], **fields), key


class ApiToken(models.Model):
    """One token of a person or a machine. Only the digest of its key is kept."""

    class Status(models.TextChoices):
        ACTIVE = "active"
        EXPIRED = "expired"
        REVOKED = "revoked"

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens", help_text="Whose rights it has."
    )
    name = models.CharField(max_length=100, help_text="What it is for, such as “night watch”.")
    prefix = models.CharField(max_length=PREFIX_LENGTH, help_text="How the token begins.")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty: it never ends by itself.")
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="To the minute.")

    may_read: bool  # of one that signs a request in: whether its user may

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def status(self) -> ApiToken.Status:
        """Whether it opens anything now, and if not, why."""
        if self.revoked_at is not None:
            return self.Status.REVOKED
        is_over = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.Status.EXPIRED if is_over else self.Status.ACTIVE

    def revoke(self) -> bool:
        """Let it open nothing from now on; False where it was revoked before."""
        now = timezone.now()
        changed = type(self).objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=now)
        if changed:
            self.revoked_at = now
        return bool(changed)
