"""All settings of the site. The one place of it that reads the environment; a bad value stops the start by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static

from openrl_site import locations
from openrl_site.bounded_connection import BoundedConnection
from openrl_site.database_urls import django_database
from openrl_site.navigation import navigation
from openrl_site.outside_urls import checked_outside_url, checked_sender, mail_server
from openrl_site.redis_urls import celery_broker_url, checked_redis_url, single_try, with_database

env = environ.Env()


def _whole_number(name: str, *, default: int, minimum: int) -> int:
    """Return an integer setting, or refuse its value by name and rule."""
    raw = env.str(name, default=str(default))
    if not raw.strip().isdecimal() or int(raw) < minimum:
        raise ImproperlyConfigured(f"{name}={raw!r} must be a whole number of at least {minimum}.")
    return int(raw)


def _switch(name: str, *, default: bool) -> bool:
    """Return a yes-or-no setting, or refuse its value by name and rule."""
    raw = env.str(name, default=str(default)).strip().lower()
    if raw not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
        raise ImproperlyConfigured(f"{name}={raw!r} must be true or false.")
    return raw in {"1", "true", "yes", "on"}


BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = locations.var_dir()

# --- Servers --------------------------------------------------------------------------------------------------
DATABASE_URL = locations.database_url()
REDIS_URL = checked_redis_url(locations.redis_url(), name="REDIS_URL")
CONNECT_TIMEOUT_SECONDS = 1
REDIS_TIMEOUT_SECONDS = 2
REDIS_CONNECTIONS = 100  # of one process to each of Redis's databases
STATEMENT_TIMEOUT_MILLISECONDS = _whole_number("STATEMENT_TIMEOUT_MILLISECONDS", default=15_000, minimum=100)
LOCK_TIMEOUT_MILLISECONDS = 2_000  # that the web server waits for a lock, which others hold for as long as they like

_database = django_database(DATABASE_URL, name="DATABASE_URL")
_database["OPTIONS"] = {
    **_database["OPTIONS"],
    "connect_timeout": CONNECT_TIMEOUT_SECONDS + 1,
    "options": f"-c statement_timeout={STATEMENT_TIMEOUT_MILLISECONDS} -c idle_in_transaction_session_timeout=60000",
}
_database["CONN_MAX_AGE"] = 0  # under ASGI persistent connections leak
# A new connection costs an answer more than its queries do. The web server sets a size; tasks keep one of their own.
DATABASE_POOL_CONNECTIONS = _whole_number("DATABASE_POOL_CONNECTIONS", default=0, minimum=0)
if DATABASE_POOL_CONNECTIONS:
    # Whoever waits longer is told that PostgreSQL is out: so are all, and soon, while it is.
    _database["OPTIONS"]["pool"] = {
        "connection_class": BoundedConnection,
        "min_size": 1,
        "max_size": DATABASE_POOL_CONNECTIONS,
        "timeout": 0.3,
    }
    # People wait for these answers: whoever locks a table is named soon. A task has time.
    _database["OPTIONS"]["options"] += f" -c lock_timeout={LOCK_TIMEOUT_MILLISECONDS}"
    _database["CONN_HEALTH_CHECKS"] = True  # one that PostgreSQL's restart ended is replaced, and nobody sees it
DATABASES = {"default": _database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"


def _redis_cache(url: str, **extra: Any) -> dict[str, Any]:
    """Return a django-redis connection whose calls end in time: redis-py's own defaults wait for minutes."""
    return {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": url,
        "OPTIONS": {
            "SOCKET_CONNECT_TIMEOUT": CONNECT_TIMEOUT_SECONDS,
            "SOCKET_TIMEOUT": REDIS_TIMEOUT_SECONDS,
            # Whoever finds all in use waits for one to come free, as long as for an answer.
            "CONNECTION_POOL_CLASS": "redis.BlockingConnectionPool",
            "CONNECTION_POOL_KWARGS": {
                "max_connections": REDIS_CONNECTIONS,
                "timeout": REDIS_TIMEOUT_SECONDS,
                "retry": single_try(),
            },
            **extra,
        },
    }


CACHES = {
    "default": _redis_cache(env.str("CACHE_URL", default=with_database(REDIS_URL, 2)), IGNORE_EXCEPTIONS=True),
    "telemetry": _redis_cache(REDIS_URL),
}

# --- Celery ---------------------------------------------------------------------------------------------------
CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default=celery_broker_url(with_database(REDIS_URL, 1)))
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Must exceed the longest task (CELERY_TASK_TIME_LIMIT): a task that is still running would run twice.
    "visibility_timeout": 60,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "socket_connect_timeout": CONNECT_TIMEOUT_SECONDS,
    "socket_keepalive": True,
    "health_check_interval": 10,
}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SOFT_TIME_LIMIT = 40  # seconds; tasks set shorter ones of their own
CELERY_TASK_TIME_LIMIT = 45
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 5

# --- Telemetry ------------------------------------------------------------------------------------------------
TELEMETRY_SNAPSHOT_INTERVAL_SECONDS = _whole_number("TELEMETRY_SNAPSHOT_INTERVAL_SECONDS", default=10, minimum=1)
TELEMETRY_RETENTION_DAYS = _whole_number("TELEMETRY_RETENTION_DAYS", default=14, minimum=1)
TELEMETRY_REDIS_IDLE_DAYS = _whole_number("TELEMETRY_REDIS_IDLE_DAYS", default=7, minimum=0)  # 0: never trimmed
# Past these ages the site says that it is not ready. 0: five intervals of the schedule, at least two minutes.
TELEMETRY_SNAPSHOT_AGE_LIMIT_SECONDS = _whole_number("TELEMETRY_SNAPSHOT_AGE_LIMIT_SECONDS", default=0, minimum=0)
TELEMETRY_RETENTION_AGE_LIMIT_SECONDS = _whole_number(
    "TELEMETRY_RETENTION_AGE_LIMIT_SECONDS", default=2 * 86_400, minimum=1
)

# --- Alerts ---------------------------------------------------------------------------------------------------
TELEMETRY_SITE_URL = checked_outside_url(env.str("TELEMETRY_SITE_URL", default=""), name="TELEMETRY_SITE_URL")
# Whether webhooks and heartbeats may reach private addresses, such as those of this machine and its network.
TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = _switch("TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES", default=False)
TELEMETRY_HEARTBEAT_URL = checked_outside_url(
    env.str("TELEMETRY_HEARTBEAT_URL", default=""), name="TELEMETRY_HEARTBEAT_URL"
)
_mail = mail_server(env.str("EMAIL_URL", default=""), name="EMAIL_URL")
EMAIL_HOST, EMAIL_PORT = _mail.host, _mail.port  # no host: no e-mail is sent
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail.user, _mail.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.starts_tls, _mail.is_tls
EMAIL_TIMEOUT = 10  # seconds, for each word with the mail server
DEFAULT_FROM_EMAIL = checked_sender(env.str("EMAIL_FROM", default=""), is_needed=bool(EMAIL_HOST), name="EMAIL_FROM")

# --- Prometheus -----------------------------------------------------------------------------------------------
TELEMETRY_METRICS_RUNS = _whole_number("TELEMETRY_METRICS_RUNS", default=0, minimum=0)  # newest runs, by their id
# A folder in which several web processes share what they count of requests. Prometheus's library reads it too.
PROMETHEUS_MULTIPROC_DIR = env.str("PROMETHEUS_MULTIPROC_DIR", default=None)
if PROMETHEUS_MULTIPROC_DIR is not None and not Path(PROMETHEUS_MULTIPROC_DIR).is_dir():
    raise ImproperlyConfigured(f"PROMETHEUS_MULTIPROC_DIR={PROMETHEUS_MULTIPROC_DIR!r} must name a folder that exists.")

# --- Django ---------------------------------------------------------------------------------------------------
DEBUG = _switch("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default="") or locations.kept_secret_key()
# Keys of before: what they signed and sealed is still taken, and nothing new is made with them.
SECRET_KEY_FALLBACKS = env.list("SECRET_KEY_FALLBACKS", default=[])
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=list(locations.LOCAL_HOSTS))
ROOT_URLCONF = "openrl_site.urls"
ASGI_APPLICATION = "openrl_site.asgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
APPEND_SLASH = True

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_beat",
    "telemetry_app",
    "openrl_site",
]

MIDDLEWARE = [
    "openrl_site.request_counts.request_counts",
    "openrl_site.middleware.errors_in_json",
    "django.middleware.security.SecurityMiddleware",
    "openrl_site.content_security.content_security_policy",
    "openrl_site.middleware.size_limits",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "openrl_site.middleware.sign_in_waits",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "openrl_site" / "templates"],  # before the theme's
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"

STATIC_URL = "static/"
STATICFILES_DIRS = [("uplot", locations.plot_library())]
STATIC_ROOT = env.str("STATIC_ROOT", default=None)  # for a deployment that runs `collectstatic`
WHITENOISE_USE_FINDERS = (
    STATIC_ROOT is None
)  # else straight from the applications, which needs no step before the start

# --- Security -------------------------------------------------------------------------------------------------
BEHIND_TLS = _switch("BEHIND_TLS", default=False)  # set where a proxy ends TLS in front of the site
SECURE_SSL_REDIRECT = BEHIND_TLS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = BEHIND_TLS
SECURE_HSTS_PRELOAD = BEHIND_TLS
SESSION_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_SECURE = BEHIND_TLS
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"  # a link from a chat or a ticket opens the page it names
CSRF_COOKIE_SAMESITE = "Strict"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
WHITENOISE_ALLOW_ALL_ORIGINS = False  # no other site reads anything of this one, its files included
if not BEHIND_TLS:  # what these ask for would lock everyone out without TLS; openrl_site.W001 watches who can come in
    SILENCED_SYSTEM_CHECKS = ["security.W004", "security.W008", "security.W012", "security.W016"]

# Requests to the API in a minute; 0 is without limit.
API_TOKEN_REQUESTS_PER_MINUTE = _whole_number("API_TOKEN_REQUESTS_PER_MINUTE", default=6_000, minimum=0)
API_SESSION_REQUESTS_PER_MINUTE = _whole_number("API_SESSION_REQUESTS_PER_MINUTE", default=1_200, minimum=0)

# --- REST framework -------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "telemetry_app.api.authentication.BearerOrTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["telemetry_app.api.permissions.MayRead"],
    "DEFAULT_THROTTLE_CLASSES": ["telemetry_app.api.throttles.RequestsPerMinute"],
    "DEFAULT_RENDERER_CLASSES": ["telemetry_app.api.renderers.CompactJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "EXCEPTION_HANDLER": "telemetry_app.api.errors.exception_handler",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "URL_FORMAT_OVERRIDE": None,  # the format is asked for by `Accept`; `?format=` is an unknown parameter
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}

SPECTACULAR_SETTINGS = {
    "ENABLE_DJANGO_DEPLOY_CHECK": False,  # `check --deploy` speaks of the deployment; tests watch the schema
    "TITLE": "OpenRL telemetry: inspection API",
    "DESCRIPTION": "What trainers, samplers and their clients do and did: runs, steps, ops, failures, workers. "
    "Read-only. Each answer says in `coverage` what it could not see, and in `as_of` which instant it speaks of.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": "/api/v1/inspect",
    "SWAGGER_UI_DIST": "SIDECAR",  # the page asks no other host
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "RunState": "telemetry_app.models.RunState",
        "WorkerEventKind": "telemetry_app.models.WorkerEvent.Event",
        "Health": [(word, word) for word in ("alive", "late", "lost", "exited")],
        "Source": [(word, word) for word in ("live", "history", "both")],
        "HistorySource": [("history", "history")],
        "ErrorKind": [(word, word) for word in ("validation_error", "client_error", "server_error")],
        "OperationStatus": [(word, word) for word in ("succeeded", "failed", "cancelled")],
        "FailureKind": [(word, word) for word in ("operation", "sample")],
    },
    "PREPROCESSING_HOOKS": ["telemetry_app.api.schema.only_the_api"],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "telemetry_app.api.schema.with_common_parts",
    ],
}


# --- Admin theme ----------------------------------------------------------------------------------------------
UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "OpenRL telemetry",
    "SITE_HEADER": "OpenRL telemetry",
    "SITE_SUBHEADER": "Trainers and samplers at work",
    "SITE_SYMBOL": "monitoring",
    "SITE_URL": None,  # there is no other site that a link could lead back to
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("telemetry_app/icon.svg")},
    ],
    "LOGIN": {"form": "openrl_site.sign_in.SignInForm"},
    "STYLES": [lambda request: static("telemetry_app/pages.css")],
    "SCRIPTS": [
        lambda request: static("telemetry_app/scheme.js"),
        lambda request: static("telemetry_app/icon_names.js"),
    ],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "telemetry_app.admin.dashboard.dashboard",
    "COLORS": {
        # The accent: a blue that keeps its contrast on white and on the dark ground.
        "primary": {
            "50": "#eff6ff",
            "100": "#dbeafe",
            "200": "#bfdbfe",
            "300": "#93c5fd",
            "400": "#60a5fa",
            "500": "#3b82f6",
            "600": "#2563eb",
            "700": "#1d4ed8",
            "800": "#1e40af",
            "900": "#1e3a8a",
            "950": "#172554",
        },
    },
    "SIDEBAR": {
        "show_search": False,
        "show_all_applications": False,
        "navigation": navigation(),
    },
}

# --- Logs -----------------------------------------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {name: {"level": "WARNING"} for name in ("mcp", "httpx2")},  # else several lines for each of an agent's
}
