"""Which codec reads text in an encoding that somebody else names. Pure."""

from __future__ import annotations

import codecs
import re

# Those of documents. Python knows others, of which some take half a minute for a short text
# (punycode), and some are of no text (hex, zlib) or for parts of a name alone (idna).
_DOCUMENTS = re.compile(
    r"(us-)?ascii|utf-?8|utf-?16([lb]e)?|(iso-?)?8859-?\d+|latin-?\d+|windows-\d+"
    r"|cp\d+|koi8-[ru]|mac-?roman|tis-620|big5(-hkscs)?|euc-?(jp|kr)|shift[_-]jis"
    r"|gbk|gb2312|gb18030|iso-2022-(jp|kr)",
    re.ASCII | re.IGNORECASE,
)


def find_codec(charset: str) -> codecs.CodecInfo | None:
    """The codec of an encoding of documents, as `utf-8` or `Shift_JIS`; None for any other name."""
    if not _DOCUMENTS.fullmatch(charset):
        return None
    try:
        return codecs.lookup(charset)
    except LookupError:
        return None
