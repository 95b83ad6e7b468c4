"""Tables of a run's records: the site's CSV as it is, or made into Parquet with the types of its columns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from csv import reader
from typing import IO, Any

from openrl_inspect.exceptions import InspectError
from openrl_inspect.site import Site

Opener = Callable[[], AbstractContextManager[IO[bytes]]]
BLOCK_BYTES = 8 << 20  # of CSV that are in memory at once; no row of the site is as long
_INSTANTS = ("at", "enqueued_at", "started_at", "finished_at")
_COUNTS = ("step", "last_step", "min_step", "max_step", "step_failures", "count", "failures", "tokens", "datums")
_NUMBERS = ("queue_seconds", "elapsed_seconds", "wall_seconds", "seconds", "min", "mean", "max", "last")


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
    """Write the site's table of an endpoint as Parquet, a block at a time; returns how much that was, in words.

    Instants are timestamps in UTC, counts and seconds numbers, `completed` is true or false; all else, ids, words and
    what a newer site may add, is text. A column has its type whether anything stands in it or not.

    Raises:
        InspectError: pyarrow is not installed, or the table is none of these.
    """
    csv, parquet, arrow = _arrow()
    with tempfile.TemporaryFile() as copied:
        async with site.csv(path, **parameters) as chunks:
            async for chunk in chunks:
                copied.write(chunk)
        rows_count = 0
        try:
            table = _opened(copied, csv, arrow)
            with opener() as output, parquet.ParquetWriter(output, table.schema, compression="zstd") as writer:
                for batch in table:
                    writer.write_batch(batch)
                    rows_count += batch.num_rows
        except arrow.ArrowInvalid as error:
            raise InspectError(f"The site's table can't be made into Parquet ({error}): take CSV.") from error
    return f"{rows_count:,} rows of {len(table.schema)} columns as Parquet"


def _opened(copied: IO[bytes], csv: Any, arrow: Any) -> Any:
    copied.seek(0)
    columns = next(reader([copied.readline().decode()]), [])
    copied.seek(0)
    return csv.open_csv(
        copied,
        read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types={name: _type(name, arrow) for name in columns}, strings_can_be_null=True
        ),
    )


def _type(column: str, arrow: Any) -> Any:
    if column in _INSTANTS:
        return arrow.timestamp("ms", tz="UTC")
    if column == "completed":
        return arrow.bool_()
    of_metric = column.startswith("metrics.")  # a metric's own name may hold dots
    if column in _COUNTS or column.startswith("nonfinite.") or (of_metric and column.endswith(".count")):
        return arrow.int64()
    return arrow.float64() if column in _NUMBERS or of_metric else arrow.string()


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
