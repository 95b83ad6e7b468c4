"""`openrl-inspect run`: one run, and why it does not move."""

from __future__ import annotations

from typing import Any

import click
from rich.padding import Padding
from rich.text import Text

from openrl_inspect import cells
from openrl_inspect.asking import Asker, asks_site, end_checked
from openrl_inspect.commands import failures as failure_list
from openrl_inspect.commands import stuck as stuck_list
from openrl_inspect.commands.steps import print_steps
from openrl_inspect.explanations import (
    NEWEST_STEPS,
    OP_RECORDS,
    explain,
    run_is_in_trouble,
    where_time_went,
)
from openrl_inspect.identifiers import find_run
from openrl_inspect.parameters import check_option, run_argument
from openrl_inspect.site import Answer, Site, results_of
from openrl_inspect.tables import print_coverage, print_pair, table

BAR_WIDTH = 24
HOLDERS_SHOWN = 3


@click.command()
@run_argument()
@click.option("--last", type=click.IntRange(1, 200), default=NEWEST_STEPS, show_default=True, help="Steps looked at.")
@check_option("the run is in trouble")
@asks_site
def run(asker: Asker, *, run: str, last: int, check: bool) -> None:
    """Explain one run: its state with the evidence, its newest steps, and where their time went."""

    async def question(site: Site) -> Answer:
        return await explain(site, await find_run(site, run), last=last)

    answer = asker.ask(question)
    asker.output.show(answer, lambda console: print_explanation(console, answer))
    end_checked(check, run_is_in_trouble(answer["run"]), answer["run"])


def print_explanation(console: Any, answer: Answer) -> None:
    """Print all that is known of a run, what matters most first."""
    found, verdict = answer["run"], answer["verdict"] or {}
    _print_state(console, found, verdict)
    _print_counts(console, found)
    _print_time(console, where_time_went(answer))
    _print_heading(console, "Newest steps")
    print_steps(console, answer["steps"])
    if stuck := results_of(answer["stuck"]):
        _print_heading(console, "Stuck requests", answer["stuck"].get("total_matching"), len(stuck))
        console.print(table(stuck_list.columns(is_one_run=True), stuck, console))
        stuck_list.print_reasons(console, answer["stuck"])
    if failed := results_of(answer["failures"]):
        _print_heading(console, "Newest failures", answer["failures"].get("total_matching"), len(failed))
        console.print(table(failure_list.columns(answer["failures"], is_one_run=True), failed, console))
    print_coverage(console, found)


def _print_state(console: Any, run: Answer, verdict: Answer) -> None:
    console.print(Text(cells.plain(run.get("run_id")), style="bold"))
    also = [cells.words(state) for state in run.get("also") or ()]
    console.print(
        Text.assemble(
            cells.word(run.get("state")),
            f" for {cells.ago(run.get('state_since'), run.get('as_of'))}",
            (" · also " + ", ".join(also) if also else "", "dim"),
        )
    )
    for mark, facts in (
        ("·", verdict.get("evidence") or run.get("evidence")),
        ("because", _conditions(verdict.get("chain"))),
        ("also", verdict.get("findings")),
        ("but", verdict.get("counter_evidence")),
        ("next", verdict.get("next")),
    ):
        for fact in facts if isinstance(facts, list) else ():
            console.print(Padding(Text.assemble((f"{mark} ", "dim"), _told(fact)), (0, 0, 0, 2)))


def _print_counts(console: Any, run: Answer) -> None:
    console.print()
    per_hour, operations, tokens = (
        cells.number(cells.value_at(run, f"rates.{name}"))
        for name in ("steps_per_hour", "operations_per_second", "tokens_per_second")
    )
    lines = {
        "steps": f"{cells.count(run.get('steps_completed'))} · {per_hour} an hour · {operations} ops/s · "
        f"{tokens} tokens/s",
        "requests": " · ".join(
            f"{cells.count(cells.value_at(run, f'ledger.{name}'))} {name}"
            for name in ("enqueued", "answered", "failed")
        )
        + f" · {cells.count(run.get('outstanding_count'))} open",
        "samples": f"{cells.count(cells.value_at(run, 'samples.answered'))} answered · "
        f"{cells.count(cells.value_at(run, 'samples.failed'))} failed",
        "workers": _healths(run.get("workers")),
    }
    for name, value in lines.items():
        print_pair(console, name, value)


def _healths(workers: Any) -> str:
    found = [cells.plain(one.get("health")) for one in workers or () if isinstance(one, dict)]
    return ", ".join(f"{found.count(health)} {health}" for health in dict.fromkeys(found)) or cells.DASH


def _print_time(console: Any, time: Answer) -> None:
    if not time["parts"]:
        return
    steps = "step" if time["steps_count"] == 1 else "steps"
    _print_heading(console, f"Where {cells.seconds(time['wall_seconds'])} of {time['steps_count']} {steps} went")
    for part in time["parts"]:
        bar = "█" * max(1, round(min(1.0, part["share"] or 0.0) * BAR_WIDTH))
        console.print(
            Text(f"{cells.words(part['part']):<12}"),
            Text(f"{bar:<{BAR_WIDTH}}", style="cyan"),
            Text(f"{cells.share(part['share']):>6}  {cells.seconds(part['seconds'])}"),
            sep="",
        )
    for holder in time["gpu_wait_by"][:HOLDERS_SHOWN]:
        what = f"{cells.plain(holder['operation'])} of " if holder["operation"] else ""
        whose = cells.plain(holder["run_id"] or holder["workload"] or "a holder that nobody told")
        console.print(Text(f"  waited {cells.seconds(holder['seconds'])} for {what}{whose}", style="yellow"))
    if time["source"] == OP_RECORDS:
        queued = cells.seconds(time["queue_seconds"])
        console.print(
            Text(
                f"From op records: no step clock here. Ops waited {queued} in the queue, summed over requests.",
                style="dim",
            )
        )


def _print_heading(console: Any, title: str, total: Any = None, shown: int = 0) -> None:
    more = f" ({shown} of {total:,})" if isinstance(total, int) and total > shown else ""
    console.print(f"\n{title}{more}", style="bold")


def _conditions(chain: Any) -> list[str]:
    """Return what a run waits for across runs, link by link, each with what is wrong with it."""
    links = [link for link in chain if isinstance(link, dict)] if isinstance(chain, list) else []
    return [_told(link) + (f" ({link['condition']})" if link.get("condition") else "") for link in links]


def _told(fact: Any) -> str:
    """Return a fact in words, with the ids that it speaks of left to `--json`."""
    return cells.plain(fact.get("text") if isinstance(fact, dict) else fact)
