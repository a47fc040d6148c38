"""What looks like a secret in text: a value behind a name that tells of one, or a token of a known
look. Pure.

Two tables: `VALUES`, heads with a `name` in them and the value that follows, and `TOKENS`, with
what stays of each. Which names tell, `core.redact.names` knows.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

from abp_bridge.core.redact.names import asks_for_secret, holds_secret
from abp_bridge.core.redact.texts import SECRET

_QUOTED = r"(?P<open>\\*+[\"'`])%s*?(?<!\\)(?P=open)"  # of the letters that may stand in it
_WORDS = r"(?:[^\W\d_]\w{0,30}[ ]){0,2}"
_NAME = rf"(?P<name>{_WORDS}(?:[^\W\d]|%)[\w.\[\]%-]{{0,80}})"
_HEADERS = r"(?i:authorization|cookie)"
_HEADER = rf"(?P<name>{_WORDS}(?=[^\W\d]|%)[\w.\[\]%-]{{0,80}}{_HEADERS})"
_MARK = r"[ \t]{0,8}+(?:=>?+|[:\uff1a](?![:/]))[ \t]{0,8}+"
_BLOCK = r"[|>]?[+-]?[ \t]*\r?\n(?:[ \t]+\S[^\n]*(?:\n|\Z))+"
_LINE = r"[^\r\n]*"
_ANY, _IN_LINE = _QUOTED % r"(?s:.)", _QUOTED % r"[^\n]"
_VALUES = {
    # a member of JSON or Python; what is no whole string goes to the text's end
    r"(?<!\\)(?P<quote>\\*+[\"'])(?P<name>[^\"'\\\n]{1,80})(?P=quote)\s{0,8}[:=]\s{0,8}": (
        rf"{_ANY}|(?s:[\[{{\\\"'`].*)|-?[\w.+-]+"
    ),
    # an option of a command
    r"(?<!\S)--?(?P<name>[A-Za-z][\w-]{1,60})(?:=|[ \t]+(?![-\s]))": rf"{_IN_LINE}|\S+",
    rf"(?<![\w.%?&#;-]){_HEADER}{_MARK}": _LINE,
    rf"(?<=[?&#;]){_NAME}{_MARK}": r"[^&\s\"'#\\]*",  # where the parameters of an address begin
    # a line of YAML, of a shell or of settings
    rf"^[ \t]*(?:- |export |set )?{_NAME}{_MARK}": rf"{_IN_LINE}|{_BLOCK}|{_LINE}",
    rf"(?<![\w.%?&#;-]){_NAME}{_MARK}": rf"{_IN_LINE}|\S+",  # an assignment within a line
    r"<(?P<name>[A-Za-z][\w:.-]{0,80})(?:\s[^<>]{0,400})?>": r"(?!\s*\[secret\])[^<]+",
    # a parameter of an address, whatever its name is made of
    r"[?&#;](?P<name>[^=&\s\"'\\?#;]{1,80})=": r"[^&\s\"'#\\]+",
}
VALUES = [(re.compile(head, re.MULTILINE), re.compile(tail)) for head, tail in _VALUES.items()]
# For texts without those words: looking for what is in front of them takes as long as all the rest.
_NO_HEADERS = [(head, value) for head, value in VALUES if _HEADERS not in head.pattern]
_HIDDEN = (SECRET, "[env ", "[link ", "[state ")
_NOTHING = ("", "true", "false", "null", "True", "False", "None", '""', "''", "[]", "{}")
_TAG = re.compile(r"<[A-Za-z][^<>]{0,800}>")
_TAGS_VALUE = re.compile(r"(\bvalue\s{0,4}=\s{0,4}([\"'])).+?(?=\2)")

_TOKENS = {
    # a parameter that has other meanings too, if it is long
    r"([?&#;](?:[^=&\s\"'\\?#;]{0,79}(?:[_-]|%2[Dd]|%5[Ff]))?"
    r"(?i:key|code|sig|signature|auth|session|sid)=)(?!\[)[^&\s\"'#\\]{8,}": rf"\1{SECRET}",
    # who logs in by an address
    r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,20}://)[^/\s\"'\\]{1,512}@": rf"\1{SECRET}@",
    r"(?i)\b(bearer(?:\s+|%20|\+))[a-z0-9._~+/=-]{8,}": rf"\1{SECRET}",
    r"\b((?i:basic)(?:\s+|%20|\+))(?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/=]{8,}": rf"\1{SECRET}",
    # a JSON Web Token
    r"(?<![\w-])eyJ[\w-]{8,8192}\.[\w-]{8,8192}\.[\w-]*": SECRET,
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)": SECRET,
    # keys of services, by their first letters
    r"(?<![A-Za-z0-9])(?:[spr]k[-_](?=[a-z_-]{0,80}[A-Z0-9])[A-Za-z0-9_-]{16,}"
    r"|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}"
    r"|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,})": SECRET,
}
TOKENS = [(re.compile(look), instead) for look, instead in _TOKENS.items()]


def hide(text: str) -> str:
    """`text` without what stands under telling names in it, or looks like a secret.

    It may be JSON that is not whole.
    """
    for head, value in VALUES if re.search(_HEADERS, text) else _NO_HEADERS:
        text = _hide_values(text, head, value)
    text = _TAG.sub(_hide_attribute, text)
    for look, instead in TOKENS:
        text = look.sub(instead, text)
    return text


def _hide_values(text: str, head: re.Pattern[str], value: re.Pattern[str]) -> str:
    kept: list[str] = []
    done = 0
    for named in head.finditer(text):
        at, name = named.end(), unquote_plus(named["name"])
        if named.start() < done or text.startswith(_HIDDEN, at) or not _tells(name):
            continue
        found = value.match(text, at)
        if found is not None and found[0].strip() not in _NOTHING:
            quote = found.groupdict().get("open") or ""
            kept += [text[done:at], quote, SECRET, quote]
            done = found.end()
    return "".join([*kept, text[done:]])


def _tells(name: str) -> bool:
    return name == "requestState" or holds_secret(name)


def _hide_attribute(tag: re.Match[str]) -> str:
    """A tag that speaks of a secret, without its value."""
    tells = "value" in tag[0] and asks_for_secret(tag[0])
    return _TAGS_VALUE.sub(rf"\1{SECRET}", tag[0]) if tells else tag[0]
