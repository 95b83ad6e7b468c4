"""Which site is asked with which token: options before environment before files, and no token for another site."""

from __future__ import annotations

import json
import stat

import pytest

from openrl_inspect import addresses
from openrl_inspect.addresses import checked_url, config_file, find_address, keep_token
from openrl_inspect.exceptions import InspectError, RefusedError

HERE, THERE = "http://here.example:8000", "https://there.example"


def write_access(tmp_path, **content):
    folder = tmp_path / "var"
    folder.mkdir()
    (folder / "access.json").write_text(json.dumps(content))


def test_nothing_known_says_what_to_do():
    with pytest.raises(InspectError, match="openrl-inspect login"):
        find_address(None, None)


def test_the_access_file_of_a_site_nearby_is_found_from_folders_below(tmp_path, monkeypatch):
    write_access(tmp_path, url=HERE, token="near")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    found = find_address(None, None)
    assert (found.url, found.token) == (HERE, "near")
    assert found.token_from == str(tmp_path / "var" / "access.json")


def test_options_come_before_the_environment_and_that_before_files(tmp_path, monkeypatch):
    write_access(tmp_path, url="http://third.example", token="third")
    keep_token(THERE, "kept")
    assert find_address(None, None).url == THERE
    monkeypatch.setenv(addresses.URL_VARIABLE, HERE)
    monkeypatch.setenv(addresses.TOKEN_VARIABLE, "second")
    assert (find_address(None, None).url, find_address(None, None).token) == (HERE, "second")
    found = find_address("http://first.example", "first")
    assert (found.url, found.token, found.url_from, found.token_from) == (
        "http://first.example",
        "first",
        "--url",
        "--token",
    )


def test_a_kept_token_goes_to_its_own_site_alone(tmp_path):
    write_access(tmp_path, url=HERE, token="near")
    keep_token(THERE, "kept")
    assert find_address("http://evil.example", None).token == ""
    assert find_address(HERE, None).token == "near"
    assert find_address(f"{THERE}/", None).token == "kept"


def test_tokens_of_several_sites_are_kept_readable_by_their_owner_alone():
    keep_token(HERE, "one")
    path = keep_token(THERE, "two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert find_address(HERE, None).token == "one"
    assert find_address(None, None).token == "two"


def test_a_broken_configuration_is_named():
    path = config_file()
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(InspectError, match=r"config\.json can't be read"):
        find_address(None, None)


@pytest.mark.parametrize("url", ["here.example", "ftp://here.example", "http://", "http://user:secret@here.example"])
def test_what_is_no_site_is_refused_by_name(url):
    with pytest.raises(RefusedError, match="--url") as refusal:
        checked_url(url, "--url")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("url", [HERE, f"{HERE}/", f"{HERE}/api/v1/inspect", f"{HERE}/api/v1/inspect/runs"])
def test_a_url_of_the_api_means_its_site(url):
    assert checked_url(url, "--url") == HERE
