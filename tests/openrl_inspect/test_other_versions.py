"""Sites of another version: unknown fields are ignored, missing ones a dash, missing endpoints done without."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest
from click.testing import CliRunner

from openrl_inspect import addresses
from openrl_inspect.program import program
from tests.openrl_inspect.conftest import HEALTHY, LOST

KEPT = {"run_id", "worker", "step", "id", "results", "state"}
NOT_THERE = ("/verdict", "/time", "/events")
COMMANDS = [
    ("runs",), ("runs", "--trouble"), ("run", HEALTHY), ("run", LOST), ("steps", HEALTHY), ("failures",), ("stuck",),
    ("workers",), ("worker", "gone"), ("fleet",),
]  # fmt: skip


def older(value):
    """Return an answer without any field but those that name things."""
    if isinstance(value, dict):
        return {name: older(item) for name, item in value.items() if name in KEPT}
    return [older(item) for item in value] if isinstance(value, list) else value


def newer(value):
    """Return an answer with fields that nobody knows, of unknown kinds."""
    if isinstance(value, dict):
        return {name: newer(item) for name, item in value.items()} | {"new_word": {"a": [1]}, "new_count": 3}
    return [newer(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(params=[older, newer])
def other_site(request, site, monkeypatch):
    """A site that answers what the real one does, as one of another version would."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer = httpx2.get(site.url + self.path, headers={"Authorization": f"Token {site.token}"}, timeout=60)
            is_there = request.param is newer or not self.path.partition("?")[0].endswith(NOT_THERE)
            body = json.dumps(request.param(answer.json()) if answer.is_success else answer.json()).encode()
            missing = json.dumps(
                {"errors": [{"code": "not_found", "detail": "There is no run.", "attr": None}]}
            ).encode()
            self.send_response(answer.status_code if is_there else 404)
            self.end_headers()
            self.wfile.write(body if is_there else missing)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv(addresses.URL_VARIABLE, f"http://127.0.0.1:{server.server_port}")
    yield request.param
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("form", ["--table", "--json"])
def test_every_command_answers(other_site, arguments, form):
    result = CliRunner(env={"COLUMNS": "120"}).invoke(program, [*arguments, form])
    assert result.exit_code == 0, (result.output, result.exception)
    if form == "--json":
        json.loads(result.stdout)


def test_what_an_older_site_does_not_say_is_a_dash(other_site):
    result = CliRunner(env={"COLUMNS": "80"}).invoke(program, ["runs", "-q", "lost", "--table"])
    [row] = [line for line in result.stdout.splitlines() if line.startswith(LOST)]
    assert (row.split()[2:] == ["–"] * 4) == (other_site is older)
