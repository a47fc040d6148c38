"""Which encodings are those of documents."""

from __future__ import annotations

import pytest

from abp_bridge.core.words import find_codec


@pytest.mark.parametrize(
    ("charset", "codec"),
    [
        ("utf-8", "utf-8"),
        ("UTF-16LE", "utf-16-le"),
        ("Shift_JIS", "shift_jis"),
        ("windows-1252", "cp1252"),
        ("cp1", ""),
        ("hex", ""),
        ("idna", ""),
        ("punycode", ""),
        ("utf-8\n", ""),
        ("", ""),
    ],
)
def test_a_documents_encoding_has_a_codec_and_no_other_has(charset: str, codec: str) -> None:
    found = find_codec(charset)
    assert (found.name if found else "") == codec
