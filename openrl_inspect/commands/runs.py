"""`openrl-inspect runs`: all runs, or those in trouble."""

from __future__ import annotations

from typing import Any

import click

from openrl_inspect import cells
from openrl_inspect.asking import Asker, asks_site, end_checked
from openrl_inspect.explanations import in_trouble, run_is_in_trouble
from openrl_inspect.identifiers import find_worker
from openrl_inspect.parameters import check_option, instant_option, limit_option
from openrl_inspect.site import Answer, Site, results_of
from openrl_inspect.tables import USUAL, WIDE, Column, field, print_coverage, print_list, since

WIDE_FOR_EVIDENCE = 140


@click.command()
@click.option("--state", metavar="STATE", help="Only runs in this state, such as stuck.")
@click.option("--trouble", is_flag=True, help="Only runs that are lost, stuck, failing or diverging.")
@click.option("--tag", metavar="TAG", help="Only runs with this tag.")
@click.option("-q", "--query", "text", metavar="TEXT", help="Only runs whose id holds this text.")
@click.option("--worker", metavar="WORKER", help="Only runs that this worker works for.")
@instant_option("--active-since", "Only runs with activity since then")
@limit_option(20)
@check_option("a run that is listed is in trouble")
@asks_site
def runs(asker: Asker, *, trouble: bool, check: bool, limit: int, **filters: Any) -> None:
    """List runs, newest activity first."""
    if trouble and any(filters.values()):
        raise click.UsageError("--trouble goes with no other filter.")

    async def question(site: Site) -> Answer:
        if trouble:
            return await in_trouble(site, limit=limit)
        worker = filters["worker"] and await find_worker(site, filters["worker"])
        return await site.get(
            "/runs",
            state=filters["state"],
            tag=filters["tag"],
            q=filters["text"],
            worker=worker,
            active_since=filters["active_since"],
            page_size=limit,
        )

    answer = asker.ask(question)
    output = asker.output

    def render(console: Any) -> None:
        nothing = "No run is in trouble." if trouble else "No run matches." if any(filters.values()) else "No runs."
        print_list(console, columns(answer, console.width), answer, nothing)
        print_coverage(console, answer)

    output.show(answer, render)
    end_checked(check, any(map(run_is_in_trouble, results_of(answer))), answer)


def columns(answer: Answer, width: int) -> list[Column]:
    """Return the columns of a list of runs."""
    as_of = answer.get("as_of")
    found = [
        Column("RUN", field("run_id", cells.Id)),
        Column("STATE", field("state", cells.word)),
        Column("SINCE", since("state_since", as_of), is_number=True, from_width=WIDE),
        Column("STEPS", field("steps_completed", cells.count), is_number=True),
        Column("STEPS/H", field("steps_per_hour", cells.count), is_number=True, from_width=USUAL),
        Column("OPEN", field("outstanding_count", cells.count), is_number=True, from_width=WIDE),
        Column("FAILED", field("failures_count", cells.failures), is_number=True, from_width=USUAL),
        Column("ACTIVE", since("last_activity_at", as_of), is_number=True),
    ]
    if width >= WIDE_FOR_EVIDENCE:
        found.append(Column("EVIDENCE", lambda run: cells.Line(cells.several(run.get("evidence"), most=1), "")))
    return found
