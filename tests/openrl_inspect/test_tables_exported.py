"""CSV and Parquet files of a run's records."""

from __future__ import annotations

import csv
import gzip

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


def test_parquet_has_the_same_types_where_nothing_stands_in_it(inspect, tmp_path):
    long_ago = ("--since", "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z")
    inspect("export", HEALTHY, "--output", str(tmp_path / "all.parquet"))
    inspect("export", HEALTHY, *long_ago, "--output", str(tmp_path / "none.parquet"))
    full, empty = (pyarrow.parquet.read_table(tmp_path / f"{name}.parquet") for name in ("all", "none"))
    assert (full.num_rows, empty.num_rows) == (61, 0)
    assert empty.schema == full.schema
    assert str(empty.schema.field("tokens").type) == "int64"


def test_metrics_are_all_there_are_where_none_is_named(inspect):
    rows = list(csv.DictReader(inspect("export", HEALTHY, "--of", "metrics").stdout.splitlines()))
    assert {row["name"] for row in rows} == {"loss:mean"}


def test_a_file_that_ends_in_gz_is_packed(inspect, tmp_path):
    inspect("export", HEALTHY, "--output", str(tmp_path / "ops.csv.gz"))
    with gzip.open(tmp_path / "ops.csv.gz", "rt") as file:
        assert len(list(csv.DictReader(file))) == 61


def test_a_file_that_cannot_be_written_is_named(inspect, tmp_path):
    told = inspect("export", HEALTHY, "--output", str(tmp_path / "no" / "ops.csv"), status=2).stderr
    assert "ops.csv can't be written: No such file or directory." in told


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
