"""Give step aggregates arrays for their metrics; `0024` fills them."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("telemetry_app", "0022_alerts_at")]

    operations = [
        migrations.AddField(
            "stepaggregate",
            "metric_names",
            django.contrib.postgres.fields.ArrayField(models.CharField(max_length=512), default=list, size=None),
        ),
        migrations.AddField(
            "stepaggregate",
            "metric_numbers",
            django.contrib.postgres.fields.ArrayField(
                models.FloatField(),
                default=list,
                help_text=(
                    "One value of each metric, or all counts, minima, means, maxima, newest values and their instants."
                ),
                size=None,
            ),
        ),
    ]
