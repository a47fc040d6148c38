"""What a recording must not hold: secrets, one-time links, sealed states, and what this machine is called. Every line of a trace goes through here.

A secret is known by the question that it answers, or by the name it stands under; from then on it is replaced wherever it turns up. Pure.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from abp_bridge.core.errors import RemoteProtocolError
from abp_bridge.core.question import Question
from abp_bridge.protocols.abp import decode_question

Json = Any

SECRET = "[secret]"  # noqa: S105
MAX_SECRETS = 1_000
MAX_TEXT = 64 * 1024
SHORT = 4  # a secret of fewer characters is only replaced where it stands alone
WORD = 6  # what stands under a telling name, with fewer characters, may be anybody's word elsewhere
LONG_SETTING = 8  # an environment value of fewer characters is anybody's

# Names under which secrets stand, whoever wrote them.
_TELLTALE = re.compile(
    r"(?i)(?:^|[_.-]|(?<=[a-z])(?=[A-Z]))(?:password|passwd|passphrase|passcode|secret|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie"
    r"|credentials?|(?:access|auth|bearer|refresh|id|session|api)[_-]?token)$"
)
_NAMED = re.compile(r"(?i)(?:key|token|secret|passw|pass$|pwd|credential|auth|cookie|private)")
_SCHEMA = ("type", "oneOf", "anyOf", "enum", "properties")

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,20}://)[^/\s\"'@\\]{1,512}@"), rf"\1{SECRET}@"),
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1\2{SECRET}"),
    (
        re.compile(r"(?i)([?&#](?:[a-z0-9]+[_-])?(?:token|key|secret|password|passwd|pwd|auth|code|sig|signature|session)=)[^&\s\"'#\\]+"),
        rf"\1{SECRET}",
    ),
    (re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]*"), SECRET),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), SECRET),
)
LONGEST = 8_192  # characters of a secret that is looked for elsewhere
_LINK = re.compile(r"(/open/)([A-Za-z0-9_-]{16,})")


class Full(Exception):
    """There are more secrets than can be kept in mind: nothing more can be written down safely."""


class Redactor:
    """One recording's. `env` is the environment, `places` paths of this machine and what to write for them."""

    def __init__(self, *, env: Mapping[str, str], places: Mapping[str, str]) -> None:
        self._secrets: dict[str, None] = {}
        self._known: re.Pattern[str] | None = None
        self._links: dict[str, int] = {}
        self._states: dict[str, int] = {}
        self._settings, self._names = _settings(env)
        self._places = _places(places)

    def learn(self, value: Json) -> None:
        """`value`, and each value in it, is a secret from now on. Raises Full."""
        for leaf in _leaves(value):
            if len(str(leaf)) > LONGEST:  # where it stands it is blanked all the same
                continue
            for variant in _variants(str(leaf)):
                self._secrets.setdefault(variant)
        if len(self._secrets) > MAX_SECRETS:
            raise Full
        if self._secrets:
            longest_first = sorted(self._secrets, key=len, reverse=True)
            self._known = re.compile("|".join(_alone(secret) for secret in longest_first))

    def clean(self, value: Json) -> Json:
        """`value` as it may be written down. Raises Full."""
        told = [secret for secret in _telltales(value) if len(secret) >= WORD and secret != SECRET]
        if any(secret not in self._secrets for secret in told):
            self.learn(told)
        return self._cleaned(value)

    def _cleaned(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self._member(str(name), each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._cleaned(each) for each in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and len(str(value)) >= SHORT and str(value) in self._secrets:
            return SECRET
        return value

    def _member(self, name: str, value: Json) -> Json:
        if name == "requestState" and isinstance(value, str):
            return f"[state {self._states.setdefault(value, len(self._states) + 1)}]"
        if isinstance(value, str) and value and _TELLTALE.search(name):
            return SECRET
        return self._cleaned(value)

    def text(self, words: str) -> str:
        """Text as it may be written down. What is long is left out, and that is said."""
        if len(words) > MAX_TEXT:
            return f"[cut {len(words)} characters]"
        if self._known is not None:
            words = self._known.sub(SECRET, words)
        for pattern, instead in _PATTERNS:
            words = pattern.sub(instead, words)
        words = _LINK.sub(lambda found: f"{found[1]}[link {self._links.setdefault(found[2], len(self._links) + 1)}]", words)
        if self._settings is not None:
            words = self._settings.sub(lambda found: f"[env {self._names[found[0]]}]", words)
        for place, name in self._places:
            words = place.sub(name, words)
        return words


def secret_question(message: Mapping[str, Json]) -> Question | None:
    """The question that this request asks, if its answer is a secret. Read as the bridge reads it: by format, by name and by wording."""
    method, params = message.get("method"), message.get("params")
    if method == "elicitation/create" and isinstance(params, Mapping):
        method, params = "elicitation/input", {"prompt": params.get("message"), "schema": params.get("requestedSchema")}
    try:
        question = decode_question({"method": method, "params": params}, id="", origin="")
    except RemoteProtocolError:
        return None
    return question if question.secret else None


def blank(value: Json) -> Json:
    """The same shape, with nothing in it."""
    if isinstance(value, Mapping):
        return {name: blank(each) for name, each in value.items()}
    if isinstance(value, list):
        return [blank(each) for each in value]
    return value if value is None else SECRET


def secrets_of(question: Question, answer: Json) -> list[Json]:
    """What in an answer is secret: by field, where it has several."""
    given = answer.get("value") if isinstance(answer, Mapping) and set(answer) == {"value"} else answer
    if not isinstance(given, Mapping) or question.wrapped:
        return [given]
    return [given[field.name] for field in question.fields if field.secret and field.name in given]


def placed(value: Json, places: Mapping[str, str]) -> Json:
    """`value` with other words for the paths in it, and nothing else changed."""
    return _placed(value, _places(places))


def _placed(value: Json, places: Sequence[tuple[re.Pattern[str], str]]) -> Json:
    if isinstance(value, str):
        for place, name in places:
            value = place.sub(name, value)
        return value
    if isinstance(value, Mapping):
        return {name: _placed(each, places) for name, each in value.items()}
    return [_placed(each, places) for each in value] if isinstance(value, list) else value


def _leaves(value: Json) -> Iterator[str | int | float]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
        yield value


def _telltales(value: Json) -> Iterator[str]:
    """Each text that stands under a name such as `password`, and the defaults of such fields in schemas."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            told = bool(_TELLTALE.search(str(name)))
            if told and isinstance(each, str):
                yield each
            elif told and isinstance(each, Mapping) and any(word in each for word in _SCHEMA):
                yield from (str(leaf) for word in ("default", "const", "examples") for leaf in _leaves(each.get(word)))
            yield from _telltales(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _telltales(each)


def _variants(secret: str) -> Iterable[str]:
    """A secret as it may stand in other text: in JSON (also inside of JSON text), in an address, in a header."""
    spelled = [json.dumps(secret, ensure_ascii=ascii)[1:-1] for ascii in (True, False)]
    again = [json.dumps(each)[1:-1] for each in spelled]
    found = {secret, *spelled, *again, quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace")}
    if len(secret) >= SHORT:
        found.add(base64.b64encode(secret.encode(errors="replace")).decode())
    return found


def _alone(secret: str) -> str:
    escaped = re.escape(secret)
    return escaped if len(secret) >= SHORT else rf"(?<![A-Za-z0-9]){escaped}(?![A-Za-z0-9])"


def _settings(env: Mapping[str, str]) -> tuple[re.Pattern[str] | None, dict[str, str]]:
    """What of the environment must not be read in a trace, and under which name it is there."""
    names: dict[str, str] = {}
    for name, value in env.items():
        longest = LONG_SETTING if not _NAMED.search(name) else SHORT
        if len(value) >= longest and (longest == SHORT or not value.startswith("/")):
            names.setdefault(value, name)
    if not names:
        return None, {}
    return re.compile("|".join(rf"(?<!\w){re.escape(value)}(?!\w)" for value in sorted(names, key=len, reverse=True))), names


def _places(places: Mapping[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Paths, the deepest first, each as a whole name: /home/ann, and not the beginning of /home/anna."""
    whole = {path.rstrip("/"): name for path, name in places.items() if len(path.rstrip("/")) > 1}
    return [(re.compile(rf"{re.escape(path)}(?![\w.-])"), whole[path].replace("\\", r"\\")) for path in sorted(whole, key=len, reverse=True)]
