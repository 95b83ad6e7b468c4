"""Sign-in by token, under either of the two words that clients send."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.utils import timezone
from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from telemetry_app.models.access import ApiToken, digest_of

READ_PERMISSION = "telemetry_app.view_run"
_LABEL, _CODENAME = READ_PERMISSION.split(".")
LAST_USE_EVERY = timedelta(minutes=1)  # a use is written down at most so often
REMEMBERED_SECONDS = 600  # live answers go on for known callers while PostgreSQL is out, for so long
_MOST_REMEMBERED = 1_000
_LONGEST_KEY = 200
_found: dict[str, tuple[ApiToken, float]] = {}  # by digest, with the monotonic time it was found last

logger = logging.getLogger(__name__)


class BearerOrTokenAuthentication(TokenAuthentication):
    """`Authorization: Token <token>`, and `Bearer` in place of `Token`."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the user and token of the request, or None where it brings none.

        Raises:
            AuthenticationFailed: the token is unknown, revoked or past its end, or its user is inactive.
        """
        word = request.META.get("HTTP_AUTHORIZATION", "").split(" ", 1)[0].lower()
        if word == "bearer":
            self.keyword = "Bearer"
        return super().authenticate(request)

    def authenticate_credentials(self, key: str) -> tuple[Any, Any]:
        """Return the user and token of a key, in one query."""
        token = _find(digest_of(key)) if len(key) <= _LONGEST_KEY else None
        if token is None or not token.user.is_active:  # one sentence for all: it tells nobody which tokens there were
            raise AuthenticationFailed("Invalid token.")
        _note_use(token)
        return token.user, token


def _find(digest: str) -> ApiToken | None:
    """Return the active token of a digest; while PostgreSQL is out, one that was found in the last minutes."""
    now = time.monotonic()
    try:
        token = _stored(digest)
    except (OperationalError, InterfaceError):
        token, found_at = _found.get(digest, (None, 0.0))
        if token is None or now - found_at > REMEMBERED_SECONDS:
            raise
        return token
    if token is None:
        _found.pop(digest, None)
    else:
        if len(_found) >= _MOST_REMEMBERED:
            _found.clear()
        _found[digest] = token, now
    return token


def _stored(digest: str) -> ApiToken | None:
    """Return the active token of a digest, with `may_read`: whether its user has the permission, alone or by group.

    Written by hand: each request asks, and to compose the statement takes far longer than PostgreSQL does to answer.
    """
    user_model = get_user_model()
    tokens, users = ApiToken._meta.concrete_fields, user_model._meta.concrete_fields
    with connection.cursor() as cursor:
        cursor.execute(_statement(), {"digest": digest, "now": timezone.now(), "codename": _CODENAME, "label": _LABEL})
        row = cursor.fetchone()
    if row is None:
        return None
    token = ApiToken.from_db("default", [field.attname for field in tokens], row[: len(tokens)])
    token.user = user_model.from_db("default", [field.attname for field in users], row[len(tokens) : -1])
    token.may_read = row[-1]
    return token


@cache
def _statement() -> str:
    columns = [
        f'{alias}."{field.column}"'
        for alias, model in (("token", ApiToken), ("holder", get_user_model()))
        for field in model._meta.concrete_fields
    ]
    return _STATEMENT.format(columns=", ".join(columns))


_STATEMENT = """
SELECT {columns}, EXISTS (
    SELECT FROM auth_permission permission
    JOIN django_content_type content ON content.id = permission.content_type_id AND content.app_label = %(label)s
    WHERE permission.codename = %(codename)s AND (
        permission.id IN (SELECT permission_id FROM auth_user_user_permissions WHERE user_id = holder.id)
        OR permission.id IN (
            SELECT of_group.permission_id FROM auth_group_permissions of_group
            JOIN auth_user_groups membership ON membership.group_id = of_group.group_id
            WHERE membership.user_id = holder.id
        )
    )
)
FROM auth_user holder JOIN telemetry_app_apitoken token ON token.user_id = holder.id
WHERE token.digest = %(digest)s AND token.revoked_at IS NULL
    AND (token.expires_at IS NULL OR token.expires_at > %(now)s)
"""


def _note_use(token: ApiToken) -> None:
    """Write down that a token was used. Who holds the row's lock is not waited for, and a failure stops no request."""
    now = timezone.now()
    if token.last_used_at is not None and now - token.last_used_at < LAST_USE_EVERY:
        return
    try:
        with transaction.atomic():
            free = ApiToken.objects.select_for_update(skip_locked=True).filter(pk=token.pk).values("pk")
            ApiToken.objects.filter(pk__in=free).update(last_used_at=now)
    except (DatabaseError, InterfaceError) as error:  # a database that can only be read, for example
        logger.warning("the last use of a token can't be written: %s", type(error).__name__)
