"""The navigation of the admin: which pages there are, in which order, and who sees which."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse, reverse_lazy

# Title, icon, name of the page, permission without which nobody can open it.
_SECTIONS: dict[str, list[tuple[str, str, str, str]]] = {
    "Telemetry": [
        ("Fleet", "monitoring", "index", ""),
        ("Runs", "model_training", "telemetry_app_run_changelist", "telemetry_app.view_run"),
        ("Requests", "pending_actions", "telemetry_requests", "telemetry_app.view_run"),
        ("Failures", "error", "telemetry_failures", "telemetry_app.view_failedoperation"),
        ("Incidents", "warning", "telemetry_app_incident_changelist", "telemetry_app.view_incident"),
        ("GPUs", "developer_board", "telemetry_gpus", "telemetry_app.view_run"),
        ("Workers", "memory", "telemetry_app_worker_changelist", "telemetry_app.view_worker"),
    ],
    "Alerts": [
        ("Rules", "notifications", "telemetry_app_alertrule_changelist", "telemetry_app.view_alertrule"),
        ("Channels", "campaign", "telemetry_app_alertchannel_changelist", "telemetry_app.view_alertchannel"),
        ("Mutes", "notifications_off", "telemetry_app_alertmute_changelist", "telemetry_app.view_alertmute"),
        ("Deliveries", "outgoing_mail", "telemetry_app_alertdelivery_changelist", "telemetry_app.view_alertdelivery"),
    ],
    "Upkeep": [
        ("Retention and snapshots", "auto_delete", "telemetry_upkeep", "telemetry_app.view_execution"),
        (
            "Periodic tasks",
            "schedule",
            "django_celery_beat_periodictask_changelist",
            "django_celery_beat.view_periodictask",
        ),
        ("API tokens", "key", "telemetry_app_apitoken_changelist", "telemetry_app.view_apitoken"),
        ("Users", "person", "auth_user_changelist", "auth.view_user"),
        ("Groups", "group", "auth_group_changelist", "auth.view_group"),
    ],
}
# Pages that stand in no section, by the one that leads to them.
_BELOW = {
    "telemetry_app_failedoperation_changelist": "telemetry_failures",
    "telemetry_app_failedsample_changelist": "telemetry_failures",
    "telemetry_gpu": "telemetry_gpus",
    "telemetry_app_execution_changelist": "telemetry_upkeep",
    "telemetry_app_retentionpolicy_changelist": "telemetry_upkeep",
}


def navigation() -> list[dict[str, Any]]:
    """Return the sections as the theme's settings want them."""
    items = {title: [_item(*page) for page in pages] for title, pages in _SECTIONS.items()}
    items["Telemetry"].append({"title": "API", "icon": "api", "link": reverse_lazy("api-docs")})
    return [{"title": title, "items": pages} for title, pages in items.items()]


def _item(title: str, icon: str, name: str, permission: str) -> dict[str, Any]:
    item: dict[str, Any] = {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{name}"),
        "active": lambda request: _page_of(request) == name,
    }
    if permission:
        item["permission"] = lambda request: request.user.has_perm(permission)
    return item


def _page_of(request: HttpRequest) -> str:
    """Return the page that a request belongs to: the one whose address is the longest beginning of its own."""
    names = [name for pages in _SECTIONS.values() for _, _, name, _ in pages]
    addresses = {reverse(f"admin:{name}"): name for name in [*names, *_BELOW]}
    found = max((address for address in addresses if request.path.startswith(address)), key=len, default="")
    name = addresses.get(found, "")
    is_elsewhere = name == "index" and request.path != found
    return "" if is_elsewhere else _BELOW.get(name, name)
