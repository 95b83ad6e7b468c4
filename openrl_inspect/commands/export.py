"""`openrl-inspect export`: a run's records as CSV, Parquet or a trace, in a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import click

from openrl_inspect.asking import Asker, asks_site
from openrl_inspect.exceptions import RefusedError
from openrl_inspect.export import table_files, traces
from openrl_inspect.identifiers import find_run
from openrl_inspect.parameters import instant_option, run_argument
from openrl_inspect.site import Site, run_path

KINDS = ("operations", "steps", "failures", "metrics")
FORMATS = ("csv", "parquet", "trace")
USUAL_TRACE = timedelta(minutes=15)
_ENDINGS = {".csv": "csv", ".parquet": "parquet", ".json": "trace", ".gz": "trace"}


@click.command()
@run_argument()
@click.option("-o", "--output", "path", metavar="FILE", type=click.Path(path_type=Path), help="Where to; else a pipe.")
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), help="Else by the ending of FILE, or csv.")
@click.option("--of", "kind", type=click.Choice(KINDS), default="operations", show_default=True, help="Which records.")
@instant_option("--since", "From then on, for operations and traces")
@instant_option("--until", "Before then, for operations and traces")
@click.option("--last", type=click.IntRange(1, 2_000), help="The newest so many steps, for steps.  [default: 2000]")
@click.option("--names", metavar="NAMES", help="Comma-separated metrics, for metrics.")
@asks_site
def export(asker: Asker, *, run: str, path: Path | None, form: str | None, kind: str, **options: Any) -> None:
    """Write a run's records to a file.

    A trace shows ops, waits and GPU turns of the run and of its neighbours on a time line: open it in
    https://ui.perfetto.dev. It is of the last 15 minutes unless --since says otherwise.
    """
    form = form or _ENDINGS.get(path.suffix if path else "", "csv")
    if path is None and sys.stdout.isatty():
        raise RefusedError("Where to? Give a file with --output FILE, or pipe the output on.")
    parameters = _parameters(kind, form, options)

    async def question(site: Site) -> str:
        run_id = await find_run(site, run)
        if form == "trace":
            return await traces.write_trace(site, run_id, parameters, _opener(path))
        write = table_files.write_parquet if form == "parquet" else table_files.write_csv
        return await write(site, run_path(run_id, f"/{kind}"), parameters, _opener(path))

    told = asker.ask(question)
    click.echo(f"{path or 'standard output'}: {told}", err=True)


def _parameters(kind: str, form: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return what the site is asked for.

    Raises:
        RefusedError: an option that goes with other records was given.
    """
    taken = {"operations": ("since", "until"), "steps": ("last",), "failures": (), "metrics": ("names",)}[kind]
    taken = ("since", "until") if form == "trace" else taken
    for name, value in options.items():
        if value is not None and name not in taken:
            raise RefusedError(f"--{name} does not go with {form} of {kind}.")
    found = {name: options[name] for name in taken}
    if form == "trace" and found["since"] is None:
        until = datetime.fromisoformat(found["until"]) if found["until"] else datetime.now(UTC)
        found["since"] = (until - USUAL_TRACE).isoformat()
    if kind == "steps" and form != "trace":
        found["last"] = found["last"] or 2_000
    return found


def _opener(path: Path | None) -> Callable[[], AbstractContextManager[IO[bytes]]]:
    """Return what opens the output: late, so that an error leaves a file that was there before as it is."""
    if path is None:
        return lambda: nullcontext(sys.stdout.buffer)
    return lambda: path.open("wb")
