"""`manage.py partitions`: what days there are, and making those that are missing."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import transaction
from django.template.defaultfilters import filesizeformat

from telemetry_app import partitions


class Command(BaseCommand):
    """List the daily partitions, and create those that are missing."""

    help = "List the partitions with rows (estimated) and bytes; --create makes those that are missing first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--create", action="store_true", help="make those from yesterday to a week ahead first")
        parser.add_argument("--json", action="store_true", help="print them as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create where asked to, and list."""
        today = datetime.now(UTC).date()
        created = 0
        if options["create"]:
            with transaction.atomic():
                created = partitions.ensure_ahead(today)
        listed, missing = partitions.list_partitions(), partitions.missing_days(today)
        if options["json"]:
            rows = [asdict(partition) | {"name": partition.name} for partition in listed]
            summary = {"created": created, "missing": missing, "partitions": rows}
            self.stdout.write(json.dumps(summary, default=str))
            return
        for partition in listed:
            size = filesizeformat(partition.size_bytes)
            self.stdout.write(f"{partition.day} {partition.name}: about {partition.rows_estimate} rows, {size}")
        self.stdout.write(f"{len(listed)} partitions, {created} created, {len(missing)} of today and tomorrow missing.")
        for name in missing:
            self.stderr.write(f"{name} is missing: --create makes it.")
