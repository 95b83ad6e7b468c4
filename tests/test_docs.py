"""The documentation keeps up with the code: links lead somewhere, and what code names, the pages name."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import get_commands

from openrl_site import checks
from telemetry_app import schedule
from telemetry_app.api import parameters
from telemetry_app.api.urls import urlpatterns
from telemetry_app.health import Health
from telemetry_app.inspection import runs, steps
from telemetry_app.models import RunState
from workers_client import Recorder, buffer, start, wire, wire_worker
from workers_client.settings_filter import ALLOWED_NAMES, ALLOWED_PREFIXES, SECRET_WORDS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
RUN = "<run>"
RECORDS = (
    wire.OpRecord, wire.SampleFailure, wire.SampleGroup, wire.TurnRecord, wire_worker.WorkerRecord, wire_worker.Ledger,
)  # fmt: skip


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def anchors(path: Path) -> set[str]:
    """Return the anchors that a page's headings make, as forges and renderers name them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing(words: Iterable[object], text: str) -> list[str]:
    """Return the words that do not stand in backquotes anywhere in the text."""
    quoted = set(re.findall(r"`([^`\n]+)`", text))
    return [str(word) for word in words if str(word) not in quoted]


def section(text: str, heading: str) -> str:
    """Return what stands between a heading of the second level and the next one."""
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


# --- Links and blocks -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_relative_links_lead_to_files_and_headings(path):
    broken = []
    for link in LINK.findall(path.read_text()):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        found = (path.parent / target).resolve() if target else path
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_blocks_parse(path):
    blocks = re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    assert [ast.parse(block).body == [] for block in blocks] == [False] * len(blocks)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_methods_of_the_recorder_exist(path):
    called = set(re.findall(r"recorder\.(\w+)\(", path.read_text()))
    assert {name for name in called if not hasattr(Recorder, name)} == set()


# --- The wire contract ----------------------------------------------------------------------------------------
def test_wire_page_names_every_key():
    keys = [
        wire.RUNS_KEY, wire.WORKERS_KEY, wire.WORKLOADS_KEY, wire.FLUSHED_CHANNEL,
        wire.operations_key(RUN), wire.samples_key(RUN), wire.ledger_key(RUN), wire.steps_key(RUN),
        wire.step_times_key(RUN), wire.queue_key(RUN), wire.worker_key("<worker>"), wire.turns_key("<workload>"),
        "open_rl:flush:<worker>",
    ]  # fmt: skip
    assert missing(keys, page("wire.md")) == []


@pytest.mark.parametrize(
    ("heading", "record"),
    [
        ("Op record", wire.OpRecord),
        ("Sample records", wire.SampleFailure),
        ("Sample records", wire.SampleGroup),
        ("GPU turn record", wire.TurnRecord),
        ("GPU turn record", wire.TurnOp),
        ("Worker record", wire_worker.WorkerRecord),
        ("Worker record", wire_worker.OutstandingWork),
        ("Worker record", wire_worker.CurrentOp),
        ("Worker record", wire_worker.CurrentTurn),
        ("Ledger", wire_worker.Ledger),
    ],
)
def test_wire_page_names_every_field_under_its_record(heading, record):
    names = [field.name for field in dataclasses.fields(record)]
    assert missing(names, section(page("wire.md"), heading)) == []


def test_wire_page_names_every_count_and_instant_of_the_ledger():
    assert missing([*wire.LEDGER_COUNTS, *wire.LEDGER_INSTANTS], section(page("wire.md"), "Ledger")) == []


@pytest.mark.parametrize(
    "words", [wire.Role, wire.Status, wire.SampleSource, wire.Phase, wire.DropReason, buffer.KINDS]
)
def test_wire_page_names_every_word(words):
    assert missing(words, page("wire.md")) == []


def test_wire_page_lists_no_field_that_no_record_has():
    known = {field.name for record in RECORDS for field in dataclasses.fields(record)}
    listed = set()
    for heading in ("Op record", "Sample records", "Ledger", "Worker record", "GPU turn record"):
        for first_cell in re.findall(r"^\| (`[^|]+) \|", section(page("wire.md"), heading), re.MULTILINE):
            listed |= set(re.findall(r"`(\w+)`", first_cell))
    assert listed - known == set()


def test_wire_page_states_the_limits_of_the_code():
    text = page("wire.md")
    assert f"newest {wire.LIST_LIMIT:,}" in text
    assert f"1 to {wire.RUN_ID_LIMIT} characters" in text
    assert f"at most {wire.METRICS_LIMIT}, names of at most {wire.METRIC_NAME_LIMIT} characters" in text
    assert f"at most {wire.TURN_OPS_LIMIT}" in text
    assert f"the oldest {wire.OUTSTANDING_LIMIT}" in text
    assert f"{wire.WORKER_TTL_SECONDS // 3600} h after" in text
    assert f"version {wire.WIRE_VERSION} " in text


def test_wire_page_names_the_allow_list_of_settings():
    text = page("wire.md")
    names = [*ALLOWED_NAMES, *(f"{prefix}*" for prefix in ALLOWED_PREFIXES)]
    assert missing(names, text) == []
    assert [word for word in SECRET_WORDS if word not in text] == []


# --- The API --------------------------------------------------------------------------------------------------
def test_api_page_has_a_heading_for_every_endpoint():
    # Two patterns answer all paths that are no endpoint.
    patterns = {str(pattern.pattern) for pattern in urlpatterns} - {"<path:unknown>", ""}
    endpoints = {re.sub(r"<path:\w+>", "{id}", pattern) for pattern in patterns}
    headings = set(re.findall(r"^## GET /(.+)$", page("api.md"), re.MULTILINE))
    assert headings == endpoints | {"healthz", "readyz"}


def test_api_page_names_states_and_healths_in_their_order():
    text = page("api.md")
    states = re.findall(r"^\| `(\w+)` \|", text.split("\n## Run states\n")[1], re.MULTILINE)
    healths = re.findall(r"^\| `(\w+)` \|", text.split("\n### Worker health\n")[1].split("\n## ")[0], re.MULTILINE)
    assert states == list(RunState.values)
    assert healths == [health.value for health in Health]


def test_api_page_names_the_orderings_and_limits_of_the_code():
    text = page("api.md")
    assert missing(runs.ORDERINGS, text) == []
    assert f"default {steps.DEFAULT_LAST}, from 1 to {steps.MOST_STEPS:,}" in text
    assert f"default {parameters.PAGE_SIZE}, from 1 to {parameters.MOST_PAGE_SIZE}" in text


# --- Operating and instrumenting ------------------------------------------------------------------------------
def test_operating_page_names_every_variable_that_the_site_reads():
    read = set()
    for name in ("settings.py", "locations.py"):
        source = (ROOT / "openrl_site" / name).read_text()
        read |= set(re.findall(r'(?:env\.\w+|environ\.get|_whole_number|_switch)\(\s*"([A-Z_]+)"', source))
    assert "TELEMETRY_RETENTION_DAYS" in read
    assert "VAR_DIR" in read
    assert missing(sorted(read), page("operating.md")) == []


def test_operating_page_names_the_checks_tasks_and_commands():
    text = page("operating.md")
    identifiers = set(re.findall(r'id="(openrl_site\.\w+)"', Path(str(checks.__file__)).read_text()))
    assert missing(sorted(identifiers), text) == []
    tasks = [schedule.RETENTION_NAME, *(name for _, name, *_ in schedule.every_few_seconds())]
    assert [task for task in tasks if task not in text] == []
    own = [command for command, app in get_commands().items() if app == apps.get_app_config("telemetry_app").name]
    assert [command for command in own if not re.search(rf"`{command}[ `]", text)] == []


def test_instrumenting_page_names_every_public_method_and_argument():
    text = page("instrumenting.md")
    methods = [name for name in vars(Recorder) if not name.startswith("_") and callable(getattr(Recorder, name))]
    assert [name for name in methods if not re.search(rf"\b{name}\b", text)] == []
    arguments = [name for name in start.__kwdefaults__ if name not in ("redis_url", "rank")]
    assert missing(arguments, text) == []
