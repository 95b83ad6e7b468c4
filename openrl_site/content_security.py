"""What browsers may do with the site's answers: little everywhere, on the admin only what its theme needs besides."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

STRICT = "default-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
# The theme evaluates Alpine expressions and sets inline styles; without both its menus stay open and its page blurred.
ADMIN = f"{STRICT}; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"

# Of what a page could ask a browser for, the site uses nothing.
PERMISSIONS = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer", "browsing-topics", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer",
        "microphone", "midi", "payment", "usb",
    )
)  # fmt: skip


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Set the policies on every answer that has none of its own."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        return _with_policy(request, get_response(request))

    return middleware


def _with_policy(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Content-Security-Policy", ADMIN if request.path.startswith("/admin/") else STRICT)
    response.headers.setdefault("Permissions-Policy", PERMISSIONS)
    response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    return response
