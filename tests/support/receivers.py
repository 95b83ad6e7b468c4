"""Receivers of alerts on loopback: HTTP and mail servers that take messages, refuse them, hang, and come back."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP

DEADLINE_SECONDS = 20.0


@dataclass
class Received:
    """One request that was read to its end."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        """Its body as JSON."""
        return json.loads(self.body)


class HttpReceiver:
    """A web server. `mode`: a status, `hang` (reads, never answers), `drop` (reads, and closes), or `trickle`."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.mode: int | str = 200
        self.body = b"ok"
        self.headers: dict[str, str] = {}
        self.received: list[Received] = []
        self.arrived = threading.Event()
        self._released = threading.Event()
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/hook"

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._released.clear()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append(Received(self.path, headers, body))
                receiver.arrived.set()
                receiver._answer(self)

            do_GET = do_POST  # noqa: N815 - its own name

            def log_message(self, *args: Any) -> None:
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more; what hangs ends."""
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(DEADLINE_SECONDS)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        if self.mode == "hang":
            self._released.wait(DEADLINE_SECONDS)
        elif self.mode == "trickle":
            while not self._released.wait(0.05):
                handler.wfile.write(b"H")
        elif isinstance(self.mode, int):
            handler.send_response(self.mode)
            for name, value in self.headers.items():
                handler.send_header(name, value)
            handler.send_header("content-length", str(len(self.body)))
            handler.end_headers()
            handler.wfile.write(self.body)


class MailServer:
    """A mail server. `answers`: what it says to a command (`MAIL`, `RCPT`, `DATA`) in place of 250, or `hang`."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.received: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self._controller = _Controller(self, hostname="127.0.0.1", port=0)
        self._controller.start()
        self.port = self._controller.port

    def stop(self) -> None:
        """Listen no more."""
        if self._controller.server is not None:
            self._controller.stop(no_assert=True)

    # --- What aiosmtpd calls ----------------------------------------------------------------------------------
    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        """Take the sender."""
        envelope.mail_from = address
        return await self._said("MAIL")

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        """Take a recipient."""
        answer = self.answers.get(f"RCPT {address}") or await self._said("RCPT")
        if answer.startswith("2"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Take the message."""
        parsed = message_from_bytes(envelope.content, policy=default)
        assert isinstance(parsed, EmailMessage)
        self.received.append(parsed)
        self.recipients.append(list(envelope.rcpt_tos))
        return await self._said("DATA")

    async def handle_QUIT(self, server: Any, session: Any, envelope: Any) -> str:
        """Take leave."""
        return await self._said("QUIT")

    async def _said(self, command: str) -> str:
        answer = self.answers.get(command, "250 OK")
        if answer == "hang":
            await asyncio.sleep(DEADLINE_SECONDS)
        return answer


class _Controller(Controller):
    def __init__(self, server: MailServer, **options: Any) -> None:
        super().__init__(server, **options)

    def factory(self) -> SMTP:
        return SMTP(self.handler, enable_SMTPUTF8=True)

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]  # it was asked for any that is free
        super()._trigger_server()
