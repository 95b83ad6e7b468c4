"""`manage.py reseal`: seal with today's `SECRET_KEY` what was sealed with one of its fallbacks."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from telemetry_app.models import AlertChannel


class Command(BaseCommand):
    """Read what channels keep sealed and write it back, so that a fallback is needed no longer."""

    help = "Seal the URLs and secrets of channels with SECRET_KEY, so that SECRET_KEY_FALLBACKS can be emptied."

    def handle(self, *args: Any, **options: Any) -> None:
        """Seal all anew; fails where one can't be read, which then stays as it is."""
        with transaction.atomic():
            channels = list(AlertChannel.objects.select_for_update().order_by("pk"))
            for channel in channels:
                channel.save(update_fields=["url", "secret"])
        lost = [channel.name for channel in channels if channel.is_lost]
        self.stdout.write(f"{len(channels) - len(lost)} channels are sealed with SECRET_KEY.")
        if lost:
            raise CommandError(f"Not readable with any key there is: {', '.join(lost)}.")
