"""Tables of a run's records: the site's CSV as it is, or made into Parquet with the types of its columns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import IO, Any

from openrl_inspect.exceptions import InspectError
from openrl_inspect.site import Site

Opener = Callable[[], AbstractContextManager[IO[bytes]]]
INSTANTS = ("at", "enqueued_at", "started_at", "finished_at")
TEXTS = (
    "id",
    "run_id",
    "operation",
    "status",
    "request_id",
    "worker",
    "role",
    "error_type",
    "error_category",
    "source",
)
MORE_TEXTS = ("kind", "batch", "trace_id", "span_id", "metrics", "nonfinite", "name")  # the middle ones are JSON


async def write_csv(site: Site, path: str, parameters: dict[str, Any], opener: Opener) -> str:
    """Copy the site's table of an endpoint; returns how much that was, in words."""
    size_bytes = 0
    async with site.csv(path, **parameters) as chunks:
        with opener() as output:
            async for chunk in chunks:
                size_bytes += output.write(chunk)
            output.flush()
    return f"{size_bytes:,} bytes of CSV"


async def write_parquet(site: Site, path: str, parameters: dict[str, Any], opener: Opener) -> str:
    """Write the site's table of an endpoint as Parquet; returns how much that was, in words.

    Instants become timestamps in UTC, ids and words texts, other columns the narrowest type that holds them.

    Raises:
        InspectError: pyarrow is not installed.
    """
    csv, parquet, arrow = _arrow()
    with tempfile.TemporaryFile() as copied:
        async with site.csv(path, **parameters) as chunks:
            async for chunk in chunks:
                copied.write(chunk)
        copied.seek(0)
        types = dict.fromkeys(INSTANTS, arrow.timestamp("ms", tz="UTC")) | dict.fromkeys(
            (*TEXTS, *MORE_TEXTS), arrow.string()
        )
        convert = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        table = csv.read_csv(copied, convert_options=convert, parse_options=csv.ParseOptions(newlines_in_values=True))
    with opener() as output:
        parquet.write_table(table, output, compression="zstd")
        output.flush()
    return f"{table.num_rows:,} rows of {table.num_columns} columns as Parquet"


def _arrow() -> tuple[Any, Any, Any]:
    try:
        # Large, and needed for this alone.
        import pyarrow
        from pyarrow import csv, parquet
    except ModuleNotFoundError as error:
        raise InspectError(
            "Parquet needs pyarrow: install it with `pip install 'workers-client[inspect,parquet]'`."
        ) from error
    return csv, parquet, pyarrow
