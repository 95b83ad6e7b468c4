"""E-mail by Django's own backend, which is watched for whether the message itself went out."""

from __future__ import annotations

import io
import smtplib
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend

from telemetry_app.alerts.outcomes import Answer, Outcome, one_line
from telemetry_app.alerts.wording import link_lines, paragraphs, title_line

NOT_CONFIGURED = "Not sent: the site sends no e-mail until EMAIL_URL and EMAIL_FROM are set."
TOTAL_SECONDS = 20.0  # for all that is said, however slowly: less than the task has
GO_AHEAD = 354  # what a mail server answers to DATA: the message itself follows
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
    except (smtplib.SMTPException, OSError) as error:
        if backend.watched.refused is None:
            return _failure(error, was_sent=backend.watched.was_sent)
    # It was taken, even where the server then did not take its leave.
    refused = backend.watched.refused
    return Answer(Outcome.DELIVERED, "The mail server took it" + (f", but {_refusals(refused)}" if refused else "."))


def _failure(error: Exception, *, was_sent: bool) -> Answer:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        is_final = all(code in _PERMANENT for code, _ in error.recipients.values())
        return Answer(Outcome.REFUSED if is_final else Outcome.FAILED, _refusals(error.recipients))
    if isinstance(error, smtplib.SMTPResponseException):  # the server's own word, before the message or after it
        said = error.smtp_error
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        is_final = error.smtp_code in _PERMANENT
        return Answer(Outcome.REFUSED if is_final else Outcome.FAILED, one_line(f"SMTP {error.smtp_code} {text}"))
    what = one_line(f"{type(error).__name__} {error}")
    if was_sent:
        return Answer(Outcome.IN_DOUBT, f"Sent, and no answer came: {what}")
    return Answer(Outcome.FAILED, f"Not sent: {what}")


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
    """What a connection did: whether the message itself went out, and, once it was taken, who was refused of it."""

    def __init__(self) -> None:
        self.was_sent = False
        self.refused: dict[str, tuple[int, bytes]] | None = None
        self.deadline = time.monotonic() + TOTAL_SECONDS

    def left_seconds(self) -> float:
        """Return the seconds until the next answer has to be there.

        Raises:
            TimeoutError: none are left.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the mail server took more than {TOTAL_SECONDS:.0f} s in all")
        return min(left, float(settings.EMAIL_TIMEOUT))


class _TimedReader(io.RawIOBase):
    """What a mail server answers, up to the deadline: an answer that trickles is no way round it."""

    def __init__(self, connection: socket.socket, watched: _Watched) -> None:
        super().__init__()
        self._connection, self._watched = connection, watched

    def readable(self) -> bool:
        """Return that it is for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is."""
        self._connection.settimeout(self._watched.left_seconds())
        return self._connection.recv_into(buffer)


class _WatchedBackend(EmailBackend):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.watched = _Watched()

    @property
    def connection_class(self) -> Any:
        """The usual connection, with TLS from the start or without, and watched."""
        watched = self.watched

        class Connection(super().connection_class):  # type: ignore[misc]
            file: Any

            def getreply(self) -> tuple[int, bytes]:
                if self.sock is not None and self.file is None:
                    self.file = io.BufferedReader(_TimedReader(self.sock, watched))
                reply: tuple[int, bytes] = super().getreply()
                if reply[0] == GO_AHEAD:
                    watched.was_sent = True
                return reply

            def sendmail(self, *args: Any, **kwargs: Any) -> Any:
                watched.refused = super().sendmail(*args, **kwargs)
                return watched.refused

        return Connection
