"""`openrl-inspect mcp`: the agents' tools, over standard input and output."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import click

from openrl_inspect.addresses import find_address
from openrl_inspect.asking import with_errors_told
from openrl_inspect.exceptions import InspectError
from openrl_inspect.site import Site, open_site


@click.command()
@click.option("--url", metavar="URL", help="The site; else as for all commands.")
@click.option("--token", metavar="TOKEN", help="Its API token; else as for all commands.")
def mcp(url: str | None, token: str | None) -> None:
    """Serve agents over standard input and output (Model Context Protocol).

    Give your agent this command: `openrl-inspect mcp`. The site itself serves the same tools at /mcp.
    """
    with_errors_told(lambda: _serve(url, token))


def _serve(url: str | None, token: str | None) -> None:
    try:
        # Large, and needed by this command alone.
        from openrl_inspect.agent_tools import agent_server
    except ModuleNotFoundError as error:
        raise InspectError(
            f"Serving agents needs {error.name}: install it with `pip install 'workers-client[inspect,mcp]'`."
        ) from error
    address = find_address(url, token)

    def opened() -> AbstractAsyncContextManager[Site]:
        return open_site(address)

    agent_server(opened).run("stdio")
