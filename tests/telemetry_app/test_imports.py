"""Imports point one way: from the contract, through reading and grouping, to what is shown."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("workers_client", "openrl_inspect", "telemetry_app", "openrl_site", "examples")
CONTRACT = ("workers_client.wire", "workers_client.wire_values", "workers_client.wire_worker", "workers_client.codec",
            "workers_client.wire_records", "workers_client.wire_parse", "workers_client.quick_parse",
            "workers_client.exceptions")  # fmt: skip
PURE = tuple(
    f"telemetry_app.{name}"
    for name in (
        "grouping",
        "step_numbers",
        "health",
        "run_facts",
        "one_clock",
        "queue_wait",
        "run_state",
        "expectations",
        "overdue",
        "holder_chain",
        "open_requests",
        "findings",
        "verdict",
        "next_steps",
        "incident_changes",
        "op_history",
        "rates",
        "ledger_totals",
        "worker_changes",
        "wrong_clocks",
        "spans",
        "gpu_turns",
        "turn_spans",
        "device_time",
        "device_share",
        "device_sums",
        "device_turns",
        "device_parts",
        "kept_parts",
        "gpu_share",
        "step_clock",
        "time_comparison",
        "sampling_time",
        "run_activity",
        "open_activity",
        "binary_copy",
        "checked_records",
        "kept_lists",
        "kept_records",
        "alerts.outcomes",
        "alerts.wording",
        "metric_growth",
        "fleet_counts",
        "plain_words",
    )
)
VALUE_TYPES = ("msgspec",)  # its structs are values that are made and encoded fast: nothing that reads or waits
READERS = "telemetry_app.readers"
REMOVERS = "telemetry_app.redis_removal"
# What hears that there is news, and what counts requests in the cache: neither reads what workers wrote.
OTHERS_OF_REDIS = ("telemetry_app.event_hub", "telemetry_app.api.throttles")
SHOWN = ("telemetry_app.tasks", "telemetry_app.api", "telemetry_app.admin")


def imports_of(source: str, package: str) -> set[str]:
    """Return the full names that a module's source imports, also inside of functions; `from a import b` is `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = [] if not node.level else parents[: len(parents) - node.level + 1]
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found - {name for name in found if name.startswith("__future__")}


def modules() -> dict[str, set[str]]:
    """Return the imports of every module of the project by its name."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            parent = name if parts[-1] == "__init__" else name.rpartition(".")[0]
            found[name] = imports_of(path.read_text(encoding="utf-8"), parent)
    return found


MODULES = modules()


def is_within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def is_standard(name: str) -> bool:
    return name.split(".")[0] in sys.stdlib_module_names


def offenders(names: Iterable[str], is_wrong: Callable[[str], bool]) -> dict[str, list[str]]:
    """Return by module the imports that are wrong."""
    found = {name: sorted(filter(is_wrong, MODULES[name])) for name in names}
    return {name: wrong for name, wrong in found.items() if wrong}


def of_package(package: str) -> list[str]:
    return [name for name in MODULES if is_within(name, package)]


def test_imports_are_found_wherever_they_stand():
    source = "import a.b, c\nfrom d.e import f\ndef g():\n    from .h import i\n    from .. import j\n"
    assert imports_of(source, "p.q") == {"a.b", "c", "d.e.f", "p.q.h.i", "p.j"}


def test_the_modules_are_there():
    assert {*CONTRACT, *PURE, READERS, *SHOWN, "telemetry_app.snapshots"} <= set(MODULES)
    assert all(of_package(package) for package in PACKAGES)


def test_the_client_needs_redis_and_the_standard_library_alone():
    allowed = ("workers_client", "redis", "msgspec")  # msgspec where it is installed
    assert (
        offenders(of_package("workers_client"), lambda name: not is_standard(name) and not is_within(name, *allowed))
        == {}
    )


def test_the_contract_needs_nothing_of_the_client():
    allowed = (*CONTRACT, "msgspec")
    assert offenders(CONTRACT, lambda name: not is_standard(name) and not is_within(name, *allowed)) == {}


def test_pure_modules_need_the_contract_and_each_other_alone():
    allowed = (*CONTRACT, *PURE, *VALUE_TYPES)
    assert offenders(PURE, lambda name: not is_standard(name) and not is_within(name, *allowed)) == {}


def test_pure_modules_read_no_clock():
    assert offenders(PURE, lambda name: is_within(name, "time", "datetime")) == {}


def test_the_readers_need_the_redis_client_and_the_contract_alone():
    allowed = (
        *CONTRACT,
        "redis",
        "django_redis",
        *(
            f"telemetry_app.{name}"
            for name in ("checked_records", "exceptions", "wrong_clocks", "kept_lists", "kept_records")
        ),
    )
    assert offenders([READERS], lambda name: not is_standard(name) and not is_within(name, *allowed)) == {}


def test_one_module_reads_records_in_redis_and_one_removes_them():
    others = [name for name in of_package("telemetry_app") if name not in (READERS, REMOVERS, *OTHERS_OF_REDIS)]
    assert offenders(others, lambda name: is_within(name, "redis", "django_redis")) == {}


def test_nothing_below_imports_what_is_shown_or_scheduled():
    below = [name for name in of_package("telemetry_app") if not is_within(name, *SHOWN)]
    assert offenders(below, lambda name: is_within(name, *SHOWN)) == {}


def test_what_is_kept_knows_nothing_of_answers():
    kept = ["telemetry_app.snapshots", "telemetry_app.facts", "telemetry_app.models", "telemetry_app.retention"]
    assert offenders(kept, lambda name: is_within(name, "telemetry_app.inspection")) == {}


def test_answers_take_no_snapshots():
    writing = ("telemetry_app.snapshots", "telemetry_app.bulk", "telemetry_app.retention")
    assert offenders(of_package("telemetry_app.inspection"), lambda name: is_within(name, *writing)) == {}


def test_the_application_knows_neither_the_site_nor_the_examples():
    outside = ("openrl_site", "examples", "tests")
    assert offenders(of_package("telemetry_app"), lambda name: is_within(name, *outside)) == {}


def test_the_application_uses_the_contract_of_the_client_alone():
    def is_inside_of_the_client(name: str) -> bool:
        return is_within(name, "workers_client") and not is_within(name, *CONTRACT)

    assert offenders(of_package("telemetry_app"), is_inside_of_the_client) == {}


def test_the_command_line_knows_the_api_alone():
    allowed = ("openrl_inspect", "click", "rich", "httpx2", "mcp", "mcp_types", "pydantic", "pyarrow")
    names = of_package("openrl_inspect")
    assert offenders(names, lambda name: not is_standard(name) and not is_within(name, *allowed)) == {}


def test_only_the_site_serves_the_agents_tools():
    others = [*of_package("workers_client"), *of_package("telemetry_app"), *of_package("examples")]
    assert offenders(others, lambda name: is_within(name, "openrl_inspect", "mcp")) == {}


def test_the_examples_know_nothing_of_the_site():
    assert (
        offenders(of_package("examples"), lambda name: is_within(name, "telemetry_app", "openrl_site", "django")) == {}
    )
