"""Addresses and environments of the site's programs."""

import pytest

from openrl_site.programs import Address, site_environment

URLS = {"database_url": "postgresql://h/d", "redis_url": "redis://h/0"}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::1", "http://[::1]:8000"),
        ("example.org", "http://example.org:8000"),
    ],
)
def test_url_reaches_the_site_from_this_machine(host, url):
    assert Address(host, 8000).url == url


def test_host_names_follow_the_address_unless_given(tmp_path, monkeypatch):
    monkeypatch.delenv("ALLOWED_HOSTS", raising=False)
    assert "10.0.0.5" in site_environment(tmp_path, Address("10.0.0.5", 80), URLS)["ALLOWED_HOSTS"].split(",")
    assert site_environment(tmp_path, Address("0.0.0.0", 80), URLS)["ALLOWED_HOSTS"] == "*"
    monkeypatch.setenv("ALLOWED_HOSTS", "mine.example")
    assert site_environment(tmp_path, Address("0.0.0.0", 80), URLS)["ALLOWED_HOSTS"] == "mine.example"


def test_programs_get_the_servers_and_the_data_folder(tmp_path):
    environment = site_environment(tmp_path, Address("127.0.0.1", 80), URLS)
    assert environment["DATABASE_URL"] == "postgresql://h/d"
    assert environment["REDIS_URL"] == "redis://h/0"
    assert environment["VAR_DIR"] == str(tmp_path)
