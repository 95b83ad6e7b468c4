#!/usr/bin/env python3
"""Django's command line. Finds the embedded PostgreSQL and Redis that run, or starts them for as long as it lasts."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run one management command; a wrong set-up ends it with one sentence."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openrl_site.settings")
    # Imported late: a virtual environment that lacks Django must fail with a sentence of ours.
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line

        from openrl_site.exceptions import SetUpError
        from openrl_site.shared_servers import servers_for_command
    except ModuleNotFoundError as error:
        sys.exit(f"manage.py: {error.name} is not installed here: run .venv/bin/python manage.py after script/server.")

    try:
        with servers_for_command(sys.argv):
            execute_from_command_line(sys.argv)
    except (SetUpError, ImproperlyConfigured) as error:
        sys.exit(f"manage.py: {error}")


if __name__ == "__main__":
    main()
