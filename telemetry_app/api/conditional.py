"""Answers that a caller has already, and compressed ones: `ETag`, `If-None-Match`, `Accept-Encoding`.

A tag names what is in an answer but for the instant it speaks of. It is weak: compressed or not, the content is the
same. Of a run's records it has a second part for those who ask with a tag, which names the version of the records: the
next time nothing needs to be read. Who never sends a tag pays nothing for that.

Answers hold no secrets that a caller's own text could be compressed together with (BREACH): no CSRF tokens, no
cookies, no API tokens.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

from telemetry_app.inspection.run_version import run_version

SMALLEST_COMPRESSED = 1_000  # bytes: below, compression saves no packet
LEVEL = 5
_VARY = ("Accept", "Accept-Encoding", "Authorization", "Cookie")

View = Callable[[Any, Request, str], HttpResponseBase]


def unless_known(view: View) -> View:
    """Let a view of a part of a run answer 304 without building the answer where the caller has its newest version."""

    @wraps(view)
    def answer(self: Any, request: Request, run: str) -> HttpResponseBase:
        is_table = request.accepted_renderer.format != "json"  # it is streamed, so its content has no tag
        known = _known_tags(request)
        version = run_version(run) if known or is_table else None
        if version is None:  # nobody asked, one of the sources is out, or there is no such run
            return view(self, request, run)
        mark = _digest(f"{request.get_full_path()}\n{request.accepted_renderer.format}\n{version}".encode())
        same = [tag for tag in known if _parts(tag)[1] == mark]
        response: HttpResponseBase = Response(status=304) if same else view(self, request, run)
        if same or (is_table and response.status_code == 200):
            response.headers["ETag"] = same[0] if same else _tag("", mark)
            _never_share(response)
        elif response.status_code == 200:
            response.headers["ETag"] = _tag("", mark)  # to which its content comes when it is encoded
        return response

    return answer


def finish(content: bytes, data: Any, request: HttpRequest | Request | None, response: HttpResponseBase) -> bytes:
    """Return what is to be sent of an encoded answer: nothing where the caller has it, else perhaps compressed."""
    if request is None or request.method not in ("GET", "HEAD") or response.status_code != 200:
        return content
    _never_share(response)
    digest = _digest(_but_for_its_instant(content, data))
    response.headers["ETag"] = _tag(digest, _parts(response.headers.get("ETag", ""))[1])
    known = _known_tags(request)
    if "*" in known or any(_parts(tag)[0] == digest for tag in known):
        response.status_code = 304
        return b""
    if len(content) < SMALLEST_COMPRESSED or not takes_gzip(request):
        return content
    response.headers["Content-Encoding"] = "gzip"
    return gzip.compress(content, LEVEL, mtime=0)


def takes_gzip(request: HttpRequest | Request) -> bool:
    """Return whether the caller takes compressed answers."""
    for part in request.META.get("HTTP_ACCEPT_ENCODING", "").lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def compressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Compress a stream piece by piece."""
    packer = zlib.compressobj(LEVEL, wbits=zlib.MAX_WBITS | 16)
    for chunk in chunks:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def _tag(content: str, version: str) -> str:
    return f'W/"{content}{"-" if version else ""}{version}"'


def _parts(tag: str) -> tuple[str, str]:
    """Return what a tag says of the content and of the version, each empty where it says nothing."""
    content, _, version = tag.removeprefix("W/").strip('"').partition("-")
    return content, version


def _known_tags(request: HttpRequest | Request) -> list[str]:
    return parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))


def _but_for_its_instant(content: bytes, data: Any) -> bytes:
    as_of = data.get("as_of") if isinstance(data, Mapping) else None
    return content.replace(f'"as_of":"{as_of}"'.encode(), b"", 1) if as_of else content


def _never_share(response: HttpResponseBase) -> None:
    patch_cache_control(response, private=True, no_cache=True)  # kept, but asked about each time
    patch_vary_headers(response, _VARY)
