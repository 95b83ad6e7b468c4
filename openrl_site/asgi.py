"""The ASGI application that the web server serves."""

from __future__ import annotations

import gc
import os

from django.core.asgi import get_asgi_application
from django.urls import get_resolver

from openrl_site.body_limit import limited

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openrl_site.settings")
os.environ.setdefault("DATABASE_POOL_CONNECTIONS", "32")

application = limited(get_asgi_application())

# What stands now stays until the process ends. Left to the collector, it is looked through again and again while an
# answer builds thousands of records: a seventh of the time of `/steps` (`script/benchmark answers`).
get_resolver().url_patterns  # noqa: B018 - loads all views
gc.collect()
gc.freeze()
