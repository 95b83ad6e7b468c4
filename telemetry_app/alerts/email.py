"""E-mail by Django's own backend, which is watched for whether the message itself went out."""

from __future__ import annotations

import smtplib
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend

from telemetry_app.alerts.outcomes import Answer, Outcome, one_line
from telemetry_app.alerts.wording import link_lines, paragraphs, title_line

NOT_CONFIGURED = "Not sent: the site sends no e-mail until EMAIL_URL and EMAIL_FROM are set."
_PERMANENT = range(500, 600)


def is_configured() -> bool:
    """Return whether the site knows a mail server and an address to send from."""
    return bool(settings.EMAIL_HOST and settings.DEFAULT_FROM_EMAIL)


def send(recipients: Sequence[str], content: Mapping[str, Any], *, message_id: str) -> Answer:
    """Send one message to all recipients; nothing is raised for what the mail server does."""
    if not is_configured():
        return Answer(Outcome.REFUSED, NOT_CONFIGURED)
    backend = _WatchedBackend(timeout=settings.EMAIL_TIMEOUT)
    try:
        message_of(recipients, content, message_id=message_id, connection=backend).send()
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        is_final = all(code in _PERMANENT for code in codes)
        return Answer(Outcome.REFUSED if is_final else Outcome.FAILED, _refusals(error.recipients))
    except smtplib.SMTPResponseException as error:  # the server's own word, after the message or before it
        is_final = error.smtp_code in _PERMANENT
        words = error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        return Answer(Outcome.REFUSED if is_final else Outcome.FAILED, one_line(f"SMTP {error.smtp_code} {words}"))
    except (smtplib.SMTPException, OSError) as error:
        what = one_line(f"{type(error).__name__} {error}")
        if backend.watched.began:
            return Answer(Outcome.IN_DOUBT, f"Sent, and no answer came: {what}")
        return Answer(Outcome.FAILED, f"Not sent: {what}")
    refused = backend.watched.refused
    return Answer(
        Outcome.DELIVERED,
        f"The mail server took it, but for {_refusals(refused)}" if refused else "The mail server took it.",
    )


def message_of(
    recipients: Sequence[str], content: Mapping[str, Any], *, message_id: str, connection: Any = None
) -> EmailMessage:
    """Return the message: plain text, so that nothing in it is markup. Its Message-ID is the same at each attempt."""
    text = "\n\n".join("\n".join(lines) for lines in [*paragraphs(content), link_lines(content)])
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip("> ") or "localhost"
    headers = {"Message-ID": f"<{message_id}@{domain}>", "Auto-Submitted": "auto-generated"}
    subject = f"[openrl] {title_line(content)}"
    return EmailMessage(subject, f"{text}\n", to=list(recipients), headers=headers, connection=connection)


def _refusals(refused: Mapping[str, tuple[int, bytes]]) -> str:
    words = (f"{to}: {code} {reason.decode('utf-8', 'replace')}" for to, (code, reason) in refused.items())
    return one_line("refused " + "; ".join(words))


class _Watched:
    """What a connection did: whether the message itself began to go out, and which recipients were refused."""

    def __init__(self) -> None:
        self.began = False
        self.refused: dict[str, tuple[int, bytes]] = {}


class _WatchedBackend(EmailBackend):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.watched = _Watched()

    @property
    def connection_class(self) -> Any:
        """The connection of the theme's own kind, with or without TLS from the start, and watched."""
        watched = self.watched

        class Connection(super().connection_class):  # type: ignore[misc]
            def data(self, msg: Any) -> tuple[int, bytes]:
                watched.began = True
                answer: tuple[int, bytes] = super().data(msg)
                return answer

            def sendmail(self, *args: Any, **kwargs: Any) -> Any:
                watched.refused = super().sendmail(*args, **kwargs)
                return watched.refused

        return Connection
