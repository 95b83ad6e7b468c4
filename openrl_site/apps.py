"""The project as a Django application: loads Celery for `shared_task` and registers the checks of settings."""

from __future__ import annotations

from django.apps import AppConfig


class SiteConfig(AppConfig):
    """Runs once when Django has loaded its applications."""

    name = "openrl_site"
    verbose_name = "OpenRL telemetry site"

    def ready(self) -> None:
        """Make ours the current Celery application, and the checks known."""
        # Both read the settings, which are complete only now.
        from openrl_site import celery, checks  # noqa: F401
