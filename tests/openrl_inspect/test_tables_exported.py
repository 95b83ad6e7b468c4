"""CSV and Parquet files of a run's records."""

from __future__ import annotations

import csv

import pyarrow.parquet
import pytest

from tests.openrl_inspect.conftest import HEALTHY


def test_csv_holds_every_op_and_parquet_the_same_with_types(inspect, tmp_path):
    inspect("export", HEALTHY, "--output", str(tmp_path / "ops.csv"))
    inspect("export", HEALTHY, "--output", str(tmp_path / "ops.parquet"))
    with (tmp_path / "ops.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 61
    table = pyarrow.parquet.read_table(tmp_path / "ops.parquet")
    assert table.column("id").to_pylist() == [row["id"] for row in rows]
    assert str(table.schema.field("at").type) == "timestamp[ms, tz=UTC]"
    assert table.column("elapsed_seconds").null_count == 1  # of the one that failed


def test_steps_and_metrics_are_files_too(inspect, tmp_path):
    inspect("export", HEALTHY, "--of", "steps", "--last", "5", "--output", str(tmp_path / "steps.parquet"))
    table = pyarrow.parquet.read_table(tmp_path / "steps.parquet")
    assert table.column("step").unique().to_pylist() == [25, 26, 27, 28, 29]
    text = inspect("export", HEALTHY, "--of", "metrics", "--names", "loss:mean").stdout
    assert text.splitlines()[0].startswith("operation,name,step")


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("--of", "failures", "--since", "1h"), "--since does not go with csv of failures"),
        (("--since", "yesterday"), "must be a span such as 15m"),
        (("--since", "2026-11-30T12:00:00"), "an instant with its offset"),
    ],
)
def test_options_that_mean_nothing_are_refused(inspect, arguments, rule):
    assert rule in inspect("export", HEALTHY, *arguments, status=2).stderr
