"""What looks like a secret in text: a value behind a name that tells of one, or a token of a known
look. Pure.

Two tables, `VALUES` and `TOKENS`; each row has examples with what is hidden in « ». Which names
tell, `core.secret_names` knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_plus

from abp_bridge.core.secret_names import holds_secret
from abp_bridge.trace.redact.structure import SECRET


@dataclass(frozen=True, slots=True)
class ValuePattern:
    """A `head` with a `name` in it, and the `value` that follows it.

    What is `free` has no quotes that stay, and no words that say that there is nothing.
    """

    head: re.Pattern[str]
    value: re.Pattern[str]
    examples: tuple[str, ...]
    free: bool = False

    def hide(self, text: str) -> str:
        """`text` without the values whose names tell of a secret."""
        kept: list[str] = []
        done = 0
        for head in self.head.finditer(text):
            at = head.end()
            if (
                head.start() < done
                or not holds_secret(unquote_plus(head["name"]))
                or text.startswith(_HIDDEN, at)
            ):
                continue
            found = self.value.match(text, at)
            if found is not None and (self.free or found[0].strip() not in _NOTHING):
                opened, closed = (0, 0) if self.free else _quotes(found[0])
                kept += [text[done : at + opened], SECRET, text[found.end() - closed : found.end()]]
                done = found.end()
        return "".join([*kept, text[done:]])


@dataclass(frozen=True, slots=True)
class TokenPattern:
    """A token that is a secret by its look, after what stays of it."""

    pattern: re.Pattern[str]
    instead: str
    examples: tuple[str, ...]

    def hide(self, text: str) -> str:
        """`text` without such tokens."""
        return self.pattern.sub(self.instead, text)


def hide(text: str) -> str:
    """`text` without what stands under telling names in it, or looks like a secret.

    It may be JSON that is not whole.
    """
    for row in VALUES:
        text = row.hide(text)
    text = _TAG.sub(_hide_attribute, text)
    for token in TOKENS:
        text = token.hide(text)
    return text


# --- values under names ---

_HIDDEN = (SECRET, "[env ")
_NOTHING = ("", "true", "false", "null", "True", "False", "None", '""', "''", "[]", "{}")
_QUOTE = re.compile(r"\\*+[\"'`]")


def _quotes(value: str) -> tuple[int, int]:
    """How long the quotes are that a value begins and ends with."""
    found = _QUOTE.match(value)
    if found is None:
        return 0, 0
    size = len(found[0])
    return size, size if len(value) > size and value.endswith(found[0]) else 0


def _row(head: str, value: str, *examples: str, free: bool = False) -> ValuePattern:
    return ValuePattern(re.compile(head, re.MULTILINE), re.compile(value), examples, free)


def _member(quote: str, string: str, *examples: str) -> ValuePattern:
    """A member of JSON or Python. What is no whole string of its kind goes to the text's end."""
    return _row(
        rf"(?<!\\)(?P<quote>{quote})(?P<name>[^\"'\\\n]{{1,80}})(?P=quote)\s{{0,8}}[:=]\s{{0,8}}",
        rf"(?s:{string}|[\[{{\\\"'`].*|-?[\w.+-]+)",
        *examples,
    )


_WORDS = r"(?:[A-Za-z]\w{0,30}[ ]){0,2}"
_NAME = rf"(?a:(?P<name>{_WORDS}[A-Za-z_%][\w.\[\]%-]{{0,80}}))"
_HEADER = rf"(?a:(?P<name>{_WORDS}(?=[A-Za-z_%])[\w.\[\]%-]{{0,80}}(?i:authorization|cookie)))"
_MARK = r"[ \t]{0,8}+(?:=>?+|:(?![:/]))[ \t]{0,8}+"
_FREE = r"(?a:(?<![\w.%?&#;-]))"  # where no name goes on, and no parameter of an address begins
_QUOTED = r"(?P<quote>[\"'`])(?:[^\\\n]|\\.)*?(?P=quote)"
_BLOCK = r"[|>]?[+-]?[ \t]*\r?\n(?:[ \t]+\S[^\n]*(?:\n|\Z))+"
_LINE = r"[^\r\n]*"

VALUES = (
    _member('"', r'"(?:[^"\\]|\\.)*+"', 'POST {"password": "«hunter2»", "na', '"pin": «4711»'),
    _member("'", r"'(?:[^'\\]|\\.)*+'", "{'password': '«hunter2»'}", "'pins': «['4711']}»"),
    _member(
        r"\\++[\"']",
        r"(?P<open>\\++[\"'`]).*?(?<!\\)(?P=open)",
        r'"{\"password\": \"«hunter2»\"}"',
    ),
    _row(  # an option of a command
        r"(?<!\S)--?(?P<name>[A-Za-z][\w-]{1,60})(?:=|[ \t]+(?![-\s]))",
        rf"{_QUOTED}|\S+",
        "run --password «hunter2» --verbose",
        "run --client-secret='«hunter two»'",
    ),
    _row(
        _FREE + _HEADER + _MARK,
        _LINE,
        'Authorization: «Digest ann, response="hunter2"»\nAccept: all',
        "Set-Cookie: «sid=abc; csrf=hunter2»",
    ),
    _row(  # where the parameters of an address begin
        rf"(?<=[?&#;]){_NAME}{_MARK}", r"[^&\s\"'#\\]*", "?password=«hunter2»&x=1"
    ),
    _row(  # a line of YAML, of a shell or of settings
        rf"^[ \t]*(?:- |export |set )?{_NAME}{_MARK}",
        rf"{_QUOTED}|{_BLOCK}|{_LINE}",
        "user: ann\npassword: «correct horse»\n",
        "export DB_PASSWORD='«hunter two»'",
        "password: «|\n  hunter2»",
    ),
    _row(  # an assignment within a line
        _FREE + _NAME + _MARK,
        rf"{_QUOTED}|\S+",
        "it ran with PASSWORD=«hunter2» then",
        "and with an api key = '«hunter two»' now",
    ),
    _row(  # an element of XML or HTML
        r"<(?P<name>[A-Za-z][\w:.-]{0,80})(?:\s[^<>]{0,400})?>",
        r"(?!\s*\[secret\])[^<]+",
        "<user>ann</user><password>«hunter2»</password>",
        free=True,
    ),
    _row(  # a parameter of an address, whatever its name is made of
        r"[?&#;](?P<name>[^=&\s\"'\\?#;]{1,80})=",
        r"(?!\[)[^&\s\"'#\\]+",
        "/login?user=ann&api%5Fkey=«hunter2»#top",
        free=True,
    ),
)

_TAG = re.compile(r"<[A-Za-z][^<>]{0,800}>")
_ATTRIBUTE = re.compile(r"([\w:-]{1,40})\s{0,4}=\s{0,4}([\"'])(.*?)\2")


def _hide_attribute(tag: re.Match[str]) -> str:
    """A tag whose name, type or key says that its value is a secret."""
    named = [value for name, _, value in _ATTRIBUTE.findall(tag[0]) if name.lower() in _NAMING]
    if not any(map(holds_secret, named)):
        return tag[0]
    return _ATTRIBUTE.sub(
        lambda each: (
            f"{each[1]}={each[2]}{SECRET}{each[2]}" if each[1].lower() == "value" else each[0]
        ),
        tag[0],
    )


_NAMING = ("name", "type", "key", "id")

# --- tokens ---


def _token(look: str, *examples: str, instead: str = SECRET, flags: int = 0) -> TokenPattern:
    return TokenPattern(re.compile(look, flags), instead, examples)


TOKENS = (
    _token(  # a parameter that has other meanings too, if it is long
        r"([?&#;](?:[^=&\s\"'\\?#;]{0,79}(?:[_-]|%2[Dd]|%5[Ff]))?"
        r"(?i:key|code|sig|signature|auth|session|sid)=)(?!\[)[^&\s\"'#\\]{8,}",
        "https://b.example/f?X-Amz-Signature=«Zq7hunterX9»&x=1",
        instead=rf"\1{SECRET}",
    ),
    _token(  # who logs in by an address
        r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,20}://)[^/\s\"'\\]{1,512}@",
        "https://«ann:hunter2»@example.com/",
        instead=rf"\1{SECRET}@",
    ),
    _token(
        r"(?i)\b(bearer)(\s+|%20|\+)[a-z0-9._~+/=-]{8,}",
        "with Bearer «abc.def.ghi»",
        instead=rf"\1\2{SECRET}",
    ),
    _token(
        r"\b((?i:basic))(\s+|%20|\+)(?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/=]{8,}",
        "with basic «YW5uOmh1bnRlcjI=»",
        instead=rf"\1\2{SECRET}",
    ),
    _token(  # a JSON Web Token
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]*",
        "it is «eyJhbGciOiJub25l.eyJzdWIiOiJhbm4i.c2lnbmVk»!",
    ),
    _token(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        "key: «-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----».",
        "cut «-----BEGIN PRIVATE KEY-----\nabc»",
        flags=re.DOTALL,
    ),
    _token(  # keys of services, by their first letters
        r"(?<![A-Za-z0-9])(?:[spr]k[-_](?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{16,}"
        r"|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
        r"|xox[a-z]-[A-Za-z0-9-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}"
        r"|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,})",
        *(
            f"with «{start}{'a1B2' * 9}»,"
            for start in ("sk-", "ghp_", "github_pat_", "glpat-", "xoxb-", "AIza", "hf_", "npm_")
        ),
        "with «AKIAABCDEFGHIJKLMNOP»,",
    ),
)
