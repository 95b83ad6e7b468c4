"""What all commands have in common: their options, asking the site, and how they end."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from openrl_inspect import cells
from openrl_inspect.addresses import TOKEN_VARIABLE, URL_VARIABLE, Address, find_address
from openrl_inspect.exceptions import ExitStatus, InspectError
from openrl_inspect.output import Output, stop_writing
from openrl_inspect.site import Site, open_site

T = TypeVar("T")
Command = Callable[..., None]


class Asker:
    """What a command gets: the output, and a way to ask the site."""

    def __init__(self, url: str | None, token: str | None, is_json: bool | None) -> None:
        self._url, self._token = url, token
        self.output = Output(is_json)

    @property
    def address(self) -> Address:
        """The site that is meant."""
        return find_address(self._url, self._token)

    def ask(self, question: Callable[[Site], Awaitable[T]]) -> T:
        """Return what a question gets from the site."""

        async def asked() -> T:
            async with open_site(self.address) as site:
                return await question(site)

        return asyncio.run(asked())


def asks_site(function: Command) -> Command:
    """Give a command the options that lead to a site and say how to answer, and turn errors into exit statuses."""

    @click.option(
        "--url", metavar="URL", help=f"The site, such as http://127.0.0.1:8000. Else {URL_VARIABLE} and files."
    )
    @click.option(
        "--token",
        metavar="TOKEN",
        help=f"Its API token; others on this machine see it here, so {TOKEN_VARIABLE} is better.",
    )
    @click.option(
        "--json/--table",
        "is_json",
        default=None,
        help="The API's answer as JSON (when piped), or tables (on a terminal).",
    )
    @functools.wraps(function)
    def command(*arguments: Any, url: str | None, token: str | None, is_json: bool | None, **options: Any) -> None:
        with_errors_told(lambda: function(Asker(url, token, is_json), *arguments, **options))

    return command


def with_errors_told(call: Callable[[], None]) -> None:
    """Run a command; what went wrong is one sentence on standard error and an exit status."""
    try:
        call()
    except InspectError as error:
        click.echo(f"openrl-inspect: {cells.plain_lines(str(error))}", err=True)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(ExitStatus.INTERRUPTED)
    except BrokenPipeError:  # a pager or `head` that has enough
        stop_writing()


def end_checked(is_checked: bool, is_in_trouble: bool, *answers: Any) -> None:
    """End a command that was asked with `--check`: status 1 in trouble, 5 where nobody can tell whether there is."""
    if not is_checked:
        return
    if is_in_trouble:
        sys.exit(ExitStatus.TROUBLE)
    if any((answer.get("coverage") or {}).get("live") is False for answer in answers):
        raise InspectError("Redis is out: whether there is trouble now can't be told.")
