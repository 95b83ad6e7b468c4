"""The Django project that runs the telemetry site."""

from openrl_site.celery import app as celery_app

__all__ = ["celery_app"]
