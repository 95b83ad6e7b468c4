"""URLs of PostgreSQL databases, read as PostgreSQL's own library reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError, conninfo

SCHEMES = ("postgres://", "postgresql://")
_DJANGO_NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def socket_url(folder: Path, *, user: str, database: str) -> str:
    """Return the URL of a database behind the unix socket in a folder.

    The folder stands in the query, which libpq, Django, SQLAlchemy and the rest read alike; as a quoted host name some
    of them do not unquote it or turn it to lower case.
    """
    return f"postgresql://{quote(user)}@/{quote(database)}?host={quote(str(folder))}"


def django_database(url: str, *, name: str) -> dict[str, Any]:
    """Return the entry of `DATABASES` for a URL; what Django has no key for goes to the driver as an option.

    Raises:
        ImproperlyConfigured: the setting called `name` is no URL of a PostgreSQL database.
    """
    if not url.startswith(SCHEMES):
        raise ImproperlyConfigured(f"{name}={url!r} must start with postgres:// or postgresql://.")
    try:
        parts = conninfo.conninfo_to_dict(url)
    except ProgrammingError as error:
        raise ImproperlyConfigured(f"{name}={url!r} must be a PostgreSQL URL: {str(error).strip()}.") from error
    if not parts.get("dbname"):
        raise ImproperlyConfigured(f"{name}={url!r} must name a database.")
    named = {_DJANGO_NAMES[key]: value for key, value in parts.items() if key in _DJANGO_NAMES}
    options = {key: value for key, value in parts.items() if key not in _DJANGO_NAMES}
    return {"ENGINE": "django.db.backends.postgresql", **named, "OPTIONS": options}
