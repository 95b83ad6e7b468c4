"""`openrl-inspect watch`: what happens, as it happens."""

from __future__ import annotations

import asyncio
import json

import click
import httpx2
from rich.text import Text

from openrl_inspect import cells
from openrl_inspect.asking import Asker, asks_site
from openrl_inspect.exceptions import InspectError, NotAllowedError, NotFoundError, RefusedError
from openrl_inspect.identifiers import find_run
from openrl_inspect.parameters import run_argument
from openrl_inspect.site import Answer, Site, run_path

KINDS = ("step", "failure", "state", "incident", "worker")
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
_STYLES = {"failure": "red", "missed": "yellow"}
LASTING = (NotAllowedError, NotFoundError, RefusedError)  # asking again changes nothing


@click.command()
@run_argument(required=False)
@click.option("--only", multiple=True, type=click.Choice(KINDS), help="Only these events; may be repeated.")
@click.option("--count", type=click.IntRange(1), help="End after so many events.")
@click.option("--after", "last_id", metavar="ID", help="Begin behind this event, up to a day back.")
@asks_site
def watch(asker: Asker, *, run: str | None, only: tuple[str, ...], count: int | None, last_id: str | None) -> None:
    """Follow what happens, of all runs or of RUN: steps, failures, states, workers. Ctrl-C ends it.

    As JSON each event is a line. A broken connection is taken up again where it broke.
    """
    asker.ask(lambda site: _Watch(asker, site, only, count, last_id).follow(run))


class _Watch:
    """One stream of events, kept up over broken connections."""

    def __init__(self, asker: Asker, site: Site, only: tuple[str, ...], count: int | None, last_id: str | None) -> None:
        self._output, self._site, self._only = asker.output, site, only
        self._left, self._last_id = count, last_id
        self._seen: dict[str, None] = {}  # ids; a stream that is taken up again begins a little before it broke

    async def follow(self, run: str | None) -> None:
        path = run_path(await find_run(self._site, run), "/events") if run else "/events"
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                async with self._site.events(path, self._last_id) as source:
                    async for event in source:
                        pause = FIRST_PAUSE_SECONDS
                        if self._took(event):
                            return
                reason = "the site ended the stream"
            except LASTING:
                raise
            except InspectError as error:
                reason = cells.plain(error)
            click.echo(f"openrl-inspect: {reason} Trying again in {pause:.0f} s.", err=True)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_SECONDS, pause * 2)

    def _took(self, event: httpx2.ServerSentEvent) -> bool:
        """Write an event; returns whether it was the last one that is wanted."""
        data = _object(event.data)
        if data is None or (event.id and event.event != "missed" and event.id in self._seen):
            return False
        self._remember(event)
        if self._only and event.event not in (*self._only, "missed"):
            return False
        if self._output.is_json:
            self._output.line({"event": event.event, "id": event.id or None, "data": data})
        else:
            self._output.console.print(_line(event.event, data, self._output.console.width))
        if self._left is not None and event.event != "missed":
            self._left -= 1
        return self._left == 0

    def _remember(self, event: httpx2.ServerSentEvent) -> None:
        if event.id:
            self._last_id = event.id
            self._seen[event.id] = None
            if len(self._seen) > 2_000:  # twice what a stream tells again
                del self._seen[next(iter(self._seen))]


def _object(text: str) -> Answer | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _line(kind: str, data: Answer, width: int) -> Text:
    at = data.get("at") or data.get("finished_at") or data.get("state_since")
    at = at or data.get("ended_at") or data.get("last_held_at")  # of an incident
    subject = cells.plain(data.get("run_id") or data.get("worker"))
    return Text.assemble(
        (f"{cells.clock(at)}  {kind:<8}", _STYLES.get(kind, "dim")),
        (f"{cells.shortened(subject, max(20, width // 2 - 10))}  ", "cyan"),
        _told(kind, data),
        no_wrap=True,
        overflow="ellipsis",
    )


def _told(kind: str, data: Answer) -> Text:
    if kind == "step":
        return Text(f"step {cells.count(data.get('step'))} is done")
    if kind == "failure":
        step = "" if data.get("step") is None else f" in step {data['step']}"
        return Text(f"{cells.plain(data.get('operation'))} failed{step}: {cells.plain(data.get('error_type'))}", "red")
    if kind == "state":
        return Text.assemble(cells.word(data.get("state")), f"  {cells.several(data.get('evidence'), most=1)}")
    if kind == "worker":
        detail = f"  {cells.plain(data['detail'])}" if data.get("detail") else ""
        return Text.assemble(cells.word(data.get("event")), detail)
    if kind == "incident":
        return Text(
            f"{cells.plain(data.get('code'))} {cells.plain(data.get('change'))}: {cells.plain(data.get('cause'))}"
        )
    if kind == "missed":
        return Text(f"{cells.count(data.get('count'))} events are missing here", "yellow")
    return Text(cells.plain(json.dumps(data, ensure_ascii=False)))
