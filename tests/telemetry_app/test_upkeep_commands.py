"""`manage.py retention` and `manage.py partitions`: what the tasks do, by hand."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from telemetry_app import partitions
from telemetry_app.management.progress import ProgressLine
from telemetry_app.models import Operation, Run
from telemetry_app.partitions import ensure_days, partition_name
from tests.support.policies import keep

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_client")]
TABLE = Operation._meta.db_table


def said(*arguments):
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def old_ops():
    """Ten ops of a pinned run and five of another, 30 days ago, and five of the other 31 days ago."""
    old = timezone.now() - timedelta(days=30)
    ensure_days(Operation, [old.date(), (old - timedelta(days=1)).date()])
    for name, is_pinned in (("pinned", True), ("other", False)):
        Run.objects.create(run_id=name, first_seen_at=old, last_activity_at=old, pinned=is_pinned)
    rows = [("pinned", old)] * 10 + [("other", old)] * 5 + [("other", old - timedelta(days=1))] * 5
    Operation.objects.bulk_create(
        Operation(run_id=run, record_id=f"w:{number}", operation="forward", status="succeeded", at=at, step=0)
        for number, (run, at) in enumerate(rows)
    )
    keep(operations=14)
    return old


def test_a_dry_run_counts_exactly_what_retention_removes_then(old_ops):
    [would_go] = json.loads(said("retention", "--dry-run", "--json"))["policies"]
    assert (would_go["policy"], would_go["rows"]) == ("operations", 10)
    assert would_go["size_bytes"] > 0
    assert would_go["oldest_at"][:10] == str((old_ops - timedelta(days=1)).date())
    assert Operation.objects.count() == 20
    went = json.loads(said("retention", "--json"))
    assert went["rows_removed"] == 10
    assert next(policy for policy in went["policies"] if policy["policy"] == "operations")["rows_removed"] == 10
    assert "operations: 0 rows" in said("retention", "--dry-run")


def test_retention_says_what_went(old_ops):
    lines = said("retention").splitlines()
    assert lines[0].startswith("operations: 10 rows (")
    assert lines[1].startswith("redis: 0 keys (")


def test_a_policy_that_failed_makes_the_command_fail(old_ops):
    with connection.cursor() as cursor:
        day = (old_ops - timedelta(days=1)).date()
        cursor.execute(f"CREATE VIEW blocker AS SELECT id FROM {partition_name(TABLE, day)}")
    with pytest.raises(CommandError, match=r"operations: .*blocker"):
        said("retention")


def test_partitions_are_listed_and_made():
    tomorrow = timezone.now().date() + timedelta(days=1)
    name = partition_name(TABLE, tomorrow)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
    listed = json.loads(said("partitions", "--json"))
    assert (listed["created"], listed["missing"]) == (0, [name])
    assert "1 of today and tomorrow missing" in said("partitions")
    made = json.loads(said("partitions", "--create", "--json"))
    assert (made["created"], made["missing"]) == (1, [])
    assert name in [partition["name"] for partition in made["partitions"]]
    assert len(made["partitions"]) == len(partitions.list_partitions())


class Terminal(io.StringIO):
    """Where lines are read by a person."""

    def isatty(self):
        return True

    def write(self, text, ending="\n"):
        return super().write(text + ending)


def test_progress_is_one_line_on_a_terminal_that_goes_at_the_end():
    terminal = Terminal()
    with ProgressLine(terminal) as progress:
        progress.add("operations", 5_000)
    assert terminal.getvalue() == "\r\x1b[2Koperations 5,000\r\x1b[2K"


def test_progress_is_silent_where_nobody_reads():
    stream = io.StringIO()
    with ProgressLine(stream) as progress:
        progress.add("operations", 5_000)
    assert stream.getvalue() == ""
