"""The dashboard, the alert rules and the page about metrics name metrics and labels that exist, and all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from telemetry_app.prometheus.families import FAMILIES

DOCS = Path(__file__).parents[1] / "docs"
NAMES = {name for family in FAMILIES for name in family.sample_names} | {"up"}
LABELS = {label for family in FAMILIES for label in family.labels} | {"le", "job", "instance"}
WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset", "inf"}


def names_and_labels(expression: str) -> tuple[set[str], set[str]]:
    """Return the metrics and the labels that a PromQL expression names."""
    plain = re.sub(r'"[^"]*"|\'[^\']*\'', "''", expression)
    labels = {label for inner in re.findall(r"\{([^}]*)\}", plain) for label in re.findall(r"(\w+)\s*[!=]", inner)}
    plain = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", plain)
    grouped = r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)"
    labels |= {label.strip() for inner in re.findall(grouped, plain) for label in inner.split(",")}
    plain = re.sub(grouped, "", plain)
    words = re.findall(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()", re.sub(r"\b\d[\w.]*", "", plain))
    return set(words) - WORDS, labels


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return found


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DOCS / "prometheus-rules.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def page() -> str:
    return (DOCS / "prometheus.md").read_text(encoding="utf-8")


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every expression there is, with where it stands."""
    for panel in panels():
        yield from ((f"panel {panel['title']}", target["expr"]) for target in panel["targets"])
    yield from ((f"alert {rule['alert']}", rule["expr"]) for rule in rules())
    for block in re.findall(r"```promql\n(.*?)```", page(), re.DOTALL):
        lines = (line for line in block.splitlines() if line and not line.startswith("#"))
        yield from (("docs/prometheus.md", line) for line in lines)


def test_an_expression_is_taken_apart():
    expression = (
        'sum by (a, le) (rate(up{b="x_y{z}", c!~"d"}[5m])) > 0.05 * max(other:metric_1 offset 5m) and on (e) (f)'
    )
    assert names_and_labels(expression) == ({"up", "other:metric_1", "f"}, {"a", "le", "b", "c", "e"})


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_an_expression_names_what_exists(where, expression):
    names, labels = names_and_labels(expression)
    assert names, f"{where} names no metric"
    assert names <= NAMES, where
    assert labels <= LABELS, where


def test_every_metric_but_those_of_single_runs_is_on_the_dashboard():
    shown = {
        name for where, expression in expressions() if "panel" in where for name in names_and_labels(expression)[0]
    }
    unseen = {family.name for family in FAMILIES if not shown & set(family.sample_names)}
    left_out = {name for name in unseen if name.startswith("openrl_run_")}
    assert unseen - left_out == {
        "openrl_sample_seconds_total", "openrl_redis_up", "openrl_postgres_up", "openrl_snapshot_failed_runs",
        "openrl_check_age_limit_seconds",
    }  # fmt: skip


def test_every_panel_says_what_it_shows_in_a_unit_and_has_room():
    places = set()
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        at = panel["gridPos"]
        own = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not own & places, panel["title"]
        assert at["x"] + at["w"] <= 24
        places |= own


def test_every_alert_says_what_is_wrong_and_what_it_means():
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}


def rows() -> list[str]:
    """Return the page's table of metrics."""
    lines = [
        f"| `{family.name}` | {family.kind} | {', '.join(f'`{label}`' for label in family.labels)} | {family.help} |"
        for family in FAMILIES
    ]
    return ["| metric | type | labels | meaning |", "|---|---|---|---|", *lines]


def test_the_page_lists_every_metric_as_it_is():
    assert "\n".join(rows()) in page(), "\n".join(["the table must be:", *rows()])


RANGES = re.compile(r"\b(rate|irate|increase|delta|deriv)\s*\(\s*(\w+)")


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_rates_are_of_what_grows_and_quantiles_of_buckets(where, expression):
    grows = {name for family in FAMILIES if family.kind != "gauge" for name in family.sample_names}
    for function, name in RANGES.findall(expression):
        assert (name in grows) == (function in ("rate", "irate", "increase")), where
    if "histogram_quantile" in expression:
        assert re.search(r"_bucket\b", expression), where
        assert "le" in names_and_labels(expression)[1], where
