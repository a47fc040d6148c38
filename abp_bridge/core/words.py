"""Small helpers for text: plurals, names that are near a misspelt one, codecs by name."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence

# Of difflib's ratio, by what is done with a name that is this near:
MISSPELT = 0.8  # it is taken for a misspelt one
OFFERED = 0.6  # a person is asked whether it is meant
SIMILAR = 0.5  # it stands before the others: `pdf.export` for `export_pdf`
MAX_LOOKED_AT = 1_000  # names; each costs as much as its letters
MAX_LETTERS = 200  # of what was written: a name is shorter

# Those of documents. Python knows others, of which some take half a minute for a short text
# (punycode), and some are of no text (hex, zlib) or for parts of a name alone (idna).
_DOCUMENTS = re.compile(
    r"(us-)?ascii|utf-?8|utf-?16([lb]e)?|(iso-?)?8859-?\d+|latin-?\d+|windows-\d+"
    r"|cp\d+|koi8-[ru]|mac-?roman|tis-620|big5(-hkscs)?|euc-?(jp|kr)|shift[_-]jis"
    r"|gbk|gb2312|gb18030|iso-2022-(jp|kr)",
    re.ASCII | re.IGNORECASE,
)


def plural(count: object, one: str = "", many: str = "s") -> str:
    """The end of a word for so many, `one` or `many`: `1 rule`, `2 rules`."""
    return one if count == 1 else many


def count_of(count: float, one: str, many: str = "") -> str:
    """Return the number and its noun: `1 rule`, `2 rules`; `many` defaults to `one` and an s."""
    return f"{count} {plural(count, one, many or f'{one}s')}"


def nearest(wanted: str, names: Iterable[str], ratio: float = OFFERED) -> str:
    """The one of `names` that `wanted` is nearest to; empty where none is as near as `ratio`."""
    from difflib import get_close_matches

    return "".join(get_close_matches(wanted[:MAX_LETTERS], names, 1, ratio))


def nearest_first(wanted: str, names: Sequence[str]) -> list[str]:
    """`names`, those first that `wanted` may stand for."""
    from difflib import get_close_matches

    simple = {_simple(name): name for name in reversed(names[:MAX_LOOKED_AT])}
    near = get_close_matches(_simple(wanted[:MAX_LETTERS]), simple, 3, SIMILAR)
    first = [simple[each] for each in near]
    return [*first, *(name for name in names if name not in first)]


def _simple(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".").removeprefix("abp.")


def find_codec(charset: str) -> codecs.CodecInfo | None:
    """The codec of an encoding of documents, as `utf-8` or `Shift_JIS`; None for any other name."""
    if not _DOCUMENTS.fullmatch(charset):
        return None
    try:
        return codecs.lookup(charset)
    except LookupError:
        return None
