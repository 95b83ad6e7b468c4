"""`openrl-inspect workers` and `worker`: who works, on what, and who stopped without saying so."""

from __future__ import annotations

import asyncio
from typing import Any

import click
from rich.text import Text

from openrl_inspect import cells
from openrl_inspect.asking import Asker, asks_site, end_checked
from openrl_inspect.identifiers import find_run, find_worker
from openrl_inspect.parameters import check_option, limit_option, run_option, worker_argument
from openrl_inspect.site import Answer, Site, results_of, worker_path
from openrl_inspect.tables import USUAL, WIDE, Column, field, print_coverage, print_list, print_pair, since, table

EVENTS_SHOWN = 10


@click.command()
@click.option("--role", metavar="ROLE", help="Only api_server, trainer, sampler or dispatcher.")
@click.option("--health", metavar="HEALTH", help="Only alive, late, lost or exited.")
@click.option("--node", metavar="NODE", help="Only workers on this node.")
@run_option()
@limit_option(50)
@check_option("a worker that is listed is lost")
@asks_site
def workers(asker: Asker, *, run: str | None, limit: int, check: bool, **filters: str | None) -> None:
    """List workers, newest heartbeat first."""

    async def question(site: Site) -> Answer:
        run_id = run and await find_run(site, run)
        return await site.get("/workers", run=run_id, page_size=limit, **filters)

    answer = asker.ask(question)

    def render(console: Any) -> None:
        print_list(console, columns(answer), answer, "No worker matches.")
        print_coverage(console, answer)

    asker.output.show(answer, render)
    end_checked(check, any(one.get("health") == "lost" for one in results_of(answer)), answer)


@click.command()
@worker_argument()
@check_option("the worker is lost")
@asks_site
def worker(asker: Asker, *, worker: str, check: bool) -> None:
    """Show one worker: what it does, what it holds, what it dropped, and its history."""

    async def question(site: Site) -> Answer:
        name = await find_worker(site, worker)
        found, events = await asyncio.gather(
            site.get(worker_path(name)), site.get_if_there(worker_path(name, "/events"), page_size=EVENTS_SHOWN)
        )
        return {"worker": found, "events": events}

    answer = asker.ask(question)
    asker.output.show(answer, lambda console: _print_worker(console, answer["worker"], answer["events"]))
    end_checked(check, answer["worker"].get("health") == "lost")


def columns(answer: Answer) -> list[Column]:
    """Return the columns of a list of workers."""
    return [
        Column("WORKER", field("worker", cells.Id)),
        Column("ROLE", field("role"), from_width=WIDE),
        Column("HEALTH", field("health", cells.word)),
        Column("HEARD", since("last_heartbeat_at", answer.get("as_of")), is_number=True),
        Column("DOES", _doing),
        Column("OPEN", field("outstanding_count", cells.count), is_number=True, from_width=USUAL),
        Column("NODE", field("node"), from_width=WIDE),
        Column("RUNS", field("runs", lambda runs: cells.count(len(runs or ()))), is_number=True, from_width=WIDE),
    ]


def _doing(worker: Answer) -> Text:
    """Return the op that runs, else the phase. Of a lost worker that is what it did when it stopped."""
    operation = cells.value_at(worker, "current.operation")
    shown = cells.word(operation or worker.get("phase"))
    return Text(shown.plain, style="dim") if worker.get("health") in ("lost", "exited") else shown


def _print_worker(console: Any, worker: Answer, events: Answer | None) -> None:
    as_of = worker.get("as_of")
    console.print(Text(cells.plain(worker.get("worker")), style="bold"))
    health = cells.word(worker.get("health"))
    console.print(health, Text(f"heard {cells.ago(worker.get('last_heartbeat_at'), as_of)} ago · "), _doing(worker))
    lines = {
        "role": cells.plain(worker.get("role")),
        "started": cells.clock(worker.get("started_at")),
        "where": f"pid {cells.plain(worker.get('pid'))} on {cells.plain(worker.get('host'))}, "
        f"pod {cells.plain(worker.get('pod'))}, node {cells.plain(worker.get('node'))}",
        "runs": cells.several(worker.get("runs"), most=5),
        "open": cells.count(worker.get("outstanding_count")),
        "GPU turns": f"{cells.count(cells.value_at(worker, 'turns.count'))}, held "
        f"{cells.seconds(cells.value_at(worker, 'turns.held_seconds'))}, waited "
        f"{cells.seconds(cells.value_at(worker, 'turns.wait_seconds'))}",
        "dropped": _dropped(cells.value_at(worker, "buffer.dropped")),
        "clock": f"{cells.seconds(cells.value_at(worker, 'clock_offset_seconds'))} off Redis's",
    }
    for name, value in lines.items():
        print_pair(console, name, value)
    if events and results_of(events):
        found = [
            Column("AGO", since("at", as_of), is_number=True),
            Column("EVENT", field("event", cells.word)),
            Column("DETAIL", field("detail")),
        ]
        console.print(table(found, results_of(events), console))


def _dropped(dropped: Any) -> str:
    if not isinstance(dropped, dict):
        return cells.DASH
    return ", ".join(f"{kind} {cells.plain(number)}" for kind, number in dropped.items()) or "nothing"
