"""How a command prints on a stdout that may lack letters: not every terminal is UTF-8. It touches
stdout alone.
"""

from __future__ import annotations

import json
import sys

_PLAIN = str.maketrans("─│◀▶·…⏎", "-|<>..>")


def print_text(words: str) -> None:
    """Write `words` to stdout, with plainer signs for those that its encoding lacks."""
    encoding = sys.stdout.encoding
    try:
        words.encode(encoding)
    except UnicodeEncodeError:
        words = words.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    _write(words)


def print_json(text: str) -> None:
    """Write JSON to stdout, or lines of it; letters that its encoding lacks are escapes of JSON."""
    _write(encodable_json(text, sys.stdout.encoding))


def encodable_json(text: str, encoding: str) -> str:
    """The same JSON, in letters that an encoding has."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:  # what is no ASCII stands in texts alone
        return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)
    return text


def _write(words: str) -> None:
    sys.stdout.write(words)
    sys.stdout.flush()
