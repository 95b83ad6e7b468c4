"""`openrl-inspect fleet`: everything on one page."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from openrl_inspect import cells
from openrl_inspect.asking import Asker, asks_site, end_checked
from openrl_inspect.commands import failures as failure_list
from openrl_inspect.commands import stuck as stuck_list
from openrl_inspect.parameters import check_option
from openrl_inspect.site import Answer, Site
from openrl_inspect.tables import Column, field, print_coverage, print_pair, table

GPU_PARTS = ("computing", "switching", "idle_while_waited", "idle")
RUNS_SHOWN = 10


@click.command()
@check_option("a run is in trouble, a request is stuck or the site is not ready")
@asks_site
def fleet(asker: Asker, *, check: bool) -> None:
    """Show the fleet on one page: runs, workers, stuck requests, failures, the GPU, the site itself."""

    async def question(site: Site) -> Answer:
        return await site.get("/fleet")

    answer = asker.ask(question)
    asker.output.show(answer, lambda console: _print_fleet(console, answer))
    end_checked(check, is_in_trouble(answer), answer)


def is_in_trouble(fleet: Answer) -> bool:
    """Return whether anything of a fleet wants somebody to look."""
    states = cells.value_at(fleet, "runs.by_state") or {}
    stuck = cells.value_at(fleet, "stuck_requests.requests_count") or 0
    return any(states.get(state) for state in cells.TROUBLE) or stuck > 0 or not cells.value_at(fleet, "site.is_ready")


def _print_fleet(console: Any, fleet: Answer) -> None:
    _print_line(console, "runs", cells.value_at(fleet, "runs.count"), cells.value_at(fleet, "runs.by_state"))
    _print_line(console, "workers", cells.value_at(fleet, "workers.count"), cells.value_at(fleet, "workers.by_health"))
    stuck = fleet.get("stuck_requests") or {}
    orphaned = cells.count(stuck.get("orphaned_count"))
    print_pair(console, "stuck", Text(f"{cells.count(stuck.get('requests_count'))} requests, {orphaned} orphaned"))
    failed = fleet.get("failures") or {}
    print_pair(console, "failures", Text(f"{cells.count(failed.get('total_matching'))} in the last hour"))
    _print_gpu(console, fleet.get("gpu"))
    _print_site(console, fleet.get("site") or {})
    if oldest := stuck.get("oldest"):
        console.print("\nOldest stuck requests", style="bold")
        console.print(table(stuck_list.columns(is_one_run=False), oldest, console))
    if newest := failed.get("newest"):
        console.print("\nNewest failures", style="bold")
        console.print(table(failure_list.columns(fleet, is_one_run=False), newest, console))
    if by_run := cells.value_at(fleet, "gpu.by_run"):
        console.print("\nThe GPU by run", style="bold")
        columns = [
            Column("RUN", field("run_id", cells.Id)),
            Column("SHARE", field("share", cells.share), is_number=True),
            Column("TIME", field("seconds", cells.seconds), is_number=True),
        ]
        console.print(table(columns, by_run[:RUNS_SHOWN], console))
    print_coverage(console, fleet)


def _print_line(console: Any, name: str, total: Any, by_word: Any) -> None:
    counts = by_word if isinstance(by_word, dict) else {}
    parts = [Text.assemble(f"{cells.count(number)} ", cells.word(word)) for word, number in counts.items() if number]
    print_pair(
        console, name, Text.assemble(f"{cells.count(total)}: " if parts else cells.count(total), Text(", ").join(parts))
    )


def _print_gpu(console: Any, gpu: Any) -> None:
    if not isinstance(gpu, dict):
        print_pair(console, "GPU", Text(cells.DASH))
        return
    parts = [f"{cells.share(cells.value_at(gpu, f'{name}.share'))} {cells.words(name)}" for name in GPU_PARTS]
    print_pair(console, "GPU", Text(", ".join(parts)))


def _print_site(console: Any, site: Answer) -> None:
    checks = site.get("checks") if isinstance(site.get("checks"), dict) else {}
    failing = [
        f"{name}: {check.get('detail') or 'fails'}"
        for name, check in (checks or {}).items()
        if isinstance(check, dict) and check.get("ok") is False
    ]
    state = cells.word(_readiness(site.get("is_ready")))
    lag = f" · snapshots {cells.seconds(site.get('snapshot_lag_seconds'))} behind"
    missing = f" · {cells.count(site.get('missing_records'))} records missing"
    print_pair(
        console,
        "site",
        Text.assemble(state, lag, missing, ("".join(f"\n{'':10}{cells.plain(one)}" for one in failing), "red")),
    )


def _readiness(is_ready: Any) -> str | None:
    return None if is_ready is None else "ready" if is_ready else "not ready"
