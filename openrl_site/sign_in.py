"""The sign-in of people: the theme's form, which refuses to look at a password that comes too soon after others."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import InterfaceError, OperationalError
from unfold.forms import AuthenticationForm

from openrl_site import sign_in_throttle as throttle
from telemetry_app.history_faults import fault_sentence


class SignInForm(AuthenticationForm):
    """Tells whoever fails too often how long to wait; `openrl_site.middleware.sign_in_waits` tells it in the status."""

    def clean(self) -> dict[str, Any]:
        """Check the password, unless one has to wait.

        Raises:
            ValidationError: it is wrong, the user is no member of the staff, it comes too soon, or can't be checked.
        """
        request, username = self.request, str(self.cleaned_data.get("username", ""))
        if request is None:
            return super().clean()
        wait_seconds = throttle.seconds_to_wait(request, username)
        if wait_seconds:
            request.sign_in_wait_seconds = wait_seconds
            unit = "second" if wait_seconds == 1 else "seconds"
            raise ValidationError(
                f"Too many passwords were wrong. Try again in {wait_seconds} {unit}.", code="too_many_failures"
            )
        try:
            cleaned: dict[str, Any] = super().clean()
        except ValidationError:
            throttle.note_failure(request, username)
            raise
        except (OperationalError, InterfaceError) as error:
            told = f"{fault_sentence(error)} Users are kept there: nobody can sign in until it answers. Try again soon."
            raise ValidationError(told, code="history_unavailable") from error
        throttle.forget_failures(request, username)
        return cleaned
