"""Which encodings are those of documents."""

from __future__ import annotations

import pytest

from abp_bridge.core.words import find_codec

CODECS = {"utf-8": "utf-8", "UTF-16LE": "utf-16-le", "Shift_JIS": "shift_jis"}
CODECS["windows-1252"] = "cp1252"


@pytest.mark.parametrize("charset", [*CODECS, "cp1", "hex", "idna", "punycode", "utf-8\n", ""])
def test_charset_of_a_document_has_a_codec(charset: str) -> None:
    found = find_codec(charset)
    assert (found.name if found else None) == CODECS.get(charset)
