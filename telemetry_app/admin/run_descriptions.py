"""What people say of a run, all of it that anyone edits: name, owner, tags, notes, and whether it is pinned."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from telemetry_app.models import Run
from telemetry_app.models.runs import EDITED_FIELDS, MOST_TAGS, TAG_LENGTH


class TagsField(forms.CharField):
    """Tags with commas between them."""

    widget = UnfoldAdminTextInputWidget

    def prepare_value(self, value: Any) -> Any:
        """Return the text that stands in the input."""
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        """Return the tags: without the spaces round them, each once.

        Raises:
            ValidationError: there are too many, or one is too long.
        """
        tags = list(dict.fromkeys(tag for tag in map(str.strip, str(value or "").split(",")) if tag))
        if len(tags) > MOST_TAGS:
            raise ValidationError(f"{len(tags)} tags: a run has at most {MOST_TAGS}.")
        for tag in tags:
            if len(tag) > TAG_LENGTH:
                raise ValidationError(f"The tag “{tag[:20]}…” has {len(tag)} characters: at most {TAG_LENGTH}.")
        return tags

    def run_validators(self, value: Any) -> None:
        """Check each tag as a text of its own."""
        for tag in value:
            super().run_validators(tag)


class RunDescriptionForm(forms.ModelForm):
    """The fields that a person edits."""

    tags = TagsField(
        required=False, help_text="With commas between them. The list of runs and the API find runs by them."
    )

    class Meta:
        model = Run
        fields = EDITED_FIELDS
        widgets = {
            "name": UnfoldAdminTextInputWidget(),
            "notes": UnfoldAdminTextareaWidget(attrs={"rows": 5}),
            "owner": UnfoldAdminSelectWidget(),
            "pinned": UnfoldBooleanSwitchWidget(),
        }
        help_texts = {
            "name": "What people call it. Its id stays what the service gave it.",
            "owner": "Whose it is: it stands under “Mine” in that person's list.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "owner" in self.fields:
            people = get_user_model()._default_manager.filter(is_active=True, is_staff=True).order_by("username")
            self.fields["owner"].queryset = people  # type: ignore[attr-defined]
