"""A TCP proxy in front of a real Redis, which fails in the ways that networks do.

Modes: `pass`; `refuse` (nobody listens); `reset` (connections end with a reset); `swallow` (takes everything, answers
nothing); `cut_reply` (Redis gets the request, its reply is cut off); `delay` (replies come late); `halt` (nothing is
read or written, connections stay open).
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from types import TracebackType

MODES = ("pass", "refuse", "reset", "swallow", "cut_reply", "delay", "halt")
_CHUNK = 1 << 16
_TICK_SECONDS = 0.02


class TcpProxy:
    """Listens on a port of 127.0.0.1 and forwards to a unix socket. Use as a context; `mode` may change at any time."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.delay_seconds = 0.3
        self.connections_count = 0
        self._mode = "pass"
        self._stopped = threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._forgotten: set[socket.socket] = set()  # clients whose connections lead nowhere
        self._lock = threading.Lock()
        self._listener: socket.socket | None = _listen(0)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """The URL of Redis behind this proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def mode(self) -> str:
        """How it treats connections now."""
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        assert mode in MODES, f"{mode!r} is none of {MODES}"
        self._mode = mode
        if mode in ("refuse", "reset"):
            self._drop_all()

    def forget(self) -> None:
        """Forget the connections there are, and tell nobody, as a NAT does with idle ones; new ones work."""
        with self._lock:
            self._forgotten.update(client for client, _ in self._pairs)

    def __enter__(self) -> TcpProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._drop_all()
        for thread in [self._thread, *self._threads]:
            thread.join(5)
        if self._listener is not None:
            self._listener.close()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            if self._mode == "refuse":
                if self._listener is not None:
                    self._listener.close()
                    self._listener = None
                time.sleep(_TICK_SECONDS)
                continue
            if self._listener is None:
                self._listener = _listen(self.port)
            self._listener.settimeout(_TICK_SECONDS)
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            self.connections_count += 1
            if self._mode == "reset":
                _reset(client)
                continue
            self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.target)
        except OSError:
            client.close()
            server.close()
            return
        with self._lock:
            self._pairs.append((client, server))
        thread = threading.Thread(target=self._forward, args=(client, server), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.closing(client), contextlib.closing(server), selectors.DefaultSelector() as selector:
            try:
                selector.register(client, selectors.EVENT_READ, server)
                selector.register(server, selectors.EVENT_READ, client)
                while not self._stopped.is_set():
                    if self._mode == "halt":
                        time.sleep(_TICK_SECONDS)
                        continue
                    for key, _ in selector.select(_TICK_SECONDS):
                        if not self._pass_on(key.fileobj, key.data, is_reply=key.fileobj is server):
                            return
            except (OSError, ValueError):  # closed by `_drop_all`, or by either end
                return

    def _pass_on(self, source: socket.socket, target: socket.socket, *, is_reply: bool) -> bool:
        data = source.recv(_CHUNK)
        if not data:
            return False
        if self._mode == "swallow" or self._forgotten.intersection((source, target)):
            return True
        if is_reply and self._mode == "cut_reply":
            return False
        if is_reply and self._mode == "delay":
            time.sleep(self.delay_seconds)
        target.sendall(data)
        return True

    def _drop_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for client, server in pairs:
            for end in (client, server):
                with contextlib.suppress(OSError):
                    _reset(end)


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    return listener


def _reset(connection: socket.socket) -> None:
    """End a connection with a reset instead of a goodbye."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
