"""Answers as CSV: streamed page by page, one header row, and no text that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from rest_framework.request import Request

from telemetry_app.api.conditional import compressed, takes_gzip
from telemetry_app.api.renderers import CsvRenderer

Row = Mapping[str, Any]
RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")  # a spreadsheet takes a text that begins so for a formula


def wants_csv(request: Request) -> bool:
    """Return whether the caller asked for CSV."""
    return request.accepted_renderer.format == CsvRenderer.format


def csv_response(request: Request, columns: Sequence[str], pages: Iterable[Sequence[Row]]) -> StreamingHttpResponse:
    """Return the pages as one table. The first is made at once: what fails in it still has a status of its own."""
    rest = iter(pages)
    first = next(rest, ())
    chunks = _chunks(columns, first, rest)
    is_packed = takes_gzip(request)
    chunks = compressed(chunks) if is_packed else chunks
    is_async = hasattr(request._request, "scope")
    response = StreamingHttpResponse(_pulled(chunks) if is_async else chunks, content_type="text/csv; charset=utf-8")
    if is_packed:
        response.headers["Content-Encoding"] = "gzip"
    return response


def step_rows(steps: Iterable[Row]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns and one row for each op of each step; a metric has a column for each of its numbers."""
    rows = []
    for step in steps:
        plain = {name: value for name, value in step.items() if name not in ("operations", "failures")}
        if "failures" in step:
            plain["step_failures"] = step["failures"]
        rows += [{**plain, "operation": name, **_flat(ops)} for name, ops in step.get("operations", {}).items()]
        if not step.get("operations"):
            rows.append(plain)
    columns = dict.fromkeys(name for row in rows for name in row)
    return list(columns) or ["step"], rows


def _flat(operation: Row) -> dict[str, Any]:
    found = {name: value for name, value in operation.items() if name not in ("metrics", "nonfinite")}
    for metric, spread in operation.get("metrics", {}).items():
        found |= {f"metrics.{metric}.{name}": value for name, value in spread.items()}
    return found | {f"nonfinite.{metric}": count for metric, count in operation.get("nonfinite", {}).items()}


# --- Encoding -------------------------------------------------------------------------------------------------
def _chunks(columns: Sequence[str], first: Sequence[Row], rest: Iterator[Sequence[Row]]) -> Iterator[bytes]:
    yield _encoded([[_cell(name) for name in columns]])
    yield _encoded(_cells(columns, first))
    for page in rest:
        yield _encoded(_cells(columns, page))


def _cells(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[list[Any]]:
    for row in rows:
        yield [_cell(row.get(name)) for name in columns]


def _cell(value: Any) -> Any:
    if isinstance(value, (Mapping, list, tuple)):
        value = msgspec.json.encode(value, enc_hook=str).decode()
    if isinstance(value, str):
        return f"'{value}" if value.startswith(RISKY) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def _encoded(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


async def _pulled(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Pull from a generator that asks PostgreSQL, outside of the event loop."""
    pull = sync_to_async(lambda: next(chunks, None))
    while (chunk := await pull()) is not None:
        yield chunk
