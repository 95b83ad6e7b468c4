"""`openrl-inspect failures`: failed ops and failed sampling answers."""

from __future__ import annotations

from typing import Any

import click

from openrl_inspect import cells
from openrl_inspect.asking import Asker, asks_site, end_checked
from openrl_inspect.identifiers import find_run
from openrl_inspect.parameters import check_option, instant_option, limit_option, run_option
from openrl_inspect.site import Answer, Site, results_of
from openrl_inspect.tables import USUAL, WIDE, Column, field, print_coverage, print_list, since


@click.command()
@run_option()
@instant_option("--since", "Only failures since then")
@click.option("--error-type", metavar="NAME", help="Only failures of this error.")
@limit_option(20)
@check_option("there is one")
@asks_site
def failures(
    asker: Asker, *, run: str | None, since: str | None, error_type: str | None, limit: int, check: bool
) -> None:
    """List failures, newest first. What errors said is never recorded, so there are no messages."""

    async def question(site: Site) -> Answer:
        run_id = run and await find_run(site, run)
        return await site.get("/failures", run=run_id, since=since, error_type=error_type, page_size=limit)

    answer = asker.ask(question)

    def render(console: Any) -> None:
        print_list(console, columns(answer, is_one_run=run is not None), answer, "No failures.")
        print_coverage(console, answer)

    asker.output.show(answer, render)
    end_checked(check, bool(results_of(answer)), answer)


def columns(answer: Answer, *, is_one_run: bool) -> list[Column]:
    """Return the columns of a list of failures."""
    found = [
        Column("AGO", since("at", answer.get("as_of")), is_number=True),
        Column("OP", field("operation")),
        Column("STEP", field("step", cells.count), is_number=True, from_width=USUAL),
        Column("ERROR", field("error_type", lambda value: cells.Line(value, ""))),
        Column("WHOSE", lambda row: cells.plain(row.get("error_category") or row.get("source")), from_width=WIDE),
        Column("TOOK", field("elapsed_seconds", cells.seconds), is_number=True, from_width=WIDE),
        Column("WORKER", field("worker", lambda value: cells.Id(value, "")), from_width=0 if is_one_run else WIDE),
        Column("ID", field("id", lambda value: cells.Id(value, "dim")), from_width=WIDE),
    ]
    return found if is_one_run else [Column("RUN", field("run_id", cells.Id)), *found]
