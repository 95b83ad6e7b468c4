"""The ASGI application that the web server serves."""

from __future__ import annotations

import gc
import os

from django.core.asgi import get_asgi_application
from django.urls import get_resolver

from openrl_site.body_limit import Receive, Scope, Send, limited
from openrl_site.threaded_handler import ThreadedHandler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openrl_site.settings")
os.environ.setdefault("DATABASE_POOL_CONNECTIONS", "32")

# Answered on the event loop: server-sent events, which stay open for hours, and the agents' tools.
ON_THE_LOOP = ("/events", "/mcp")

_loop_application = get_asgi_application()
_threaded_application = ThreadedHandler()


@limited
async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request."""
    is_for_loop = scope["type"] != "http" or scope["path"].endswith(ON_THE_LOOP)
    await (_loop_application if is_for_loop else _threaded_application)(scope, receive, send)


# What stands now stays until the process ends. Left to the collector, it is looked through again and again while an
# answer builds thousands of records: a seventh of the time of `/steps` (`script/benchmark answers`).
get_resolver().url_patterns  # noqa: B018 - loads all views
gc.collect()
gc.freeze()
