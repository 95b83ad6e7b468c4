"""Signing in: a token is kept once it works, and used from then on."""

from __future__ import annotations

import json

from click.testing import CliRunner

from openrl_inspect.addresses import config_file
from openrl_inspect.program import program


def invoke(*arguments, given=""):
    return CliRunner().invoke(program, arguments, input=given)


def test_a_token_that_works_is_kept_and_used(site):
    result = invoke("login", given=f"{site.url}\n{site.token}\n")
    assert result.exit_code == 0, result.output
    assert site.token not in result.output
    assert invoke("runs").exit_code == 0


def test_a_token_that_does_not_work_is_not_kept(site):
    result = invoke("login", "--url", site.url, "--token", "wrong")
    assert result.exit_code == 4
    assert "refuses the token" in result.stderr
    assert not config_file().exists()


def test_the_access_file_of_the_site_is_enough(site, monkeypatch):
    monkeypatch.setenv("VAR_DIR", str(site.folder))
    assert json.loads(invoke("runs").stdout)["results"]


def test_a_site_that_wants_a_token_says_how_to_get_one(site):
    result = invoke("runs", "--url", site.url)
    assert result.exit_code == 4
    assert "openrl-inspect login" in result.stderr


def test_what_is_no_inspection_api_is_told_apart(site):
    result = invoke("runs", "--url", f"{site.url}/admin", "--token", site.token)
    assert result.exit_code == 5
    assert "no inspection API" in result.stderr or "leads to" in result.stderr
