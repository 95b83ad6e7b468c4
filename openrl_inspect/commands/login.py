"""`openrl-inspect login`: keep a site's token for later commands."""

from __future__ import annotations

import asyncio

import click

from openrl_inspect.addresses import Address, checked_url, find_address, keep_token
from openrl_inspect.asking import with_errors_told
from openrl_inspect.exceptions import InspectError
from openrl_inspect.site import Site, open_site

DEFAULT_URL = "http://127.0.0.1:8000"


@click.command()
@click.option("--url", metavar="URL", help="The site.")
@click.option("--token", metavar="TOKEN", help="Its API token; asked for without this option.")
def login(url: str | None, token: str | None) -> None:
    """Keep a site and its token in a file that only you can read.

    Tokens are made in the site's admin, under API tokens.
    """
    with_errors_told(lambda: _login(url, token))


def _login(url: str | None, token: str | None) -> None:
    site = checked_url(url or click.prompt("Site", default=_known()), "--url")
    given = token or click.prompt("API token", hide_input=True)
    asyncio.run(_check(Address(site, given.strip(), "--url", "what you gave")))
    path = keep_token(site, given.strip())
    click.echo(f"Signed in to {site}. The token is kept in {path}.")


def _known() -> str:
    try:
        return find_address(None, None).url
    except InspectError:
        return DEFAULT_URL


async def _check(address: Address) -> None:
    """Ask something that needs the token, so that a wrong one is not kept."""

    async def question(site: Site) -> None:
        await site.get("/runs", page_size=1)

    async with open_site(address) as site:
        await question(site)
