"""How a command prints on a stdout that may lack letters: not every terminal is UTF-8. It touches
stdout alone.
"""

from __future__ import annotations

import json
import sys

from abp_bridge.core.sanitize import reveal_json

_PLAIN = str.maketrans("─│◀▶·…⏎", "-|<>..>")


def print_text(words: str) -> None:
    """Write `words` to stdout, with plainer signs for those that its encoding lacks."""
    encoding = stdout_encoding()
    try:
        words.encode(encoding)
    except UnicodeEncodeError:
        words = words.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    _write(words)


def print_json(text: str) -> None:
    """Write JSON to stdout, or lines of it (`shown_json`)."""
    _write(shown_json(text))


def shown_json(text: str) -> str:
    """The same JSON in letters that stdout has; what would not be seen there is an escape too."""
    text = reveal_json(text)
    try:
        text.encode(stdout_encoding())
    except UnicodeEncodeError:  # what is no ASCII stands in texts alone
        return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)
    return text


def stdout_encoding() -> str:
    """That of stdout; of one that keeps letters, and has none, an encoding that has them all."""
    return sys.stdout.encoding or "utf-8"


def _write(words: str) -> None:
    sys.stdout.write(words)
    sys.stdout.flush()
