"""Seal the URLs and secrets of channels, which stood in the clear."""

from collections.abc import Callable

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import telemetry_app.models.sealed
from telemetry_app.models.sealed import LostText, seal, unseal


def _changed(change: Callable[[str], str]) -> Callable[..., None]:
    def run(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
        channels = apps.get_model("telemetry_app", "AlertChannel").objects.using(schema_editor.connection.alias)
        for channel in channels.order_by("pk"):
            channel.url, channel.secret = change(channel.url), change(channel.secret)
            channel.save(update_fields=["url", "secret"])

    return run


def _opened(token: str) -> str:
    text = unseal(token)
    if isinstance(text, LostText):
        raise RuntimeError("A channel was sealed with another SECRET_KEY: put that into SECRET_KEY_FALLBACKS.")
    return text


class Migration(migrations.Migration):
    dependencies = [("telemetry_app", "0020_open_request_indexes")]

    operations = [
        # What is sealed is longer than its text.
        migrations.AlterField("alertchannel", "secret", models.TextField(default="")),
        migrations.AlterField("alertchannel", "url", models.TextField(default="")),
        migrations.RunPython(_changed(seal), _changed(_opened)),
        migrations.AlterField(
            "alertchannel",
            "secret",
            telemetry_app.models.sealed.SealedCharField(blank=True, default="", editable=False, max_length=100),
        ),
        migrations.AlterField(
            "alertchannel",
            "url",
            telemetry_app.models.sealed.SealedCharField(
                blank=True,
                default="",
                help_text="Of webhooks: where messages are posted to.",
                max_length=2000,
                verbose_name="URL",
            ),
        ),
    ]
