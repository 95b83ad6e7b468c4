"""What a client of the service calls: commands over HTTP, results awaited."""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection, HTTPException
from typing import Any

from examples.reference_fleet.envelope import Result, has_failed

_POLL_TIMEOUT_SECONDS = 10.0  # longer than the server keeps a poll waiting
_RETRY_SECONDS = 0.5
_TRY_AGAIN = 408


class AnswerTimeoutError(Exception):
    """A request was not answered in time; whether it ran is not known."""


class RequestFailedError(Exception):
    """A request was answered with a failure."""


class ApiClient:
    """One run's connection to the API server."""

    def __init__(self, port: int, run_id: str, *, request_timeout: float) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=_POLL_TIMEOUT_SECONDS)
        self._run_id = run_id
        self._request_timeout = request_timeout

    def submit(self, endpoint: str, payload: dict[str, Any]) -> str:
        """Send a command and return its request id.

        Raises:
            AnswerTimeoutError: the API server could not be reached in time.
            RequestFailedError: the API server refuses the command.
        """
        body = {"model_id": self._run_id, "payload": payload}
        deadline = time.monotonic() + self._request_timeout
        return str(_succeeded(self._post(endpoint, body, deadline)[1])["request_id"])

    def result(self, request_id: str) -> Result:
        """Wait for the result of a command.

        Raises:
            AnswerTimeoutError: there is none in time.
            RequestFailedError: the result is a failure.
        """
        deadline = time.monotonic() + self._request_timeout
        while True:
            status, result = self._post("retrieve_future", {"request_id": request_id}, deadline)
            if status != _TRY_AGAIN:
                return _succeeded(result)
            if time.monotonic() > deadline:
                raise AnswerTimeoutError(f"no answer in {self._request_timeout:g} s")

    def call(self, endpoint: str, payload: dict[str, Any]) -> Result:
        """Send a command and wait for its result; raises what `submit` and `result` raise."""
        return self.result(self.submit(endpoint, payload))

    def _post(self, endpoint: str, body: dict[str, Any], deadline: float) -> tuple[int, dict[str, Any]]:
        """Return status and answer; an API server that is not there (yet, or again) is tried until the deadline."""
        while True:
            try:
                self._connection.request("POST", f"/api/v1/{endpoint}", json.dumps(body))
                response = self._connection.getresponse()
                return response.status, json.loads(response.read())
            except (OSError, HTTPException) as error:
                self._connection.close()
                if time.monotonic() > deadline:
                    raise AnswerTimeoutError(f"API server: {type(error).__name__}") from error
                time.sleep(_RETRY_SECONDS)


def _succeeded(result: Result) -> Result:
    if has_failed(result):
        raise RequestFailedError(str(result.get("error_message")))
    return result
