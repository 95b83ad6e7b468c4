"""Make the database ready for the site: checks, migrations, the first user. Run by the supervisor before all else.

`python -m openrl_site.prepare --url http://…` with `DATABASE_URL` and `REDIS_URL` set. Ends with status 2 and one
sentence on stderr where the set-up is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured

from openrl_site.exceptions import SetUpError
from openrl_site.locations import access_file, var_dir

EXIT_WRONG_SET_UP = 2


def main() -> int:
    """Prepare the database and keep the access file up to date; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="where the site will be")
    parser.add_argument("--own-database", action="store_true", help="the database is the embedded one")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openrl_site.settings")
    try:
        django.setup()
        _check_settings()
        _migrate()
        _give_access(options.url, own_database=options.own_database)
    except (ImproperlyConfigured, SetUpError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_WRONG_SET_UP
    return 0


def _check_settings() -> None:
    # Django's modules are complete only after its set-up, here and below.
    from django.core import checks

    errors = [message for message in checks.run_checks() if message.is_serious()]
    if errors:
        raise SetUpError("\n".join(f"{error.msg} ({error.id})" for error in errors))


def _migrate() -> None:
    """Apply what is missing. Looking first is faster than `migrate`, which also renews permissions each time."""
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        sys.stdout.write("Migrating the database.\n")
        call_command("migrate", interactive=False, verbosity=0)


def _give_access(url: str, *, own_database: bool) -> None:
    from django.conf import settings

    from openrl_site.access import ensure_access, write_access

    folder = var_dir()
    access = ensure_access(folder, own_database=own_database)
    write_access(folder, access, {"url": url, "redis_url": settings.REDIS_URL, "database_url": settings.DATABASE_URL})
    if access.is_new:
        password = access.password or "unchanged, since this user was there before"
        sys.stdout.write(
            f"Made for you, shown once and kept in {access_file(folder)}:\n"
            f"  user {access.username}, password {password}\n  API token {access.token}\n"
        )


if __name__ == "__main__":
    sys.exit(main())
