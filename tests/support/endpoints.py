"""Every endpoint of the API there is, taken from its paths, with what a strict caller reads of an answer."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any
from urllib.parse import quote

from telemetry_app.api.urls import urlpatterns

BASE = "/api/v1/inspect"
PAGES = {"api/docs"}  # for people: no JSON
ROUTES = sorted({str(pattern.pattern) for pattern in urlpatterns} - {"", "<path:unknown>"} - PAGES)
IDS = re.compile(r"<\w+:(\w+)>")
_CONTROLS = re.compile(rb"[\x00-\x1f]")  # what JSON has to escape
STATUSES = {200, 304, 400, 401, 403, 404, 405, 406, 414, 429, 431, 503}


def path_of(route: str, **ids: str) -> str:
    """Return an endpoint's path with ids of `run`, `worker` and so on in it, percent-encoded."""
    return f"{BASE}/" + IDS.sub(lambda found: quote(ids.get(found[1], "x"), safe=""), route)


def checked(response: Any) -> Any:
    """Return the JSON of an answer (None of a stream): no fault, strict, escaped, errors in their one shape."""
    assert response.status_code in STATUSES, (response.status_code, response)
    if response.streaming:  # server-sent events, which nobody reads here
        return None
    if response.status_code == 304 or not response.content:
        return None
    assert response.headers["Content-Type"].partition(";")[0] == "application/json", response.content[:200]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    is_packed = response.headers.get("Content-Encoding") == "gzip"
    raw = gzip.decompress(response.content) if is_packed else response.content
    assert not _CONTROLS.search(raw), raw[:200]
    content = json.loads(raw.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
    if response.status_code >= 400:
        assert set(content) == {"type", "errors"}, content
        assert all(set(entry) == {"code", "detail", "attr"} for entry in content["errors"])
    return content


def _finite(raw: str) -> float:
    value = float(raw)
    assert value - value == 0, f"{raw} is more than a reader can hold"
    return value


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
