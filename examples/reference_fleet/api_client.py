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


class LeftError(Exception):
    """The client leaves without waiting for an answer."""


class RequestFailedError(Exception):
    """A request was answered with a failure."""


def succeeded(result: Result) -> Result:
    """Return the result, or raise RequestFailedError where it is a failure."""
    if has_failed(result):
        raise RequestFailedError(str(result.get("error_message")))
    return result


class ApiClient:
    """One run's connection to the API server; with `is_leaving` set, a wait for an answer raises LeftError."""

    def __init__(self, port: int, run_id: str, *, request_timeout: float) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=_POLL_TIMEOUT_SECONDS)
        self._run_id = run_id
        self._request_timeout = request_timeout
        self.is_leaving = False

    def close(self) -> None:
        """Close the connection; a request opens it again."""
        self._connection.close()

    def submit(self, endpoint: str, payload: dict[str, Any]) -> str:
        """Send a command and return its request id.

        Raises:
            AnswerTimeoutError: the API server could not be reached in time.
            RequestFailedError: the API server refuses the command.
        """
        body = {"model_id": self._run_id, "payload": payload}
        deadline = time.monotonic() + self._request_timeout
        return str(succeeded(self._post(endpoint, body, deadline)[1])["request_id"])

    def result(self, request_id: str) -> Result:
        """Wait for the result of a command.

        Raises:
            AnswerTimeoutError: there is none in time.
            RequestFailedError: the result is a failure.
        """
        return succeeded(self._wait(request_id, time.monotonic() + self._request_timeout))

    def results(self, request_ids: list[str]) -> list[Result]:
        """Wait for the results of commands that were sent together; failures are among them.

        All that have an answer are fetched, so that none is left undelivered because of another.

        Raises:
            AnswerTimeoutError: at least one has none in time.
        """
        deadline = time.monotonic() + self._request_timeout
        results, missing = [], None
        for request_id in request_ids:
            try:
                results.append(self._wait(request_id, deadline))
            except AnswerTimeoutError as error:
                missing = error
        if missing is not None:
            raise missing
        return results

    def call(self, endpoint: str, payload: dict[str, Any]) -> Result:
        """Send a command and wait for its result; raises what `submit` and `result` raise."""
        return self.result(self.submit(endpoint, payload))

    def _wait(self, request_id: str, deadline: float) -> Result:
        if self.is_leaving:
            raise LeftError
        while True:
            status, result = self._post("retrieve_future", {"request_id": request_id}, deadline)
            if status != _TRY_AGAIN:
                return result
            if time.monotonic() > deadline:
                raise AnswerTimeoutError(f"no answer in {self._request_timeout:g} s")

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
