"""Retention policies of a test."""

from __future__ import annotations

from telemetry_app.models import RetentionPolicy


def keep(**days: int | None) -> None:
    """Keep each kind for so many days; a kind that is not named is kept for ever."""
    for kind in RetentionPolicy.Kind.values:
        RetentionPolicy.objects.update_or_create(kind=kind, defaults={"days_to_keep": days.get(kind)})
