"""The Content-Security-Policy: strict everywhere, relaxed on the admin only as far as its theme needs."""

from __future__ import annotations

from collections.abc import Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

STRICT = "default-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
# The theme evaluates Alpine expressions and sets inline styles; without both its menus stay open and its page blurred.
ADMIN = f"{STRICT}; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"


class ContentSecurityPolicyMiddleware:
    """Set the policy on every answer that has none."""

    async_capable = True
    sync_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if iscoroutinefunction(self):
            return self._call_async(request)  # type: ignore[return-value]
        return self._with_policy(request, self.get_response(request))

    async def _call_async(self, request: HttpRequest) -> HttpResponseBase:
        return self._with_policy(request, await self.get_response(request))  # type: ignore[misc]

    @staticmethod
    def _with_policy(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        policy = ADMIN if request.path.startswith("/admin/") else STRICT
        response.headers.setdefault("Content-Security-Policy", policy)
        return response
