"""`openrl-inspect stuck`: requests that are asked and not answered, for too long or for ever."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from openrl_inspect import cells
from openrl_inspect.asking import Asker, asks_site, end_checked
from openrl_inspect.identifiers import find_run
from openrl_inspect.parameters import check_option, limit_option, run_option
from openrl_inspect.site import Answer, Site, results_of, run_path
from openrl_inspect.tables import USUAL, WIDE, Column, field, print_coverage, print_list


@click.command()
@run_option()
@click.option("--all", "everything", is_flag=True, help="Open requests that are not stuck too.")
@limit_option(20)
@check_option("a request is stuck")
@asks_site
def stuck(asker: Asker, *, run: str | None, everything: bool, limit: int, check: bool) -> None:
    """List stuck requests, oldest first: who holds them, and why they count as stuck."""

    async def question(site: Site) -> Answer:
        path = run_path(await find_run(site, run), "/requests") if run else "/requests"
        return await site.get(path, stuck=None if everything else True, page_size=limit)

    answer = asker.ask(question)

    def render(console: Any) -> None:
        nothing = "No open requests." if everything else "No stuck requests."
        print_list(console, columns(is_one_run=run is not None), answer, nothing)
        print_reasons(console, answer)
        print_coverage(console, answer)

    asker.output.show(answer, render)
    end_checked(check, any(request.get("stuck") for request in results_of(answer)), answer)


def columns(*, is_one_run: bool) -> list[Column]:
    """Return the columns of a list of open requests."""
    found = [
        Column("AGE", field("oldest_age_seconds", cells.age), is_number=True),
        Column("OP", field("operation")),
        Column("COUNT", field("count", cells.count), is_number=True, from_width=USUAL),
        Column("EXPECTED", field("expectation.limit_seconds", cells.seconds), is_number=True, from_width=WIDE),
        Column("STUCK", _stuck),
        Column("HELD BY", field("worker", lambda value: cells.Id(value, ""))),
        Column("HEALTH", field("health", cells.word), from_width=WIDE),
    ]
    return found if is_one_run else [Column("RUN", field("run_id", cells.Id)), *found]


def print_reasons(console: Any, answer: Answer) -> None:
    """Print why requests are stuck, each reason once."""
    reasons = dict.fromkeys(
        cells.plain(one["why"]) for one in results_of(answer) if one.get("stuck") and one.get("why")
    )
    for reason in reasons:
        console.print(Text(f"· {reason}", style="dim"))


def _stuck(request: Answer) -> Text:
    if request.get("orphaned"):
        return Text("orphaned", style="bold red")
    return Text("stuck", style="bold red") if request.get("stuck") else Text("no", style="dim")
