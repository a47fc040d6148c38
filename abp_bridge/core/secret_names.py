"""Which words speak of a secret: in what is asked, and in the names of what holds one.

One table for both. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PASSWORDS = (
    r"\w*passwords?|passwd|pwd|passphrases?|passcodes?|passkeys?|(?:client )?secrets?|credentials?"
)
_KEYS = (
    r"(?:api|access|private|secret|signing|encryption|ssh|master|consumer|subscription|shared|service|licen[cs]e|auth|hmac|storage|account|webhook)"
    r" ?keys?"
)
# But a design's, a progress's, the next page's; and those that a model counts.
_NO_TOKENS = ("design", "progress", "page", "max", "many", "of", "input", "output", "more")
_TOKENS = "".join(rf"(?<!{word} )" for word in _NO_TOKENS) + r"\w*(?<!progress)tokens?"
_CODES = (
    r"pins?|pin ?codes?|otp|cvv2?|cvc|one ?time"
    r" (?:code|password)s?|(?:verification|security|access|2fa|mfa|totp) ?(?:code|key|pin)s?"
    r"|credit ?cards?|card ?numbers?|social security|ssn|iban|jwt"
)
_PHRASES = (
    rf"\b(?:{_PASSWORDS}|(?:seed|recovery|backup)"
    rf" (?:phrase|word|code|key)s?|{_KEYS}|{_TOKENS}|{_CODES})\b"
)
_AFTER = r"(?: (?:confirmation|confirm|again|repeat(?:ed)?|hash|value|\d{1,3}))?"

# What a model counts, but for `accessTokens` and their like; and where the next page begins.
_HELD = "".join(
    rf"(?<!{word} )" for word in ("access", "auth", "bearer", "refresh", "api", "session", "id")
)
_COUNTED = re.compile(
    rf"{_HELD}\btokens\Z|(?:max|min|continuation|cancellation|cursor|next) \w*\s?token\Z"
)
_WORDING = re.compile(_PHRASES, re.IGNORECASE)
_HOLDS = re.compile(rf"(?:{_PHRASES}|\b(?:authorization|(?:set )?cookies?|pass)){_AFTER}\Z")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_KEYS?\Z")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BORDERS = re.compile(r"[_\W]+")
LONGEST_NAME = 200  # characters, from the end, that are searched: time grows with the length


def asks_for_secret(words: str) -> bool:
    """Whether somebody who is asked this is asked for a secret."""
    return _WORDING.search(_split(words)) is not None


@lru_cache(maxsize=4_096)
def holds_secret(name: str) -> bool:
    """Whether what stands under a name is a secret: `apiKey`, `X-Vault-Token`, `login[password]`,
    `PGPASSWORD`.
    """
    words = _BORDERS.sub(" ", _split(name[-LONGEST_NAME:])).strip().lower()
    return (_HOLDS.search(words) is not None and _COUNTED.search(words) is None) or _VARIABLE.match(
        name
    ) is not None


def _split(words: str) -> str:
    return _CAMEL.sub(" ", words).replace("_", " ").replace("-", " ")
