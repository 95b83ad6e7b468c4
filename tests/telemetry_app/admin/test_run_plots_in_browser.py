"""The plots as a person uses them: zoom, send the address on, choose metrics, compare, follow who holds the GPU."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import redis
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route, expect
from pytest_django.live_server_helper import LiveServer

from tests.support.records import WORKER, RecordWriter, op, turn, worker
from workers_client.wire import FORWARD_BACKWARD, OPTIM_STEP
from workers_client.wire_records import TurnOp

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
RUN_PAGE = "/admin/telemetry_app/run/run-a/change/"
HOSTILE = "🚀<script>alert(1)</script>" + "x" * 200
STEPS = 60
AXE: dict[str, Any] = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}


@pytest.fixture
def writer(redis_client: redis.Redis) -> RecordWriter:
    """Two runs of 60 steps that took turns on one GPU; one value is not a number, and one id is hostile."""
    writer, start = RecordWriter(redis_client), time.time() - 200
    for run_id in ("run-a", "run-b", HOSTILE):
        put_run(writer, run_id, start)
    return writer


def put_run(writer: RecordWriter, run_id: str, start: float) -> None:
    for step in range(STEPS):
        at = start + 2 * step + 2
        metrics = {"loss:mean": 5.0 - step / 20, "accuracy:mean": step / STEPS}
        nonfinite = {"grad_norm:mean": "nan"} if step == 30 else {}
        writer.operations(
            op(FORWARD_BACKWARD, at=at - 1, step=step, run_id=run_id, elapsed_seconds=0.6, metrics=metrics),
            op(OPTIM_STEP, at=at, step=step, run_id=run_id, elapsed_seconds=0.4,
               metrics={} if nonfinite else {"grad_norm:mean": 0.5}, nonfinite=nonfinite),
        )  # fmt: skip
    writer.steps(STEPS, run_id=run_id)
    begins = start + (1.0 if run_id == "run-a" else 0.0)
    turns = [
        turn(at=begins + 2 * n + 1, workload=f"trainer-of-{run_id[:5]}", requested_at=begins + 2 * n - 0.9,
             started_at=begins + 2 * n, worker=WORKER if run_id == "run-a" else "another",
             ops=(TurnOp(run_id=run_id, name=FORWARD_BACKWARD, start=begins + 2 * n, end=begins + 2 * n + 1),))
        for n in range(STEPS)
    ]  # fmt: skip
    writer.turns(*turns)


def figure(page: Page, name: str) -> Locator:
    shown = page.locator(f'[data-plot="{name}"][data-ready]')
    expect(shown).to_be_visible(timeout=30_000)
    return shown


def drag(page: Page, plot: Locator, begin: float, end: float) -> None:
    """Drag over a plot from one share of its width to another."""
    over = plot.locator(".u-over")
    over.scroll_into_view_if_needed()
    box: Any = over.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * begin, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, middle, steps=4)
    page.mouse.up()


def test_a_zoomed_plot_is_sent_on_by_its_address(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter
) -> None:
    admin_page.goto(live_server.url + RUN_PAGE)
    shown = figure(admin_page, "step-time")
    spared = "canvas => canvas.getBoundingClientRect().width - canvas.width"
    assert abs(shown.locator(".uplot canvas").evaluate(spared)) < 2
    drag(admin_page, shown, 0.25, 0.5)
    expect(admin_page).to_have_url(re.compile(r"from=1\d&to=(29|30)"))
    label = admin_page.locator(".p-range")
    expect(label).to_contain_text(re.compile(r"^Steps 1\d to (29|30)"))
    said, address = label.inner_text(), admin_page.url
    colleague = admin_page.context.new_page()
    colleague.goto(address)
    expect(colleague.locator(".p-range")).to_have_text(said, timeout=30_000)
    figure(colleague, "gpu-turns")
    colleague.get_by_role("button", name="Show all").click()
    expect(colleague.locator(".p-range")).to_contain_text("All steps, 0 to 59")
    assert "from=" not in colleague.url


def test_a_plot_on_a_wall_has_as_many_pixels_as_the_screen_and_a_drag_shows_what_it_went_over(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter
) -> None:
    admin_page.set_viewport_size({"width": 3840, "height": 2160})
    admin_page.goto(live_server.url + RUN_PAGE)
    shown = figure(admin_page, "step-time")
    spared = "canvas => canvas.getBoundingClientRect().width - canvas.width"
    assert abs(shown.locator(".uplot canvas").evaluate(spared)) < 2
    drag(admin_page, shown, 0.25, 0.5)
    expect(admin_page).to_have_url(re.compile(r"from=1\d&to=(29|30)"))


def test_a_plot_that_is_still_read_says_so(admin_page: Page, live_server: LiveServer, writer: RecordWriter) -> None:
    held: list[Route] = []
    admin_page.route(re.compile("step-times"), lambda route: held.append(route))  # a built-in is refused
    admin_page.goto(live_server.url + RUN_PAGE)
    word = "element => getComputedStyle(element, '{}').content"
    assert admin_page.locator('[data-plot="step-time"] .p-box').evaluate(word.format("::after")) == '"Loading…"'
    assert admin_page.locator(".p-metrics").evaluate(word.format("::before")) == '"Loading…"'
    expect(admin_page.locator("#run-plots")).to_be_visible()
    for route in held:
        route.continue_()
    admin_page.unroute(re.compile("step-times"))
    shown = figure(admin_page, "step-time")
    assert shown.locator(".p-box").evaluate(word.format("::after")) == "none"


def test_a_zoom_by_keyboard_moves_all_plots(admin_page: Page, live_server: LiveServer, writer: RecordWriter) -> None:
    admin_page.goto(live_server.url + RUN_PAGE)
    box = figure(admin_page, "gpu-turns").locator(".p-box")
    box.focus()
    admin_page.keyboard.press("+")
    expect(admin_page).to_have_url(re.compile("since=.*until="))
    expect(admin_page.locator(".p-range")).to_contain_text(re.compile(r"^Steps [1-9]"))
    admin_page.keyboard.press("0")
    expect(admin_page.locator(".p-range")).to_contain_text("All steps")


def test_arrow_keys_read_values_with_their_units(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter
) -> None:
    admin_page.goto(live_server.url + RUN_PAGE)
    shown = figure(admin_page, "step-time")
    shown.locator(".p-box").focus()
    admin_page.keyboard.press("ArrowLeft")
    expect(shown.locator(".p-tooltip")).to_contain_text("training")
    expect(shown.locator(".p-spoken")).to_contain_text(re.compile(r"step 59, wall time 2 s"))


def test_a_metric_is_chosen_and_kept_in_the_address(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter
) -> None:
    admin_page.goto(live_server.url + RUN_PAGE)
    names = admin_page.locator(".p-metrics .p-name")
    expect(names).to_have_text(["forward_backward.loss:mean", "optim_step.grad_norm:mean"], timeout=30_000)
    admin_page.get_by_text("Which metrics").click()
    admin_page.get_by_role("checkbox", name="forward_backward.accuracy:mean").check()
    admin_page.get_by_role("checkbox", name="forward_backward.loss:mean").uncheck()
    expect(names).to_have_text(["optim_step.grad_norm:mean", "forward_backward.accuracy:mean"])
    admin_page.reload()
    expect(names).to_have_text(["optim_step.grad_norm:mean", "forward_backward.accuracy:mean"], timeout=30_000)


def test_a_value_that_is_no_number_is_told_where_it_is(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter
) -> None:
    admin_page.goto(live_server.url + RUN_PAGE)
    shown = admin_page.locator(".p-metrics .p-figure", has_text="grad_norm")
    expect(shown.locator(".p-legend")).to_contain_text("not finite", timeout=30_000)
    shown.get_by_text("The same as a table").click()
    expect(shown.get_by_role("row", name=re.compile("step 30 .*nan"))).to_be_visible()


def test_the_neighbour_that_held_the_gpu_is_a_click_away(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter
) -> None:
    admin_page.goto(live_server.url + RUN_PAGE)
    figure(admin_page, "gpu-turns").get_by_role("link", name="run-b holds it").click()
    expect(admin_page.locator(".t-title")).to_contain_text("run-b")


def test_two_runs_are_compared(admin_page: Page, live_server: LiveServer, writer: RecordWriter) -> None:
    admin_page.goto(live_server.url + RUN_PAGE)
    admin_page.get_by_role("link", name="Compare with other runs").click()
    admin_page.get_by_label("Add a run").fill("run-b")
    admin_page.get_by_role("button", name="Add", exact=True).click()
    figure(admin_page, "step-time")
    rows = admin_page.locator(".p-differences tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("+0 %")
    drag(admin_page, figure(admin_page, "step-time"), 0.5, 0.9)
    expect(admin_page).to_have_url(re.compile(r"run=run-a&run=run-b&from=\d+&to=\d+"))


def test_a_hostile_id_is_a_text(admin_page: Page, live_server: LiveServer, writer: RecordWriter) -> None:
    admin_page.set_viewport_size({"width": 360, "height": 800})
    admin_page.goto(live_server.url + RUN_PAGE)
    figure(admin_page, "gpu-turns").get_by_role("link", name=re.compile("🚀<script>")).click()
    expect(admin_page.locator(".t-title")).to_contain_text(HOSTILE)
    figure(admin_page, "gpu-turns")
    assert admin_page.evaluate("document.documentElement.scrollWidth") <= 360


def test_what_can_not_be_read_is_said_at_the_plot(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter
) -> None:
    page = admin_page.context.new_page()  # of this one nobody minds what the console says
    refused = {"type": "server_error", "errors": [{"code": "x", "detail": "Redis can't be read.", "attr": None}]}
    page.route("**/turns?*", lambda route: route.fulfill(status=503, json=refused))
    page.route("**/metrics", lambda route: route.fulfill(status=503, json=refused))
    page.goto(live_server.url + RUN_PAGE)
    expect(page.locator('[data-plot="gpu-turns"] .p-note')).to_have_text("Redis can't be read.", timeout=30_000)
    expect(page.locator(".p-note:has(+ .p-metrics)")).to_have_text("Redis can't be read.")
    expect(page.locator('[data-plot="step-time"] .p-note')).to_be_hidden()
    figure(page, "step-time")


def test_a_run_leads_to_its_worker_and_what_that_did(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter
) -> None:
    now = time.time()
    writer.workers(worker(at=now, started_at=now - 300, phase="running", phase_since=now - 5, outstanding=()))
    admin_page.goto(live_server.url + RUN_PAGE)
    admin_page.locator("#run-tables").get_by_role("link", name=re.compile("trainer-pod-7-1")).first.click()
    shown = figure(admin_page, "worker")
    expect(admin_page.locator(".t-title")).to_contain_text("trainer-pod-7-1")
    shown.get_by_text("The same as a table").click()
    expect(shown.get_by_role("row", name=re.compile("GPU turns · trainer-of-run-a Held"))).not_to_have_count(0)
    expect(shown.get_by_role("row", name=re.compile("phase: running now running"))).to_be_visible()
    expect(shown.get_by_role("row", name=re.compile("phase.*Not known"))).to_be_visible()


@pytest.mark.parametrize("path", [RUN_PAGE, "/admin/telemetry_app/run/compare/?run=run-a&run=run-b"])
def test_pages_with_plots_have_no_serious_fault_of_accessibility(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter, path: str
) -> None:
    admin_page.goto(live_server.url + path)
    expect(admin_page.locator(".p-metrics [data-ready]").first).to_be_visible(timeout=30_000)
    admin_page.get_by_text("The same as a table").first.click()
    faults = []
    for scheme in ("light", "dark"):
        admin_page.emulate_media(color_scheme=scheme)
        found = Axe().run(admin_page, options=AXE).response["violations"]
        faults += [
            (scheme, fault["id"], node["html"][:200])
            for fault in found
            if fault["impact"] in ("serious", "critical")
            for node in fault["nodes"]
        ]
    assert faults == []


def test_step_time_is_split_as_chosen(admin_page: Page, live_server: LiveServer, writer: RecordWriter) -> None:
    admin_page.goto(live_server.url + RUN_PAGE)
    legend = figure(admin_page, "step-time").locator(".p-legend")
    expect(legend).to_contain_text("training")
    admin_page.get_by_role("button", name="By op").click()
    expect(legend).to_contain_text("forward_backward")
    expect(admin_page).to_have_url(re.compile("split=op"))
    expect(admin_page.get_by_role("button", name="By op")).to_have_attribute("aria-pressed", "true")


def test_a_time_into_which_no_step_fell_is_said_to_have_none(
    admin_page: Page, live_server: LiveServer, writer: RecordWriter
) -> None:
    admin_page.goto(f"{live_server.url}{RUN_PAGE}?since=2026-01-01T00:00:00Z&until=2026-01-01T00:01:00Z")
    figure(admin_page, "step-time")
    expect(admin_page.locator(".p-range")).to_contain_text("No step fell into this time")
