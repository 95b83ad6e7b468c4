"""`manage.py retention`: do by hand what the periodic task does, or say what it would do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from telemetry_app.management.progress import ProgressLine
from telemetry_app.retention import apply_retention
from telemetry_app.retention_estimates import exact_expired


class Command(BaseCommand):
    """Remove what is older than its policy keeps."""

    help = "Remove what is older than its policy keeps, and from Redis what is idle and stored."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--dry-run", action="store_true", help="count what would go, and remove nothing")
        parser.add_argument("--json", action="store_true", help="print the summary as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Apply retention, or count; say what went or would go."""
        if options["dry_run"]:
            policies = [expired.as_dict() for expired in exact_expired()]
            self._show({"dry_run": True, "policies": policies}, _would_go(policies), as_json=options["json"])
            return
        with ProgressLine(self.stderr) as progress:
            summary = apply_retention(on_progress=progress.add)
        if summary.was_skipped:
            raise CommandError("Another retention is under way; this one did nothing.")
        shown = summary.as_dict()
        self._show(shown, _went(shown["policies"]), as_json=options["json"])
        if summary.errors:
            raise CommandError("; ".join(f"{policy}: {error}" for policy, error in summary.errors.items()))

    def _show(self, summary: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
        for line in [json.dumps(summary)] if as_json else lines:
            self.stdout.write(line)


def _would_go(policies: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for policy in policies:
        size = filesizeformat(policy["size_bytes"])
        yield f"{policy['policy']}: {policy['rows']} rows ({size}) from before {policy['cutoff_at']} would go."


def _went(policies: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for policy in policies:
        size = filesizeformat(policy["bytes_removed"])
        what = f"{policy['keys_removed']} keys" if policy["policy"] == "redis" else f"{policy['rows_removed']} rows"
        yield f"{policy['policy']}: {what} ({size}) from before {policy['cutoff_at']} removed."
