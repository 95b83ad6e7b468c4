"""Keep when alerts were last noted and sent: a site that tells nobody is not well."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("telemetry_app", "0021_seal_channels"),
    ]

    operations = [
        migrations.AddField(
            model_name="heartbeatping",
            name="alerts_at",
            field=models.DateTimeField(help_text="When alerts were last noted and sent to the end.", null=True),
        ),
    ]
