"""Queueing a periodic task at once, from a process that is no Celery worker."""

from __future__ import annotations

from celery import Celery
from django.conf import settings
from kombu.exceptions import OperationalError

from telemetry_app.exceptions import QueueUnavailableError

SOCKET_TIMEOUT_SECONDS = 2.0
EXPIRE_SECONDS = 300.0  # nobody waits longer for what a button promised


def queue_task(name: str) -> None:
    """Queue a task by its name; who takes it does so later, or never.

    Raises:
        QueueUnavailableError: the broker does not take it.
    """
    # An application of its own: the worker's would have to be loaded in every process of the site.
    app = Celery("telemetry_app", set_as_current=False)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.conf.broker_transport_options = {
        **settings.CELERY_BROKER_TRANSPORT_OPTIONS,
        "socket_timeout": SOCKET_TIMEOUT_SECONDS,
        "max_retries": 0,
    }
    try:
        with app.connection_for_write(transport_options=app.conf.broker_transport_options) as connection:
            app.send_task(name, connection=connection, retry=False, expires=EXPIRE_SECONDS)
    except (OperationalError, OSError) as error:
        raise QueueUnavailableError(f"Celery's queue can't be reached: {type(error).__name__}") from error
