"""What is secret, by schema, by the app's word, by name and by the question's words.

Names and words are tables by language, compared without accents and case.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from operator import methodcaller

from abp_bridge.core.schema import Schema, parts

_PASSWORDS = r"\w*passwords?|passwd|pswd|pwd|pw|passphrases?|passcodes?|pass ?keys?"
_KEYS = (
    r"(?:api|access|private|secret|signing|encryption|ssh|master|consumer|subscription|shared"
    r"|service|licen[cs]e|auth|hmac|storage|account|webhook)"
    r" ?keys?"
)
# But a design's, a progress's, the next page's; and those that a model counts.
_NO_TOKENS = ("design", "progress", "page", "max", "many", "of", "input", "output", "more")
_TOKENS = "".join(rf"(?<!{word} )" for word in _NO_TOKENS) + r"\w*(?<!progress)tokens?"
_CODES = (
    r"pins?|pin ?codes?|otps?|totps?|cvv2?|cvc|one ?time (?:pass)?(?:code|password|pin)s?"
    r"|(?:verification|security|access|log ?in|sign ?in|sms|2 ?fa|mfa|totp|authenticat(?:ion|or)"
    r"|auth|unlock|backup|recovery|(?:\d|four|six|eight) ?digit) ?(?:code|key|pin)s?"
    r"|code (?:that )?(?:we|was|were)?(?: just)? ?(?:sent|texted|mailed|emailed)"
    r"|codes? from (?:your |our |the |an? )?(?:\w+ )?(?:authenticator|sms|text message)"
    r"|codes? from (?:(?:your|our) (?:\w+ )?|the |an? )?e ?mail"
    r"|puk|mnemonics?|security answers?|connection strings?"
    r"|credit ?cards?|card ?numbers?|social security|ssn|iban|jwt"
)
_ENGLISH = (
    rf"{_PASSWORDS}|(?:client )?secrets?|credentials?|(?:seed|recovery|backup) (?:phrase|word)s?"
    rf"|{_KEYS}|{_TOKENS}|{_CODES}"
)
# In other languages: what a word begins with, without accents.
_WORDS = {
    "German": r"\w*(?:passw[oe]rt|kennw[oe]rt|zugangscode|einmalcode|einmalkennwort"
    r"|sicherheitscode|bestatigungscode|geheimzahl|kreditkarten ?nummer)"
    r"|(?:api|zugangs|zugriffs|privat\w*|geheim\w*) ?schlussel|geheimnis\b"
    r"|(?:m|sms|push|chip|photo) ?tan\b",
    "French": r"mots? de passe|mdp\b|codes? (?:secret|d acces|de verification|de securite"
    r"|a usage unique)|cles? (?:api|d api|d acces|privee|secrete)|jetons? d acces",
    "Spanish": r"contrasen|clave (?:de acceso|de api|secreta|privada|api)|codigo (?:de verificacion"
    r"|de seguridad|de acceso|de un solo uso|secreto)",
    "Portuguese": r"senhas?\b|palavras? passe|codigo (?:de uso unico|de seguranca|de acesso)"
    r"|chave (?:api|de api|de acesso|secreta|privada)",
    "Italian": r"parola d ordine|codice (?:di verifica|di sicurezza|di accesso|segreto|monouso)"
    r"|chiave (?:api|d accesso|di accesso|segreta|privata)",
}
_OTHERS = "|".join(_WORDS.values())
_PHRASES = rf"(?:\b(?:{_ENGLISH})\b|\b(?:{_OTHERS}))"
# Names of secrets, but no words that ask for one.
_BARE = (
    r"authorization|(?:set )?cookies?|bearer|mfa|2 ?fa|pat|dsn"
    r"|(?:database|db|redis|mongo\w*|postgres\w*|mysql|amqp|broker) ur[il]"
)
_AFTER = r"(?: (?:confirmation|confirm|again|repeat(?:ed)?|hash|value|\d{1,3}))?"
_ENDS_IN = (
    r"\A(?:.* )?(?:db|database|user|admin|root|login|smtp|imap|mail|ftp|ssh|key|store|proxy|wifi"
    r"|mysql|postgres|pg|redis|sudo|account|my|auth|http|basic) ?pass|\Apass"
)

# What a model counts, but for `accessTokens` and their like; and where the next page begins.
_HELD = "".join(
    rf"(?<!{word} )" for word in ("access", "auth", "bearer", "refresh", "api", "session", "id")
)
_COUNTED = re.compile(
    rf"{_HELD}\btokens\Z|(?:max|min|continuation|cancellation|cursor|next) \w*\s?token\Z"
)
# "Do not give us your PIN" warns of what it names, up to the end of its clause: a dash, or what is
# to be done instead.
_NEXT = r"(?:, |,? (?:and|but|then) )(?:please )?(?:enter|type|give|paste|provide|use)\b"
_WARNING = re.compile(
    r"\b(?:do not|don['\u2019]t|never) (?:ever )?(?:give|share|enter|include|provide|put|send|type"
    rf"|paste|write|use|tell|disclose|reveal)\b"
    rf"(?:(?! [-\u2013\u2014] |{_NEXT})[^.:;!?()\n]){{0,200}}",
    re.IGNORECASE,
)
_HOLDS = rf"(?:{_PHRASES}\w*|\b(?:{_BARE})|\Aclave|{_ENDS_IN}){_AFTER}\Z"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_KEYS?\Z")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SENSITIVE = methodcaller("get", "sensitive")
_ACCENTS = re.compile("[\u0300-\u036f]")
_BORDERS = re.compile(r"(?:_|\W)+")
_JOINTS = re.compile("[_'\u2019-]")
_TAIL = 200  # characters at the end of a wording that a title continues, and of a name


def declared_secret(schema: Schema) -> bool | None:
    """Return what a schema, or an enclosing one, declares; None if nothing."""
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    said = schema.get("sensitive")
    return said if isinstance(said, bool) else None


def is_secret(
    name: str,
    schema: Schema,
    around: Sequence[Schema],
    wording: str,
    *,
    typed: bool,
    overrules: bool = True,
) -> bool:
    """Whether a field asks for a secret.

    Args:
        name: The field's.
        schema: The field's.
        around: Schemas that may say more, the nearest first.
        wording: The question's words.
        typed: Whether it can be typed; a choice is never guessed to be secret.
        overrules: Whether `sensitive: false` overrides a guess: only for an app that gets the
            answer.
    """
    inside = parts(schema)
    if any(declared_secret(each) for _, each in inside):
        return True
    said = [each for each in map(_SENSITIVE, (schema, *around)) if isinstance(each, bool)]
    if said and (said[0] or overrules):
        return said[0]
    if not typed:
        return False
    titles = (str(each.get(word, "")) for _, each in inside for word in ("title", "description"))
    names = (name, *(each for each, _ in inside))
    # A name is none of the words: "max" is no "max token" with a prompt behind it.
    lines = (filter(None, each) for each in (names, (wording, *titles)))
    return any(map(holds_secret, names)) or asks_for_secret("\n".join(map(" ".join, lines)))


def gist(words: str) -> str:
    """Return a short text that asks for a secret if `words` do: many fields may share a prompt."""
    if len(words) <= _TAIL:
        return words
    return _find_secret(words) or " ".join(_WARNING.sub(" ", words)[-_TAIL:].split()[1:])


def asks_for_secret(words: str) -> bool:
    """Whether this text asks for a secret."""
    return bool(_find_secret(words))


def _find_secret(words: str) -> str:
    found = _compile(_PHRASES).search(_fold(_WARNING.sub(" ", words)))
    return found[0] if found else ""


@lru_cache(maxsize=4_096)
def holds_secret(name: str) -> bool:
    """Whether a name means a secret: `apiKey`, `login[password]`, `PGPASSWORD`, `contraseña`."""
    words = _BORDERS.sub(" ", _fold(_without_unseen(name)[-_TAIL:])).strip()
    if _compile(_HOLDS).search(words) is not None:
        return _COUNTED.search(words) is None
    return _VARIABLE.match(name) is not None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile on first use: the long patterns take a twentieth of the start."""
    return re.compile(pattern)


def _without_unseen(words: str) -> str:
    """Remove zero-width characters and soft hyphens, which split words invisibly."""
    if words.isascii():
        return words
    return "".join(each for each in words if unicodedata.category(each) != "Cf")


def _fold(words: str) -> str:
    """Split words; remove case and accents."""
    apart = _JOINTS.sub(" ", _CAMEL.sub(" ", _without_unseen(words)))
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", apart))
    return unicodedata.normalize("NFC", plain).casefold()
