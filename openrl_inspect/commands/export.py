"""`openrl-inspect export`: a run's records as CSV, Parquet or a trace, in a file or a pipe."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, cast

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
MOST_METRICS = 20  # of one answer of the site
_ENDINGS = {".csv": "csv", ".parquet": "parquet", ".json": "trace"}


@click.command()
@run_argument()
@click.option("-o", "--output", "path", metavar="FILE", type=click.Path(path_type=Path), help="Where to; else a pipe.")
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), help="Else by the ending of FILE, or csv.")
@click.option("--of", "kind", type=click.Choice(KINDS), default="operations", show_default=True, help="Which records.")
@instant_option("--since", "From then on, for operations and traces")
@instant_option("--until", "Before then, for operations and traces")
@click.option("--last", type=click.IntRange(1, 2_000), help="The newest so many steps, for steps.  [default: 2000]")
@click.option("--names", metavar="NAMES", help="Comma-separated metrics, for metrics.  [default: all]")
@asks_site
def export(asker: Asker, *, run: str, path: Path | None, form: str | None, kind: str, **options: Any) -> None:
    """Write a run's records to a file.

    A trace shows ops, waits and GPU turns of the run and of its neighbours on a time line: open it in
    https://ui.perfetto.dev. It is of the last 15 minutes unless --since says otherwise.
    """
    form = form or _form_of(path)
    if path is None and sys.stdout.isatty():
        raise RefusedError("Where to? Give a file with --output FILE, or pipe the output on.")
    parameters = _parameters(kind, form, options)

    async def question(site: Site) -> str:
        run_id = await find_run(site, run)
        if form == "trace":
            return await traces.write_trace(site, run_id, parameters, _opener(path))
        if kind == "metrics" and not parameters["names"]:
            parameters["names"] = await _all_metrics(site, run_id)
        write = table_files.write_parquet if form == "parquet" else table_files.write_csv
        return await write(site, run_path(run_id, f"/{kind}"), parameters, _opener(path))

    try:
        told = asker.ask(question)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RefusedError(f"{path or 'standard output'} can't be written: {error.strerror or error}.") from error
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


async def _all_metrics(site: Site, run_id: str) -> list[str]:
    """Return the names of all metrics of a run, which the site tells where it is asked for none.

    Raises:
        RefusedError: there are more than one answer holds.
    """
    available = (await site.get(run_path(run_id, "/metrics"))).get("available") or ()
    names = list(dict.fromkeys(str(each.get("name")) for each in available if isinstance(each, dict)))
    if len(names) > MOST_METRICS:
        told = ", ".join(names)
        raise RefusedError(f"{run_id} has {len(names)} metrics: give --names, {MOST_METRICS} at most, of {told}.")
    return names


def _form_of(path: Path | None) -> str:
    """Return the format that the ending of a file stands for, packed or not."""
    if path is None:
        return "csv"
    return _ENDINGS.get(Path(path.stem).suffix if path.suffix == ".gz" else path.suffix, "csv")


def _opener(path: Path | None) -> Callable[[], AbstractContextManager[IO[bytes]]]:
    """Return what opens the output: late, so that an error leaves a file that was there before as it is."""
    if path is None:
        return lambda: nullcontext(sys.stdout.buffer)
    if path.suffix == ".gz":
        return lambda: cast("IO[bytes]", gzip.open(path, "wb", compresslevel=6))
    return lambda: path.open("wb")
