"""Metrics as Prometheus reads them: values by name and labels."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from telemetry_app.prometheus.scrape import Scrape
from tests.support.records import START


class Metrics:
    """The samples of one scrape."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = list(families)
        samples = [sample for family in self.families for sample in family.samples]
        self.values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
        assert len(self.values) == len(samples), "a sample is told twice"

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value with exactly these labels; None where there is none."""
        return self.values.get((name, frozenset(labels.items())))

    def of(self, name: str, label: str) -> dict[str, float]:
        """Return the values that are not 0 by one label; where others differ, the last one."""
        return {dict(labels)[label]: value for (of, labels), value in self.values.items() if of == name and value}

    @property
    def names(self) -> set[str]:
        """The names of all samples."""
        return {name for name, _ in self.values}


def parsed(text: str) -> Metrics:
    """Return what stands in the answer to a scrape."""
    return Metrics(text_string_to_metric_families(text))


def scraped(*, after_seconds: float = 10.0) -> Metrics:
    """Scrape at an instant behind `START`."""
    return Metrics(Scrape(now=datetime.fromtimestamp(START + after_seconds, UTC)).collect())
