"""The first user and token."""

import json
import stat

import pytest
from django.contrib.auth import get_user_model

from openrl_site.access import ensure_access, write_access
from telemetry_app.models.access import ApiToken, digest_of

URLS = {"url": "http://127.0.0.1:8000", "redis_url": "redis://h/0", "database_url": "postgresql://h/d"}
pytestmark = pytest.mark.django_db


def _admin():
    return get_user_model().objects.get(username="admin")


def test_first_start_makes_a_superuser_and_a_token(tmp_path):
    access = ensure_access(tmp_path, own_database=True)
    assert access.is_new
    assert _admin().is_superuser
    assert _admin().check_password(access.password)
    assert ApiToken.objects.active().get(user=_admin()).digest == digest_of(access.token)


def test_later_starts_keep_the_secrets(tmp_path):
    first = ensure_access(tmp_path, own_database=True)
    write_access(tmp_path, first, URLS)
    second = ensure_access(tmp_path, own_database=True)
    assert (second.password, second.token, second.is_new) == (first.password, first.token, False)


def test_kept_token_that_was_revoked_is_replaced_and_stays_revoked(tmp_path):
    first = ensure_access(tmp_path, own_database=True)
    write_access(tmp_path, first, URLS)
    ApiToken.objects.get(digest=digest_of(first.token)).revoke()
    second = ensure_access(tmp_path, own_database=True)
    assert second.token != first.token
    assert ApiToken.objects.active().get().digest == digest_of(second.token)


def test_emptied_database_gets_the_kept_secrets_again(tmp_path):
    first = ensure_access(tmp_path, own_database=True)
    write_access(tmp_path, first, URLS)
    get_user_model().objects.all().delete()
    ensure_access(tmp_path, own_database=True)
    assert _admin().check_password(first.password)
    assert ApiToken.objects.active().get(user=_admin()).digest == digest_of(first.token)


def test_user_of_an_external_database_keeps_its_password(tmp_path):
    get_user_model().objects.create_superuser(username="admin", password="only-they-know")
    access = ensure_access(tmp_path, own_database=False)
    assert access.password == ""
    assert _admin().check_password("only-they-know")


def test_user_of_our_own_database_without_kept_secrets_gets_a_new_password(tmp_path):
    get_user_model().objects.create_superuser(username="admin", password="lost")
    access = ensure_access(tmp_path, own_database=True)
    assert _admin().check_password(access.password)


def test_access_file_is_private_and_says_where_all_is(tmp_path):
    write_access(tmp_path, ensure_access(tmp_path, own_database=True), URLS)
    path = tmp_path / "access.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    assert list(content) == ["url", "username", "password", "token", "redis_url", "database_url"]
    assert {key: content[key] for key in URLS} == URLS
