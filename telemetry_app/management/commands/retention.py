"""`manage.py retention`: do by hand what the periodic task does."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from telemetry_app.retention import apply_retention


class Command(BaseCommand):
    """Remove records that are older than they are kept."""

    help = "Remove op, sample and turn records older than they are kept; runs and their totals stay."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--days", type=int, help="days to keep (default: TELEMETRY_RETENTION_DAYS)")
        parser.add_argument("--json", action="store_true", help="print the summary as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Apply retention and say what it did."""
        days = options["days"]
        if days is not None and days < 1:
            raise CommandError(f"--days {days} must be 1 or more.")
        summary = apply_retention(days=days).as_dict()
        if options["json"]:
            self.stdout.write(json.dumps(summary))
            return
        self.stdout.write(f"{summary['rows_removed']} records from before {summary['cutoff']} removed.")
