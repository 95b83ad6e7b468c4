"""Settings that lead outside: the mail server and its sender, and URLs of other services and of the site itself."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parseaddr
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import validate_email

_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where e-mail is handed over; without a host nowhere. `is_tls`: from the start, else by STARTTLS or never."""

    host: str = ""
    port: int = 25
    user: str = ""
    password: str = ""
    starts_tls: bool = False
    is_tls: bool = False


def mail_server(url: str, *, name: str) -> MailServer:
    """Return the mail server of a URL such as `smtp+tls://user:password@mail.example:587`; of none, none.

    Raises:
        ImproperlyConfigured: it has another scheme, no host, or no number as its port. The password is not told.
    """
    if not url:
        return MailServer()
    rule = f"{name} must be smtp://, smtp+tls:// (STARTTLS) or smtps://, then user:password@ if needed, and host:port."
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(rule) from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ImproperlyConfigured(rule)
    return MailServer(
        parts.hostname,
        port or _PORTS[parts.scheme],
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        starts_tls=parts.scheme == "smtp+tls",
        is_tls=parts.scheme == "smtps",
    )


def checked_sender(sender: str, *, is_needed: bool, name: str) -> str:
    """Return the address that e-mail comes from, such as `Telemetry <telemetry@example.org>`.

    Raises:
        ImproperlyConfigured: it is no address, or missing where it is needed.
    """
    if not sender and not is_needed:
        return ""
    try:
        if not sender.isprintable():
            raise ValidationError("it holds a line break")
        validate_email(parseaddr(sender)[1])
    except ValidationError as error:
        raise ImproperlyConfigured(f"{name}={sender!r} must be an e-mail address.") from error
    return sender


def checked_outside_url(url: str, *, name: str) -> str:
    """Return an http or https URL with a host, or nothing where nothing is set.

    Raises:
        ImproperlyConfigured: it is another one. What it holds may be secret and is not told.
    """
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii() or " " in url):
        raise ImproperlyConfigured(f"{name} must start with http:// or https:// and name a host.")
    return url
