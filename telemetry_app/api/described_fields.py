"""Fields of the answers' descriptions: each with its meaning and, where it is a quantity, its unit.

They describe answers in the schema; answers themselves are encoded without them, which is several times faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers


def text(meaning: str, **fields: Any) -> serializers.CharField:
    """Describe a text that is always there."""
    return serializers.CharField(help_text=meaning, **fields)


def optional_text(meaning: str) -> serializers.CharField:
    """Describe a text, null where it is not known."""
    return serializers.CharField(help_text=meaning, allow_null=True)


def word(words: Iterable[str], meaning: str, **fields: Any) -> serializers.ChoiceField:
    """Describe one of some words."""
    return serializers.ChoiceField(choices=[(each, each) for each in words], help_text=meaning, **fields)


def texts(meaning: str) -> serializers.ListField:
    """Describe a list of texts."""
    return serializers.ListField(child=serializers.CharField(), help_text=meaning)


def instant(meaning: str, **fields: Any) -> serializers.DateTimeField:
    """Describe an instant (RFC 3339, UTC, milliseconds), null where it is not known."""
    fields.setdefault("allow_null", True)
    return serializers.DateTimeField(help_text=f"{meaning} RFC 3339, UTC.", **fields)


def seconds(meaning: str) -> serializers.FloatField:
    """Describe a duration, null where it is not known."""
    return serializers.FloatField(help_text=f"{meaning} In seconds.", allow_null=True)


def number(meaning: str, **fields: Any) -> serializers.FloatField:
    """Describe a number of the unit that its meaning names, null where it is not known."""
    fields.setdefault("allow_null", True)
    return serializers.FloatField(help_text=meaning, **fields)


def count(meaning: str, **fields: Any) -> serializers.IntegerField:
    """Describe a count."""
    return serializers.IntegerField(help_text=meaning, min_value=0, **fields)


def optional_count(meaning: str) -> serializers.IntegerField:
    """Describe a count, null where it is not known."""
    return count(meaning, allow_null=True)


def switch(meaning: str) -> serializers.BooleanField:
    """Describe a yes or no."""
    return serializers.BooleanField(help_text=meaning)


def mapping(child: serializers.Field | serializers.BaseSerializer, meaning: str) -> serializers.DictField:
    """Describe an object whose names are data."""
    return serializers.DictField(child=child, help_text=meaning)


def anything(meaning: str) -> serializers.DictField:
    """Describe an object that a worker wrote, whatever is in it."""
    return serializers.DictField(help_text=meaning)
