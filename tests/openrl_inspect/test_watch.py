"""Following events: those of a real site as they come, and a stream that breaks off."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner

from openrl_inspect import addresses
from openrl_inspect.commands import watch
from openrl_inspect.program import program
from tests.openrl_inspect.conftest import HEALTHY, NEIGHBOUR
from tests.support.records import step_of_ops
from tests.support.workers import ROOT
from workers_client import wire

DEADLINE_SECONDS = 60


def test_events_of_a_run_come_as_they_happen(site, site_environment):
    command = [sys.executable, "-m", "openrl_inspect", "watch", "neighbour", "--only", "step", "--count", "1"]
    with subprocess.Popen(command, cwd=ROOT, env=site_environment, stdout=subprocess.PIPE, text=True) as process:
        told = threading.Event()
        threading.Thread(target=flush_until, args=(site.writer, told), daemon=True).start()
        try:
            output, _ = process.communicate(timeout=DEADLINE_SECONDS)
        finally:
            told.set()
            process.kill()
    event = json.loads(output)
    assert (event["event"], event["data"]["run_id"]) == ("step", NEIGHBOUR)
    assert event["id"]


def flush_until(writer, told):
    """Complete steps as workers do until somebody has heard of one: when the stream is open can't be seen from here."""
    step = 1
    while not told.wait(0.5):
        writer.operations(*step_of_ops(step, at=time.time(), run_id=NEIGHBOUR))
        writer.client.publish(wire.FLUSHED_CHANNEL, json.dumps({"worker": "w", "runs": [NEIGHBOUR, HEALTHY]}))
        step += 1


@pytest.fixture
def breaking_site(monkeypatch):
    """A site that tells two events and breaks off, each time; the second of them again where it is asked for more."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.headers.get("Last-Event-ID"))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            first = 2 * len(asked) - 2
            for number in (max(1, first), first + 1, first + 2):  # the first of these was told before
                data = json.dumps({"run_id": "r", "step": number, "finished_at": "2026-11-30T12:00:00.000Z"})
                self.wfile.write(f"id: {number}-x\nevent: step\ndata: {data}\n\n".encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv(addresses.URL_VARIABLE, f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(watch, "FIRST_PAUSE_SECONDS", 0.01)
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_stream_that_breaks_off_is_taken_up_again_and_tells_nothing_twice(breaking_site):
    result = CliRunner().invoke(program, ["watch", "--count", "6", "--after", "0-x"])
    assert result.exit_code == 0, (result.output, result.exception)
    assert [json.loads(line)["data"]["step"] for line in result.stdout.splitlines()] == [1, 2, 3, 4, 5, 6]
    assert breaking_site == ["0-x", "2-x", "4-x"]
    assert result.stderr.count("Trying again") == 2


def test_on_a_terminal_an_event_is_a_line(breaking_site):
    result = CliRunner(env={"COLUMNS": "80"}).invoke(program, ["watch", "--count", "1", "--table"])
    assert result.stdout.split()[-5:] == ["r", "step", "1", "is", "done"]


def test_what_will_never_work_is_not_tried_again(inspect):
    assert "No run has 'nobody'" in inspect("watch", "nobody", status=3).stderr
    assert "is no id of an event" in inspect("watch", "--after", "yesterday", status=2).stderr


def test_op_records_that_fail_are_told_as_failures():
    line = watch._line("failure", {"run_id": "r", "operation": "save", "step": 3, "error_type": "E"}, 80)
    assert "save failed in step 3: E" in line.plain
