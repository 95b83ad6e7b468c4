"""Settings as another process reads them from its environment."""

import json
import subprocess
import sys

import pytest

from tests.support.running_site import ROOT, clean_environment

PROGRAM = (
    "import json, sys\nfrom django.core.exceptions import ImproperlyConfigured\n"
    "try:\n    from openrl_site import settings\nexcept ImproperlyConfigured as error:\n    sys.exit(str(error))\n"
    "print(json.dumps({name: value for name, value in vars(settings).items()"
    " if name.isupper() and isinstance(value, (str, int, bool, list))}, default=str))\n"
)


def _read(folder, **environment):
    servers = {"DATABASE_URL": "postgresql://db/telemetry", "REDIS_URL": "redis://r:6379/0"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=clean_environment(folder, **(servers | environment)),
        capture_output=True,
        text=True,
    )


def test_defaults_share_one_redis_by_database_number(tmp_path):
    settings = json.loads(_read(tmp_path).stdout)
    assert settings["REDIS_URL"] == "redis://r:6379/0"
    assert settings["CELERY_BROKER_URL"] == "redis://r:6379/1"
    assert settings["DEBUG"] is False


def test_secret_key_is_made_once_and_kept_private(tmp_path):
    first, second = (json.loads(_read(tmp_path).stdout)["SECRET_KEY"] for _ in range(2))
    assert first == second
    assert len(first) >= 50
    assert (tmp_path / "secret_key").stat().st_mode & 0o077 == 0


def test_tls_in_front_turns_every_protection_on(tmp_path):
    settings = json.loads(_read(tmp_path, BEHIND_TLS="true").stdout)
    assert settings["SECURE_SSL_REDIRECT"]
    assert settings["SESSION_COOKIE_SECURE"]
    assert settings["CSRF_COOKIE_SECURE"]
    assert settings["SECURE_HSTS_SECONDS"] >= 31_536_000


def test_with_tls_in_front_the_check_of_a_deployment_has_nothing_to_say(tmp_path):
    program = (
        "import django\nfrom django.core.management import call_command\ndjango.setup()\n"
        "call_command('check', deploy=True, fail_level='DEBUG')"
    )
    environment = clean_environment(
        tmp_path, DATABASE_URL="postgresql://db/telemetry", REDIS_URL="redis://r:6379/0", BEHIND_TLS="true",
        ALLOWED_HOSTS="telemetry.example", DJANGO_SETTINGS_MODULE="openrl_site.settings",
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (
        0, "System check identified no issues (0 silenced).\n", "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("TELEMETRY_SNAPSHOT_INTERVAL_SECONDS", "0", "must be a whole number of at least 1"),
        ("TELEMETRY_RETENTION_DAYS", "1.5", "must be a whole number of at least 1"),
        ("API_TOKEN_REQUESTS_PER_MINUTE", "-1", "must be a whole number of at least 0"),
        ("DEBUG", "perhaps", "must be true or false"),
        ("BEHIND_TLS", "tls", "must be true or false"),
        ("DATABASE_URL", "mysql://h/d", "must start with postgres:// or postgresql://"),
        ("REDIS_URL", "memcached://h", "must start with redis://, rediss:// or unix://"),
    ],
)
def test_value_that_does_not_parse_is_refused_by_name_and_rule(tmp_path, name, value, rule):
    done = _read(tmp_path, **{name: value})
    assert done.returncode == 1
    assert done.stderr == f"{name}={value!r} {rule}.\n"


def test_the_web_server_keeps_connections_and_says_soon_that_postgres_is_out():
    code = (
        "import openrl_site.asgi, django.db; from django.conf import settings; "
        "options = settings.DATABASES['default']['OPTIONS']['pool']; "
        "print(options['max_size'], options['timeout'] < 1, options['connection_class'].__name__, "
        "settings.DATABASES['default']['CONN_HEALTH_CHECKS'], "
        "django.db.connection.pool is not None, "
        "'lock_timeout=2000' in settings.DATABASES['default']['OPTIONS']['options'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["32", "True", "BoundedConnection", "True", "True", "True"], done.stderr
