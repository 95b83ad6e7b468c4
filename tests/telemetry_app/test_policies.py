"""Which days a policy may have."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from telemetry_app.models import RetentionPolicy
from tests.support.policies import keep

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("kind", "days", "steps", "operations"),
    [("steps", 13, None, 14), ("steps", 90, None, None), ("operations", 91, 90, 14), ("operations", None, 90, 14)],
)
def test_steps_are_not_kept_for_less_time_than_ops(kind, days, steps, operations):
    keep(steps=steps, operations=operations)
    with pytest.raises(ValidationError, match="must be kept at least as long"):
        RetentionPolicy(kind=kind, days_to_keep=days).full_clean(validate_unique=False)


@pytest.mark.parametrize(
    ("kind", "days", "steps", "operations"),
    [("steps", 14, None, 14), ("steps", None, 20, 14), ("operations", 1, 90, 14), ("samples", None, 1, 1)],
)
def test_other_days_are_fine(kind, days, steps, operations):
    keep(steps=steps, operations=operations)
    RetentionPolicy(kind=kind, days_to_keep=days).full_clean(validate_unique=False)
