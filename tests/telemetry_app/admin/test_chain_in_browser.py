"""A person in a browser follows a run in trouble to the neighbour that holds the GPU, and to that one's worker."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from telemetry_app.incidents import take_verdicts
from telemetry_app.models import Run
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, RecordWriter, op, worker
from workers_client.wire_worker import CurrentOp, CurrentTurn, OutstandingWork

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
HELD_SECONDS = 3_000


@pytest.fixture
def neighbour_holds_the_gpu(writer: RecordWriter) -> None:
    """A run whose trainer waits for its turn: the turn belongs to another run's, whose op never ends."""
    now = time.time()
    since = now - HELD_SECONDS
    # The newest ops of the run in trouble failed; then it asked for one more, and has waited ever since.
    writer.operations(*(op(at=since - n, status="failed", error_type="ValueError") for n in range(5)))
    writer.operations(*(op(at=since - 10 * n, run_id="neighbour", elapsed_seconds=3.0) for n in range(5)))
    for run_id in (RUN, "neighbour"):
        writer.ledger(run_id, enqueued=6, popped=6, answered=5, delivered=5, last_enqueued_at=since)
    work = {run_id: (OutstandingWork(run_id, "forward_backward", 1, since, ("q",)),) for run_id in (RUN, "neighbour")}
    writer.workers(
        worker("trainer-that-waits", at=now, outstanding=work[RUN], turn=CurrentTurn("a", since + 1)),
        worker(
            "trainer-that-holds", at=now, runs=("neighbour",), outstanding=work["neighbour"],
            turn=CurrentTurn("b", since, since), current=CurrentOp("forward_backward", "neighbour", "q", since),
        ),
    )  # fmt: skip
    take_verdicts()
    take_snapshot()
    Run.objects.filter(pk="neighbour").update(name="The neighbour")


@pytest.mark.usefixtures("neighbour_holds_the_gpu")
def test_a_run_in_trouble_leads_through_its_chain_to_who_holds_the_gpu(
    admin_page: Page, live_server: LiveServer
) -> None:
    admin_page.goto(f"{live_server.url}/admin/")
    admin_page.locator("#fleet-trouble").get_by_role("link", name=RUN).click()
    chain = admin_page.get_by_role("list", name="What it waits for")
    expect(chain).to_contain_text("stuck")
    chain.get_by_role("link", name="run neighbour").click()
    expect(admin_page.locator("#run-head")).to_contain_text("The neighbour")
    expect(admin_page.get_by_label("Verdict")).to_contain_text("stuck")
    expect(admin_page.locator("#run-incidents")).to_contain_text("open")
    admin_page.get_by_label("Verdict").get_by_role("link").first.click()
    expect(admin_page.locator("#live-page")).to_contain_text("trainer-that-holds")
    expect(admin_page.locator("#live-page")).to_contain_text("forward_backward")
