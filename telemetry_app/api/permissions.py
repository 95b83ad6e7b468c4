"""Who may read the API."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from telemetry_app.api.authentication import READ_PERMISSION


class MayRead(BasePermission):
    """Signed in, and staff or allowed to view runs: the groups `viewer` and `operator` are."""

    message = "Your user may not read this: it is in none of the groups viewer and operator."

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether the caller may read."""
        user = request.user
        if not (user and user.is_authenticated):
            return False
        if user.is_staff or user.is_superuser:
            return True
        granted: bool | None = getattr(request.auth, "may_read", None)  # found with the token
        return user.has_perm(READ_PERMISSION) if granted is None else granted
