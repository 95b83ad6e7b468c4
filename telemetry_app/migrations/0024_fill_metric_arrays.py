"""Move the metrics of step aggregates from JSON into arrays, which PostgreSQL reads and writes several times faster.

Some thousand rows at a time, each in a transaction of its own. One that is stopped begins anew: programs of the version
before may have changed the JSON meanwhile.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

IDS_PER_STATEMENT = 5_000

# A metric was one value, of the newest op, or `[count, min, mean, max, last, last_at]`. Where one has the list, all get
# it, first all counts, then all minima and so on.
_FILL = """
UPDATE telemetry_app_stepaggregate kept SET
    metric_names = ARRAY(SELECT jsonb_object_keys(metrics) ORDER BY 1),
    metric_numbers = CASE
        WHEN jsonb_path_exists(metrics, 'strict $.* ? (@.type() == "array")') THEN ARRAY(
            SELECT CASE
                WHEN jsonb_typeof(value) = 'array' THEN value ->> place
                WHEN place = 0 THEN '1'
                WHEN place = 5 THEN extract(epoch FROM finished_at)::text
                ELSE value #>> '{}'
            END::float8
            FROM jsonb_each(metrics), generate_series(0, 5) AS place ORDER BY place, key
        )
        ELSE ARRAY(SELECT (value #>> '{}')::float8 FROM jsonb_each(metrics) ORDER BY key)
    END
WHERE id BETWEEN %s AND %s AND metrics <> '{}'
"""
_FILL_JSON = """
UPDATE telemetry_app_stepaggregate kept SET metrics = (
    SELECT coalesce(jsonb_object_agg(name, CASE
        WHEN cardinality(metric_numbers) = cardinality(metric_names) THEN to_jsonb(metric_numbers[place])
        ELSE (
            SELECT jsonb_agg(metric_numbers[place + column_number * cardinality(metric_names)] ORDER BY column_number)
            FROM generate_series(0, 5) AS column_number
        )
    END), '{}')
    FROM unnest(metric_names) WITH ORDINALITY AS named (name, place)
)
WHERE id BETWEEN %s AND %s AND metric_names <> '{}'
"""


def _in_parts(statement: str) -> Any:
    def run(apps: Any, schema_editor: Any) -> None:
        rows = apps.get_model("telemetry_app", "StepAggregate").objects
        ends = rows.aggregate(first=models.Min("id"), last=models.Max("id"))
        if ends["first"] is None:
            return
        with schema_editor.connection.cursor() as cursor:
            for first in range(ends["first"], ends["last"] + 1, IDS_PER_STATEMENT):
                cursor.execute(statement, [first, first + IDS_PER_STATEMENT - 1])

    return run


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("telemetry_app", "0023_metric_arrays")]

    operations = [
        migrations.RunPython(_in_parts(_FILL), _in_parts(_FILL_JSON)),
        migrations.RemoveField("stepaggregate", "metrics"),
    ]
