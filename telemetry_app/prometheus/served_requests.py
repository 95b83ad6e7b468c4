"""Requests that the site answered: counted where they are answered, in the web process.

Several web processes on one machine share their counts through files where `PROMETHEUS_MULTIPROC_DIR` names a folder;
the library itself looks for that variable when it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

from telemetry_app.prometheus.families import SITE_REQUEST_SECONDS, SITE_REQUESTS

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # as many series again that nobody asks for
_registry = CollectorRegistry()
_requests = Counter(SITE_REQUESTS.name, SITE_REQUESTS.help, SITE_REQUESTS.labels, registry=_registry)
_seconds = Histogram(
    SITE_REQUEST_SECONDS.name,
    SITE_REQUEST_SECONDS.help,
    SITE_REQUEST_SECONDS.labels,
    buckets=BUCKETS,
    registry=_registry,
)


def count_request(*, method: str, route: str, status: int, seconds: float) -> None:
    """Count an answered request. `route` is one of the site's patterns, never a path: paths have no end."""
    method = method if method in METHODS else OTHER
    _requests.labels(method=method, route=route, status=f"{status // 100}xx").inc()
    _seconds.labels(route=route).observe(seconds)


def served_requests() -> Iterable[Metric]:
    """Return the counts of this process, or of all that share its folder."""
    if settings.PROMETHEUS_MULTIPROC_DIR:
        shared = MultiProcessCollector(None, settings.PROMETHEUS_MULTIPROC_DIR)  # type: ignore[no-untyped-call]
        found: Iterable[Metric] = shared.collect()  # type: ignore[no-untyped-call]
        return found
    return _registry.collect()
