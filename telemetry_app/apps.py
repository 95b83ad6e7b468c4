"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class TelemetryConfig(AppConfig):
    name = "telemetry_app"
    verbose_name = "Telemetry"

    def ready(self) -> None:
        # Imports of models and checks must wait until the applications are loaded.
        from telemetry_app import groups, partitions, retention_policies, schedule

        post_migrate.connect(partitions.create_after_migrate, sender=self)
        post_migrate.connect(retention_policies.create_after_migrate, sender=self)
        post_migrate.connect(schedule.create_after_migrate, sender=self)
        post_migrate.connect(groups.create_after_migrate, sender=self)
