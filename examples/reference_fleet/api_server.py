"""The API server: takes clients' commands, queues them, and hands their results back.

`POST /api/v1/<endpoint>` with `{"model_id", "payload"}` answers `{"request_id"}`; `POST /api/v1/retrieve_future` with
`{"request_id"}` answers the result, or 408 after two seconds without one.
"""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import redis

import workers_client
from examples.reference_fleet import message_queue
from examples.reference_fleet.connection import connect
from examples.reference_fleet.envelope import Result, decode, encode, failed_result, new_command
from examples.reference_fleet.message_queue import MessageQueue, command_queue
from examples.reference_fleet.options import Options
from examples.reference_fleet.process import AnyRecorder, log, stop_on_sigterm
from examples.reference_fleet.store import ResultStore

_PREFIX = "/api/v1/"
_WAIT_SECONDS = 2.0  # how long a poll is kept waiting
_BODY_LIMIT_BYTES = 16 * 1024 * 1024
_OPERATIONS = {
    "create_model": "create_model",
    "forward": "forward_backward",  # OpenRL has one op for both; the payload says that it is forward-only
    "forward_backward": "forward_backward",
    "optim_step": "optim_step",
    "save_weights": "save_state",
    "save_weights_for_sampler": "save_weights_for_sampler",
}


class ApiService:
    """What the endpoints do, without HTTP."""

    def __init__(self, connection: redis.Redis, recorder: AnyRecorder) -> None:
        self._queue = MessageQueue(connection)
        self._store = ResultStore(connection)
        self._recorder = recorder
        self._undelivered: set[str] = set()  # requests of trainers; a set's own methods are safe among threads

    def submit(self, endpoint: str, model_id: str, payload: dict[str, Any]) -> str | None:
        """Queue a command and return its request id, or None where there is no such endpoint."""
        if endpoint == "asample":
            return self._submit_sample(model_id, payload)
        if endpoint not in _OPERATIONS:
            return None
        if endpoint == "forward":
            payload = {**payload, "forward_only": True}
        command = new_command(_OPERATIONS[endpoint], model_id, payload)
        self._undelivered.add(command["request_id"])
        self._recorder.enqueued(command)
        self._queue.push(command_queue(model_id), command)
        return str(command["request_id"])

    def result(self, request_id: str) -> Result | None:
        """Return the result of a request, waiting up to two seconds for it."""
        return self._store.wait(request_id, timeout=_WAIT_SECONDS)

    def delivered(self, request_id: str) -> None:
        """Note that a client has its result; a result that it fetches again counts as nothing."""
        if request_id in self._undelivered:
            self._undelivered.discard(request_id)
            self._recorder.delivered(request_id)

    def _submit_sample(self, model_id: str, payload: dict[str, Any]) -> str:
        request = new_command("sample", model_id, payload) | {"accepted_at": time.time()}
        self._queue.push(message_queue.SAMPLE_REQUESTS, request)
        return str(request["request_id"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # header and body leave in one packet
    server: ApiServer

    def do_POST(self) -> None:
        """Answer one request."""
        body = self._body()
        if body is None or not self.path.startswith(_PREFIX):
            self._reply(400, failed_result("POST a JSON object to /api/v1/<endpoint>", category="user"))
            return
        try:
            self._answer(self.path.removeprefix(_PREFIX), body)
        except redis.RedisError as error:
            self._reply(503, failed_result(f"Redis: {type(error).__name__}"))

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing: the client logs each step."""

    def _answer(self, endpoint: str, body: dict[str, Any]) -> None:
        service = self.server.service
        if endpoint == "retrieve_future":
            request_id = str(body.get("request_id"))
            result = service.result(request_id)
            if result is None:
                self._reply(408, {"type": "try_again"})
                return
            self._reply(200, result)
            service.delivered(request_id)
            return
        submitted = service.submit(endpoint, str(body.get("model_id")), dict(body.get("payload") or {}))
        if submitted is None:
            self._reply(404, failed_result(f"no endpoint {endpoint}", category="user"))
        else:
            self._reply(200, {"request_id": submitted})

    def _body(self) -> dict[str, Any] | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _BODY_LIMIT_BYTES:
            self.close_connection = True  # what follows can't be told from a next request
            return None
        return decode(self.rfile.read(int(length)))

    def _reply(self, status: int, message: dict[str, Any]) -> None:
        data = encode(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


class ApiServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, service: ApiService) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.service = service

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say in one line that a client is gone; its result was not delivered."""
        log("api-server", "a client left before its answer")


def main(options: Options, _duty: str) -> None:
    """Serve until told to stop."""
    stop = stop_on_sigterm()
    recorder = workers_client.start(
        role="api_server", redis_url=options.redis_url, interval_seconds=options.flush_seconds
    )
    recorder.phase("idle")
    server = ApiServer(options.port, ApiService(connect(options.redis_url), recorder))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True).start()
    log("api-server", f"listens on http://127.0.0.1:{options.port}")
    stop.wait()
    server.server_close()
    recorder.close(timeout=1.5, reason="stopped")
