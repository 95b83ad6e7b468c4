"""`manage.py token`: make, list and revoke tokens for the API."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from telemetry_app.groups import create_machine, machines
from telemetry_app.instants import rfc3339
from telemetry_app.models import ApiToken

MOST_DAYS = 3_650


class Command(BaseCommand):
    """Handle the tokens of people and machines."""

    help = "Make a token (shown once), list those there are, or revoke one."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the three words and their options."""
        words = parser.add_subparsers(dest="word", required=True, metavar="create|list|revoke")
        create = words.add_parser("create", help="make a token and show it, this once")
        create.add_argument("name", help="what it is for")
        whose = create.add_mutually_exclusive_group()
        whose.add_argument("--user", help="of a user there is; without it of a machine that is named like the token")
        whose.add_argument("--machine", help="of this machine: a user without a password, made where it is missing")
        create.add_argument("--days", type=int, help="ends after so many days; without it never")
        listing = words.add_parser("list", help="list the tokens that open something")
        listing.add_argument("--all", action="store_true", help="also those that were revoked or are past their end")
        revoke = words.add_parser("revoke", help="let a token open nothing from now on")
        revoke.add_argument("prefix", help="how it begins, as the list shows it, or its id")
        for word in (create, listing, revoke):
            word.add_argument("--json", action="store_true", help="print it as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what the word says."""
        {"create": self._create, "list": self._list, "revoke": self._revoke}[options["word"]](options)

    def _create(self, options: dict[str, Any]) -> None:
        name, days = options["name"].strip(), options["days"]
        if not 1 <= len(name) <= 100 or not name.isprintable():
            raise CommandError("The name must have 1 to 100 printable characters.")
        if days is not None and not 1 <= days <= MOST_DAYS:
            raise CommandError(f"--days must be from 1 to {MOST_DAYS}.")
        expires_at = None if days is None else timezone.now() + timedelta(days=days)
        with transaction.atomic():
            user = _user(options["user"]) if options["user"] else _machine(options["machine"] or name)
            token, key = ApiToken.objects.issue(user=user, name=name, expires_at=expires_at)
        if options["json"]:
            self.stdout.write(json.dumps({**_fields(token), "token": key}))
            return
        self.stdout.write(f"Token of {user.get_username()}, shown this once:\n{key}")

    def _list(self, options: dict[str, Any]) -> None:
        tokens = ApiToken.objects.all() if options["all"] else ApiToken.objects.active()
        listed = [_fields(token) for token in tokens.select_related("user")]
        if options["json"]:
            self.stdout.write(json.dumps(listed))
            return
        for fields in listed:
            used = fields["last_used_at"] or "never used"
            self.stdout.write(f"{fields['prefix']}  {fields['status']}  {fields['user']}  {used}  {fields['name']}")
        self.stdout.write(f"{len(listed)} tokens.")

    def _revoke(self, options: dict[str, Any]) -> None:
        token = _token(options["prefix"].rstrip("…"))
        if not token.revoke():
            raise CommandError(f"{token} was revoked before, at {rfc3339(token.revoked_at)}.")
        self.stdout.write(json.dumps(_fields(token)) if options["json"] else f"{token} opens nothing from now on.")


def _user(username: str) -> Any:
    user = get_user_model()._default_manager.filter(username=username, is_active=True).first()
    if user is None:
        raise CommandError(f"There is no active user {username!r}.")
    return user


def _machine(username: str) -> Any:
    machine = machines().filter(username=username).first()
    try:
        return machine or create_machine(username)
    except ValidationError as error:
        raise CommandError(f"{username!r} can't be a machine: {' '.join(error.messages)}") from error


def _token(word: str) -> ApiToken:
    found = list(ApiToken.objects.filter(prefix=word)[:2])
    if not found and word.isdecimal() and len(word) < 19:
        found = list(ApiToken.objects.filter(pk=int(word)))
    if not found:
        raise CommandError(f"No token begins with {word!r}; `token list --all` shows them.")
    if len(found) > 1:
        raise CommandError(f"Several tokens begin with {word!r}; `token list --all --json` has their ids.")
    return found[0]


def _fields(token: ApiToken) -> dict[str, Any]:
    instants = ("created_at", "expires_at", "revoked_at", "last_used_at")
    return {
        "id": token.pk,
        "name": token.name,
        "user": token.user.get_username(),
        "prefix": token.prefix,
        "status": token.status.value,
        **{name: rfc3339(getattr(token, name)) for name in instants},
    }
