"""What all lists of recorded things share: history is read-only, and big tables are never counted exactly."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import unquote
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin

COUNTED_ROWS = 10_000  # a list shows at most so many rows; filters reach the others


class CappedPaginator(Paginator):
    """Counts up to 10,000 rows: an exact count of millions takes longer than the page."""

    @cached_property
    def count(self) -> int:
        """Rows there are, 10,000 at most."""
        rows = self.object_list
        return rows.order_by()[:COUNTED_ROWS].count() if isinstance(rows, QuerySet) else len(rows)


class ReadOnlyAdmin(ModelAdmin):
    """A list and pages of what was recorded; nobody adds, changes or deletes it here."""

    paginator = CappedPaginator
    show_full_result_count = False
    list_per_page = 50
    list_before_template = "telemetry_app/freshness.html"
    actions: Any = None
    empty_help = ""  # what to do where there is nothing yet
    empty_template: str | None = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody."""
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the list with how old its data are."""
        from telemetry_app.admin.freshness import history_freshness  # it imports models, which load after this

        return super().changelist_view(request, {**(extra_context or {}), "freshness": history_freshness()})


class PageAdmin(ReadOnlyAdmin):
    """A list whose rows each have a page of their own, in place of a form."""

    page_template: str

    def page_context(self, key: str) -> dict[str, Any]:
        """Return what the page of one row shows.

        Raises:
            Http404: there is no such row.
        """
        raise NotImplementedError

    def form_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any]) -> HttpResponse:
        """Show and take the theme's form of one row, which stands beside its page."""
        return super().changeform_view(request, object_id, "", extra_context)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the page of one row; what is no page of a row is the theme's to refuse."""
        if object_id is None or not self.has_view_permission(request):
            return super().changeform_view(request, object_id, form_url, extra_context)
        key = unquote(object_id)
        context = {
            **self.admin_site.each_context(request),
            "title": key,
            **self.page_context(key),
            "opts": self.opts,
            "media": self.media,
            "list_url": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
            **(extra_context or {}),
        }
        return TemplateResponse(request, self.page_template, context)
