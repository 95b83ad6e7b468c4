"""Asking one site: its inspection API over HTTP, with errors that say what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx2

from openrl_inspect import __version__
from openrl_inspect.addresses import Address
from openrl_inspect.exceptions import InspectError, NotAllowedError, NotFoundError, RefusedError

BASE = "/api/v1/inspect"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
MOST_PAGE_SIZE = 500  # the API's own limit
LONGEST_WAIT_SECONDS = 60.0  # for a turn at the limit of requests a minute; those who page through all of a run meet it

Answer = dict[str, Any]


class Site:
    """One site's inspection API. Use within `open_site`."""

    def __init__(self, client: httpx2.AsyncClient, address: Address) -> None:
        self._client = client
        self.address = address

    async def get(self, path: str, **parameters: Any) -> Answer:
        """Return the answer of an endpoint; parameters of None are left out, lists are joined by commas.

        Raises:
            NotFoundError: there is no such run, worker or endpoint.
            RefusedError: the site refuses a parameter.
            NotAllowedError: the site wants another token.
            InspectError: it does not answer, or not as an inspection API does.
        """
        async with self._stream(path, parameters, "application/json") as response:
            await response.aread()
            content = _json(response)
        if not isinstance(content, dict):
            raise self._no_api(response)
        return content

    async def get_if_there(self, path: str, **parameters: Any) -> Answer | None:
        """Return the answer of an endpoint that only newer sites have; None at others.

        Those take the whole path for the id of a run that there is not, and may refuse the parameters before that.
        """
        try:
            return await self.get(path, **parameters)
        except (NotFoundError, RefusedError):
            return None

    async def pages(self, path: str, *, limit: int, **parameters: Any) -> AsyncIterator[Answer]:
        """Yield the pages of a list until it ends or `limit` results came. Waits at the limit of requests a minute."""
        cursor, left = None, limit
        while left > 0:
            answer = await self._patiently(path, page_size=min(left, MOST_PAGE_SIZE), cursor=cursor, **parameters)
            yield answer
            left -= len(results_of(answer))
            cursor = answer.get("next")
            if not cursor:
                return

    @asynccontextmanager
    async def csv(self, path: str, **parameters: Any) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Give the bytes of an endpoint's table as they come. Raises as `get` does."""
        async with self._stream(path, parameters, "text/csv") as response:
            if not response.headers.get("Content-Type", "").startswith("text/csv"):
                raise self._no_api(response)
            yield response.aiter_bytes()

    @asynccontextmanager
    async def events(self, path: str, last_id: str | None) -> AsyncGenerator[httpx2.EventSource]:
        """Give an open stream of events, from behind the event with an id where one is given. Raises as `get` does."""
        headers = {"Last-Event-ID": last_id} if last_id else {}
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=ANSWER_SECONDS)  # heartbeats come every 10 s
        async with self._stream(path, {}, "text/event-stream", headers=headers, timeout=timeout) as response:
            yield httpx2.EventSource(response)

    async def _patiently(self, path: str, **parameters: Any) -> Answer:
        while True:
            try:
                return await self.get(path, **parameters)
            except _TooManyRequestsError as error:
                await asyncio.sleep(error.wait_seconds)

    @asynccontextmanager
    async def _stream(
        self, path: str, parameters: Mapping[str, Any], accept: str, **options: Any
    ) -> AsyncGenerator[httpx2.Response]:
        headers = {"Accept": accept, **options.pop("headers", {})}
        query = {name: _text(value) for name, value in parameters.items() if value is not None}
        try:
            async with self._client.stream(
                "GET", f"{self.address.url}{BASE}{path}", params=query, headers=headers, **options
            ) as response:
                if response.status_code != httpx2.codes.OK:
                    await response.aread()
                    raise self._error(response)
                yield response
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    # --- Errors ---------------------------------------------------------------------------------------------------
    def _error(self, response: httpx2.Response) -> InspectError:
        status, detail = response.status_code, _detail(response)
        if response.is_redirect:
            there = response.headers.get("Location", "")
            return InspectError(f"{self.address.url} leads to {there}: give that site with --url.")
        if status == httpx2.codes.UNAUTHORIZED:
            return NotAllowedError(self._no_sign_in())
        if detail is None:
            return self._no_api(response)
        if status == httpx2.codes.FORBIDDEN:
            return NotAllowedError(f"{detail} (the token is from {self.address.token_from})")
        if status == httpx2.codes.NOT_FOUND:
            return NotFoundError(detail)
        if status == httpx2.codes.TOO_MANY_REQUESTS:
            return _TooManyRequestsError(detail, response.headers.get("Retry-After", ""))
        if status < httpx2.codes.INTERNAL_SERVER_ERROR:
            return RefusedError(f"{detail} The site at {self.address.url} may be older or newer than this command.")
        return InspectError(f"{detail} `{self.address.url}/readyz` says what is wrong with the site.")

    def _no_sign_in(self) -> str:
        how = "make one in the admin (API tokens) and keep it with `openrl-inspect login`."
        if not self.address.token:
            return f"{self.address.url} wants a token, and none is known for it: {how}"
        return f"{self.address.url} refuses the token from {self.address.token_from}: {how}"

    def _no_api(self, response: httpx2.Response) -> InspectError:
        return InspectError(
            f"{self.address.url} (from {self.address.url_from}) answers with status {response.status_code} and is no "
            "inspection API: name the site's own URL with --url."
        )

    def _unreachable(self, error: httpx2.TransportError) -> InspectError:
        reason = str(error) or type(error).__name__
        return InspectError(
            f"{self.address.url} (from {self.address.url_from}) does not answer ({reason}): start the site, or name "
            "another one with --url."
        )


class _TooManyRequestsError(InspectError):
    """The token's requests of this minute are used up."""

    def __init__(self, detail: str, retry_after: str) -> None:
        self.wait_seconds = min(float(retry_after), LONGEST_WAIT_SECONDS) if retry_after.isdecimal() else 1.0
        super().__init__(f"{detail} Ask again in {self.wait_seconds:.0f} s.")


@asynccontextmanager
async def open_site(
    address: Address, transport: httpx2.AsyncBaseTransport | None = None, **headers: str
) -> AsyncGenerator[Site]:
    """Give a site to ask. Another transport than the network's reaches one in this very process."""
    sent = {"User-Agent": f"openrl-inspect/{__version__}", **headers}
    if address.token:
        sent["Authorization"] = f"Token {address.token}"
    timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    async with httpx2.AsyncClient(headers=sent, timeout=timeout, transport=transport) as client:
        yield Site(client, address)


def run_path(run_id: str, part: str = "") -> str:
    """Return the path of a run or of a part of it."""
    return f"/runs/{quote(run_id, safe='')}{part}"


def worker_path(worker: str, part: str = "") -> str:
    """Return the path of a worker or of a part of it."""
    return f"/workers/{quote(worker, safe='')}{part}"


def results_of(answer: Answer) -> list[Answer]:
    """Return the results of a list; none where a site of another version calls them otherwise."""
    results = answer.get("results")
    return [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _detail(response: httpx2.Response) -> str | None:
    """Return what an error of the API says, in one line; None where it is none."""
    content = _json(response)
    errors = content.get("errors") if isinstance(content, dict) else None
    if not isinstance(errors, list):
        return None
    return " ".join(str(one.get("detail")) for one in errors if isinstance(one, dict)) or None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
