"""Keep the digests of the tokens of `rest_framework.authtoken`, which go on to work, and remove that application."""

from __future__ import annotations

import hashlib
from typing import Any

from django.db import migrations
from django.db.migrations.recorder import MigrationRecorder

OLD_APPLICATION = "authtoken"
OLD_TABLE = "authtoken_token"
PREFIX_LENGTH = 8  # 32 of an old token's 160 bits


def take_over(apps: Any, schema_editor: Any) -> None:
    """Keep the digest of each old token, and remove where all could be read."""
    connection = schema_editor.connection
    if OLD_TABLE not in connection.introspection.table_names():
        return
    tokens = apps.get_model("telemetry_app", "ApiToken").objects
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT key, user_id, created FROM {OLD_TABLE}")
        for key, user_id, created_at in cursor.fetchall():
            digest, prefix = hashlib.sha256(key.encode()).hexdigest(), key[:PREFIX_LENGTH]
            token = tokens.create(digest=digest, prefix=prefix, user_id=user_id, name="first token")
            tokens.filter(pk=token.pk).update(created_at=created_at)
        cursor.execute(f"DROP TABLE {OLD_TABLE}")
    apps.get_model("contenttypes", "ContentType").objects.filter(app_label=OLD_APPLICATION).delete()
    MigrationRecorder(connection).migration_qs.filter(app=OLD_APPLICATION).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("telemetry_app", "0007_api_tokens"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("admin", "0003_logentry_add_action_flag_choices"),
    ]

    # Backwards they can't come back: nothing tells them any more.
    operations = [migrations.RunPython(take_over, migrations.RunPython.noop)]
