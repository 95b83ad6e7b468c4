"""JSON in and out, with msgspec and without it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers_client import codec
from workers_client.codec import decode_object, encode_object
from workers_client.exceptions import MalformedRecordError

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), PLAIN, max_size=5)


@given(OBJECTS)
def test_decoding_returns_what_was_encoded(fields):
    assert decode_object(encode_object(fields)) == fields


@given(OBJECTS)
def test_the_standard_library_writes_what_msgspec_reads_and_the_reverse(fields):
    assert decode_object(codec._encode_with_json(fields)) == fields
    assert json.loads(encode_object(fields)) == fields


@given(OBJECTS)
def test_the_standard_library_alone_reads_the_same(fields):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_decode", codec._decode_with_json)
        assert decode_object(encode_object(fields)) == fields


def test_encoding_is_compact_utf8():
    assert encode_object({"run_id": "läuft", "n": [1, 2]}) == '{"run_id":"läuft","n":[1,2]}'.encode()


@pytest.mark.parametrize("raw", [b"[]", b"1", b'"text"', b"null", b"true"])
def test_json_of_another_type_is_not_an_object(raw):
    with pytest.raises(MalformedRecordError) as caught:
        decode_object(raw)
    assert caught.value.reason == "not_an_object"


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b'{"a":', b"\xff\xfe", b"\x80\x04\x95", b"{'a': 1}", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5_000],
    ids=["empty", "cut", "cut-value", "not-utf8", "pickle", "single-quotes", "deep-list", "deep-object", "5000-digits"],
)
def test_what_is_not_json_is_named_so(raw):
    with pytest.raises(MalformedRecordError) as caught:
        decode_object(raw)
    assert caught.value.reason == "not_json"


def test_bare_nan_and_infinity_of_other_writers_are_read():
    fields = decode_object(b'{"a":NaN,"b":Infinity,"c":-Infinity}')
    assert math.isnan(fields["a"])
    assert (fields["b"], fields["c"]) == (math.inf, -math.inf)


def test_the_error_never_repeats_the_content():
    with pytest.raises(MalformedRecordError) as caught:
        decode_object(b'{"password": "s3cret"')
    assert "s3cret" not in str(caught.value)


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_no_bytes_crash_decoding(raw):
    reason = ""
    try:
        fields = decode_object(raw)
    except MalformedRecordError as error:
        fields, reason = None, error.reason
    assert isinstance(fields, dict) != (reason in {"not_json", "not_an_object"})
