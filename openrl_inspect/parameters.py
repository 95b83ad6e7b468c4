"""Arguments and options that several commands have, with what a shell may complete them to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click
from click.shell_completion import CompletionItem

from openrl_inspect import instants
from openrl_inspect.addresses import find_address
from openrl_inspect.exceptions import InspectError
from openrl_inspect.site import open_site, results_of

MOST_LISTED = 500  # one page of the API
COMPLETION_SECONDS = 2.0  # a shell that waits longer is worse than one that completes nothing
COMPLETED_IDS = 50

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def limit_option(default: int) -> Decorator:
    """Return the option that says how many results a list shows."""
    return click.option(
        "--limit",
        type=click.IntRange(1, MOST_LISTED),
        default=default,
        show_default=True,
        help="Results shown at most.",
    )


def check_option(meaning: str) -> Decorator:
    """Return the option that makes trouble an exit status."""
    return click.option("--check", is_flag=True, help=f"End with status 1 where {meaning}.")


def instant_option(name: str, meaning: str) -> Decorator:
    """Return an option for an instant: `2h` is two hours ago. The command gets it as the API takes it."""

    def parsed(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        try:
            return None if value is None else instants.from_option(value, now=datetime.now(UTC))
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return click.option(name, metavar="TIME", callback=parsed, help=f"{meaning}; 15m, 2h, 3d ago or ISO 8601.")


def run_argument(**options: Any) -> Decorator:
    """Return the argument that names a run."""
    return click.argument("run", metavar="RUN", shell_complete=_ids("/runs", "run_id"), **options)


def run_option() -> Decorator:
    """Return the option that keeps a list to one run."""
    return click.option("--run", metavar="RUN", help="Only this run.", shell_complete=_ids("/runs", "run_id"))


def worker_argument() -> Decorator:
    """Return the argument that names a worker."""
    return click.argument("worker", metavar="WORKER", shell_complete=_ids("/workers", "worker"))


def _ids(path: str, name: str) -> Callable[..., list[CompletionItem]]:
    """Return what completes a word to the ids that hold it; to nothing where the site can't be asked soon."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            found = asyncio.run(asyncio.wait_for(_asked(context), COMPLETION_SECONDS))
        except (InspectError, TimeoutError):
            return []
        return [CompletionItem(one) for one in found if incomplete.lower() in one.lower()]

    async def _asked(context: click.Context) -> list[str]:
        address = find_address(context.params.get("url"), context.params.get("token"))
        async with open_site(address) as site:
            answer = await site.get(path, page_size=COMPLETED_IDS)
        return [str(one.get(name)) for one in results_of(answer)]

    return complete
