"""What a path below `/runs/` or `/workers/` means: servers decode `%2F`, so `a%2Fsteps` arrives as the steps of `a`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http.response import HttpResponseBase
from rest_framework.request import Request

from telemetry_app.exceptions import InvalidQueryError, NotFoundError

View = Callable[[Any, Request, str], HttpResponseBase]


def part_of(owner: str) -> Callable[[View], Callable[..., HttpResponseBase]]:
    """Let a view that answers a part of a run (or worker) give way to the one whose id ends like it.

    That one is meant where the server kept the undecoded path (ASGI does) and its last slash is encoded, and where
    there is none that the part could belong to. `owner` is what the path calls the id: `run` or `worker`.
    """

    def decorate(view: View) -> Callable[..., HttpResponseBase]:
        return _giving_way(view, owner)

    return decorate


def _giving_way(view: View, owner: str) -> Callable[..., HttpResponseBase]:
    part = view.__name__

    @wraps(view)
    def answer(self: Any, request: Request, **ids: str) -> HttpResponseBase:
        whole = f"{ids[owner]}/{part}"
        if _is_last_slash_encoded(request, part):
            return self.retrieve(request, whole)
        try:
            return view(self, request, ids[owner])
        except NotFoundError as missing:
            try:
                return self.retrieve(request, whole)
            except (NotFoundError, InvalidQueryError):
                raise missing from None

    return answer


def _is_last_slash_encoded(request: Request, part: str) -> bool:
    raw: bytes = getattr(request, "scope", {}).get("raw_path") or b""
    return raw.split(b"?", 1)[0].lower().endswith(f"%2f{part}".encode())
