"""Tables for a terminal of any width: what matters less is left out where there is no room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from openrl_inspect import cells

Row = dict[str, Any]
USUAL, WIDE = 80, 120  # columns of a terminal below which tables leave out what is marked so


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, what stands in it, whether it is a number, and how wide a terminal it needs."""

    title: str
    cell: Callable[[Row], RenderableType]
    is_number: bool = False
    from_width: int = 0


def table(columns: Sequence[Column], rows: Iterable[Row], console: Console) -> Table:
    """Return a table of the rows that fits the console."""
    shown = [column for column in columns if console.width >= column.from_width]
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in shown:
        made.add_column(column.title, justify="right" if column.is_number else "left", overflow="ellipsis")
    for row in rows:
        made.add_row(*(column.cell(row) for column in shown))
    return made


def field(path: str, shown: Callable[[Any], RenderableType] = cells.plain) -> Callable[[Row], RenderableType]:
    """Return what shows the value at a path."""
    return lambda row: shown(cells.value_at(row, path))


def since(path: str, as_of: Any) -> Callable[[Row], RenderableType]:
    """Return what shows how long before an answer's instant something was."""
    return lambda row: cells.ago(cells.value_at(row, path), as_of)


def print_list(console: Console, columns: Sequence[Column], answer: Row, nothing: str) -> None:
    """Print a list's results, or why there are none, and what is behind the page."""
    rows = [row for row in answer.get("results") or [] if isinstance(row, dict)]
    if rows:
        console.print(table(columns, rows, console))
    else:
        console.print(nothing)
    total = answer.get("total_matching")
    if isinstance(total, int) and total > len(rows):
        more = "or more " if answer.get("is_total_capped") else ""
        console.print(Text(f"the first {len(rows):,} of {total:,} {more}(--limit)", style="dim"))


def print_pair(console: Console, name: str, value: str | Text) -> None:
    """Print a value behind its name, in a line of its own."""
    console.print(Text.assemble((f"{name:<10}", "dim"), value))


def print_coverage(console: Console, answer: Row) -> None:
    """Print as of when an answer speaks and what it could not see."""
    coverage = answer.get("coverage") if isinstance(answer.get("coverage"), dict) else {}
    notes = list(unseen(coverage or {}))
    if notes:
        console.print(Text(f"as of {cells.clock(answer.get('as_of'))}: " + "; ".join(notes), style="yellow"))


def unseen(coverage: Row) -> Iterable[str]:
    """Yield what an answer could not see, in words."""
    if coverage.get("live") is False:
        yield "Redis is out, so this is what the newest snapshot knew"
    if coverage.get("history") is False:
        yield "PostgreSQL is out, so this is what Redis still has"
    for name, meaning in (
        ("missing_records", "records are missing"),
        ("malformed", "records can't be used"),
        ("conflicts", "records came twice with other content"),
    ):
        value = coverage.get(name)
        if isinstance(value, int) and value > 0:
            yield f"{value:,} {meaning}"
    dropped = coverage.get("dropped")
    if isinstance(dropped, dict) and dropped:
        yield "workers dropped " + ", ".join(f"{cells.count(number)} {kind}" for kind, number in dropped.items())
