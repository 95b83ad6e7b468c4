"""`openrl-inspect steps`: a run's newest steps with their seconds and metrics."""

from __future__ import annotations

from typing import Any

import click

from openrl_inspect import cells
from openrl_inspect.asking import Asker, asks_site
from openrl_inspect.identifiers import find_run
from openrl_inspect.parameters import run_argument
from openrl_inspect.site import Answer, Site, results_of, run_path
from openrl_inspect.tables import USUAL, WIDE, Column, field, print_coverage, since, table

USUAL_METRICS = ("loss:mean", "loss:sum", "loss", "reward:mean", "reward", "kl:mean", "grad_norm:mean", "grad_norm")
ONE, FEW, MANY = 1, 2, 4  # metrics shown on a narrow, a usual and a wide terminal


@click.command()
@run_argument()
@click.option("--last", type=click.IntRange(1, 2_000), default=20, show_default=True, help="How many steps.")
@click.option("--before", type=click.IntRange(0), help="Only steps below this number.")
@click.option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Show this metric; may be repeated.")
@asks_site
def steps(asker: Asker, *, run: str, last: int, before: int | None, metrics: tuple[str, ...]) -> None:
    """Show a run's newest steps, newest last."""

    async def question(site: Site) -> Answer:
        return await site.get(run_path(await find_run(site, run), "/steps"), last=last, before=before)

    answer = asker.ask(question)

    def render(console: Any) -> None:
        print_steps(console, answer, metrics)
        print_coverage(console, answer)

    asker.output.show(answer, render)


def print_steps(console: Any, answer: Answer, metrics: tuple[str, ...] = ()) -> None:
    """Print steps as a table, with the metrics that are asked for, or the usual ones that there are."""
    found = results_of(answer)
    if not found:
        console.print("No steps.")
        return
    shown = metrics or _usual(found, MANY if console.width >= WIDE else FEW if console.width >= USUAL else ONE)
    console.print(table([*_columns(answer), *(_metric_column(name) for name in shown)], found, console))


def _columns(answer: Answer) -> list[Column]:
    return [
        Column("STEP", lambda step: cells.count(step.get("step")) + ("" if step.get("completed") else " …"), True),
        Column("ENDED", since("finished_at", answer.get("as_of")), is_number=True),
        Column("WALL", field("wall_seconds", cells.seconds), is_number=True),
        Column("OPS", lambda step: cells.seconds(_sum(step, "seconds")), is_number=True, from_width=USUAL),
        Column("QUEUED", lambda step: cells.seconds(_sum(step, "queue_seconds")), is_number=True),
        Column("FAILED", field("failures", cells.failures), is_number=True),
    ]


def _operations(step: Answer) -> list[Answer]:
    operations = step.get("operations")
    return [op for op in operations.values() if isinstance(op, dict)] if isinstance(operations, dict) else []


def _sum(step: Answer, name: str) -> float | None:
    found = [op[name] for op in _operations(step) if isinstance(op.get(name), (int, float))]
    return sum(found) if found else None


def _usual(steps: list[Answer], most: int) -> list[str]:
    names = dict.fromkeys(name for step in steps for op in _operations(step) for name in op.get("metrics") or ())
    usual = [name for name in USUAL_METRICS if name in names]
    return [*usual, *(name for name in names if name not in usual)][:most]


def _metric_column(name: str) -> Column:
    def shown(step: Answer) -> str:
        for op in _operations(step):
            if (op.get("nonfinite") or {}).get(name):
                return "not finite"
            if name in (op.get("metrics") or {}):
                return cells.number(op["metrics"][name].get("mean"))
        return cells.DASH

    return Column(cells.plain(name), shown, is_number=True)
