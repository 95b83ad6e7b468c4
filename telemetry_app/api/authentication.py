"""Sign-in by token, under either of the two words that clients send."""

from __future__ import annotations

from rest_framework.authentication import TokenAuthentication
from rest_framework.request import Request


class BearerOrTokenAuthentication(TokenAuthentication):
    """`Authorization: Token <token>`, and `Bearer` in place of `Token`."""

    def authenticate(self, request: Request) -> tuple[object, object] | None:
        """Return the user and token of the request, or None where it brings none.

        Raises:
            AuthenticationFailed: the token is unknown.
        """
        word = request.META.get("HTTP_AUTHORIZATION", "").split(" ", 1)[0].lower()
        if word == "bearer":
            self.keyword = "Bearer"
        return super().authenticate(request)
