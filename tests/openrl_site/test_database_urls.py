"""URLs of PostgreSQL databases."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from psycopg import conninfo

from openrl_site.database_urls import django_database, socket_url


def test_socket_url_keeps_capitals_and_spaces_of_the_folder():
    url = socket_url(Path("/Home/Data Folder"), user="postgres", database="telemetry")
    assert django_database(url, name="DATABASE_URL")["HOST"] == "/Home/Data Folder"
    assert conninfo.conninfo_to_dict(url)["host"] == "/Home/Data Folder"


def test_parts_without_a_key_of_django_go_to_the_driver():
    found = django_database("postgres://me:p%40ss@db.example:5433/telemetry?sslmode=require", name="DATABASE_URL")
    assert found == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "telemetry",
        "USER": "me",
        "PASSWORD": "p@ss",
        "HOST": "db.example",
        "PORT": "5433",
        "OPTIONS": {"sslmode": "require"},
    }


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("sqlite:///telemetry.db", "must start with postgres:// or postgresql://"),
        ("postgresql://h/d?no_such_option=1", "must be a PostgreSQL URL"),
        ("postgresql://h:5432", "must name a database"),
    ],
)
def test_other_urls_are_refused_by_name_and_rule(url, rule):
    with pytest.raises(ImproperlyConfigured, match=f"DATABASE_URL=.*{rule}"):
        django_database(url, name="DATABASE_URL")
