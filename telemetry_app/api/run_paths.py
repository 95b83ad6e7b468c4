"""What a path below `/runs/` means: servers decode `%2F`, so `a%2Fsteps` arrives as the steps of run `a`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from telemetry_app.exceptions import InvalidQueryError, NotFoundError

View = Callable[[Any, Request, str], Response]


def part_of_run(view: View) -> View:
    """Let a view that answers a part of a run give way to the run whose id ends like it.

    That run is meant where the server kept the undecoded path (ASGI does) and its last slash is encoded, and where
    there is no run that the part could belong to.
    """
    part = view.__name__

    @wraps(view)
    def answer(self: Any, request: Request, run: str) -> Response:
        whole = f"{run}/{part}"
        if _is_last_slash_encoded(request, part):
            return self.retrieve(request, whole)
        try:
            return view(self, request, run)
        except NotFoundError as missing:
            try:
                return self.retrieve(request, whole)
            except (NotFoundError, InvalidQueryError):
                raise missing from None

    return answer


def _is_last_slash_encoded(request: Request, part: str) -> bool:
    raw: bytes = getattr(request, "scope", {}).get("raw_path") or b""
    return raw.split(b"?", 1)[0].lower().endswith(f"%2f{part}".encode())
