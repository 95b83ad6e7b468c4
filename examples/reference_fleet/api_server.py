"""The API server: takes clients' commands, queues them, and hands their results back.

`POST /api/v1/<endpoint>` with `{"model_id", "payload"}` answers `{"request_id"}`; `POST /api/v1/retrieve_future` with
`{"request_id"}` answers the result, or 408 after two seconds without one. Commands of a run that no trainer serves are
answered with a failure here, those that an earlier start left in its queue too: nobody else would ever answer them.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import redis

import workers_client
from examples.reference_fleet import message_queue
from examples.reference_fleet.connection import connect
from examples.reference_fleet.envelope import (
    Command,
    Result,
    decode,
    encode,
    failed_result,
    is_command,
    new_command,
)
from examples.reference_fleet.gate import Gate, GateClosedError
from examples.reference_fleet.interval_log import IntervalLog
from examples.reference_fleet.message_queue import MessageQueue, command_queue
from examples.reference_fleet.options import Options
from examples.reference_fleet.process import AnyRecorder, log, repeat, stop_on_sigterm
from examples.reference_fleet.runs import RUNS, plans_of
from examples.reference_fleet.store import ResultStore

_PREFIX = "/api/v1/"
_WAIT_SECONDS = 2.0  # how long a poll is kept waiting
_BODY_LIMIT_BYTES = 16 * 1024 * 1024
_LEFT_BATCH_LIMIT = 256  # commands of an earlier start that are answered at a time
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

    def __init__(
        self,
        connection: redis.Redis,
        recorder: AnyRecorder,
        *,
        served: Collection[str],
        intervals: IntervalLog | None = None,
    ) -> None:
        self._queue = MessageQueue(connection)
        self._store = ResultStore(connection)
        self._recorder = recorder
        self._intervals = intervals or IntervalLog()
        self._served = served  # ids of the runs that have a trainer

    def submit(self, endpoint: str, model_id: str, payload: dict[str, Any]) -> str | None:
        """Queue a command and return its request id, or None where there is no such endpoint."""
        if endpoint == "asample":
            return self._submit_sample(model_id, payload)
        if endpoint not in _OPERATIONS:
            return None
        if endpoint == "forward":
            payload = {**payload, "forward_only": True}
        command = new_command(_OPERATIONS[endpoint], model_id, payload)
        self._recorder.enqueued(command)
        self._intervals.note("enqueued", time.time(), [model_id], command["request_id"])
        if model_id in self._served:
            self._queue.push(command_queue(model_id), command)
        else:
            self._refuse(command)
        return str(command["request_id"])

    def result(self, request_id: str) -> Result | None:
        """Return the result of a request, waiting up to two seconds for it."""
        return self._store.wait(request_id, timeout=_WAIT_SECONDS)

    def delivered(self, request_id: str) -> None:
        """Note that a client has its result; the recorder counts a result that is fetched again once."""
        self._recorder.delivered(request_id)

    def refuse_left(self, run_ids: Collection[str]) -> int:
        """Answer what an earlier start left in the queues of runs that are not served now; return how many."""
        count = 0
        for queue in (command_queue(run_id) for run_id in run_ids if run_id not in self._served):
            while messages := self._queue.take(queue, limit=_LEFT_BATCH_LIMIT):
                commands = [message for message in messages if is_command(message)]
                self._recorder.popped(commands)
                for command in commands:
                    self._refuse(command)
                count += len(commands)
        return count

    def _refuse(self, command: Command) -> None:
        result = failed_result(f"no trainer serves {command['model_id']}", category="user")
        self._store.save(command["request_id"], result)
        self._recorder.answered(command, result)

    def _submit_sample(self, model_id: str, payload: dict[str, Any]) -> str:
        request = new_command("sample", model_id, payload) | {"accepted_at": time.time()}
        self._intervals.note("accepted", request["accepted_at"], [model_id], request["request_id"])
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
        except GateClosedError:
            self.close_connection = True
        except redis.RedisError as error:
            self._reply(503, failed_result(f"Redis: {type(error).__name__}"))

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing: the client logs each step."""

    def _answer(self, endpoint: str, body: dict[str, Any]) -> None:
        if endpoint == "retrieve_future":
            self._deliver(str(body.get("request_id")))
            return
        with self.server.gate:
            submitted = self.server.service.submit(endpoint, str(body.get("model_id")), dict(body.get("payload") or {}))
        if submitted is None:
            self._reply(404, failed_result(f"no endpoint {endpoint}", category="user"))
        else:
            self._reply(200, {"request_id": submitted})

    def _deliver(self, request_id: str) -> None:
        result = self.server.service.result(request_id)
        if result is None:
            self._reply(408, {"type": "try_again"})
            return
        with self.server.gate:
            if self._client_is_gone():
                raise ConnectionAbortedError
            self._reply(200, result)
            self.server.service.delivered(request_id)

    def _client_is_gone(self) -> bool:
        """Say whether the client has closed its side: a write would not tell, the kernel takes it all the same."""
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:  # open, and silent
            return False

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
        self.gate = Gate()

    def stop(self) -> None:
        """Take no more requests, and wait a moment for those that are being recorded."""
        self.shutdown()
        self.server_close()
        self.gate.close(timeout=0.5)

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
    served = [plan.run_id for plan in plans_of(options.runs)]
    intervals = IntervalLog(options.interval_log, "api-server")
    service = ApiService(connect(options.redis_url), recorder, served=served, intervals=intervals)
    server = ApiServer(options.port, service)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    log("api-server", f"listens on http://127.0.0.1:{options.port}")
    repeat("api-server", stop, lambda: _refuse_left(service, stop))
    server.stop()
    recorder.close(timeout=1.2, reason="stopped")


def _refuse_left(service: ApiService, stop: threading.Event) -> None:
    """Answer what nobody will, as soon as Redis is there, and then wait for the end."""
    if count := service.refuse_left([plan.run_id for plan in RUNS.values()]):
        log("api-server", f"commands refused that an earlier start had left: {count}")
    stop.wait()
