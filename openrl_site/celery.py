"""The Celery application; its settings are Django's, with the prefix `CELERY_`."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openrl_site.settings")

app = Celery("openrl_site")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
