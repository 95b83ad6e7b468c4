"""`manage.py snapshot`: do by hand what the periodic task does."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.snapshots import take_snapshot


class Command(BaseCommand):
    """Take what is new in Redis into PostgreSQL."""

    help = "Take what is new in Redis into PostgreSQL, once and only once."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--json", action="store_true", help="print the summary as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Take one snapshot and say what it did."""
        try:
            summary = take_snapshot().counts()
        except LiveDataUnavailableError as error:
            raise CommandError(f"{error}. Nothing was taken.") from error
        if options["json"]:
            self.stdout.write(json.dumps(summary))
            return
        self.stdout.write(
            f"{summary['rows_written']} records of {summary['runs_count']} runs taken, "
            f"{summary['malformed_count']} malformed, {summary['skipped_runs']} runs left to another snapshot."
        )
