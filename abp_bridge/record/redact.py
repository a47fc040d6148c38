"""What a recording must not hold: secrets, one-time links, sealed states, and what this machine is called. Every line of a trace goes through here.

A secret is known by the question that it answers (`answers`), or by what says of itself that it is one (`telltale`); from then on it is replaced
wherever it turns up, however it is spelled (`spelling`). Pure.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any

from abp_bridge.record.spelling import encoded, pieces, written
from abp_bridge.record.telltale import MAX_TEXT, SECRET, given, hide, is_schema, is_told_of, leaves, telling, told

Json = Any

MAX_SECRETS = 500
LONGEST = 8_192  # characters of a secret that is looked for elsewhere
LONG_SETTING = 8  # an environment value of fewer characters is anybody's
SHORT_SETTING = 4  # one whose name speaks of a key is not
DIGITS = 3  # of a number: with fewer it is anybody's

_NAMED = re.compile(r"(?i)(?:key|token|secret|passw|pass$|pwd|credential|auth|cookie|private)")
_AGAIN = re.compile(rf"{re.escape(SECRET)}(?:{re.escape(SECRET)})+")
_LINK = re.compile(r"(/open/)([A-Za-z0-9_-]{16,})")
# What a message must keep to be one.
_KEPT = ("jsonrpc", "id", "method", "params", "result", "error", "type", "timestamp", "payload", "event")
_METHOD = re.compile(
    r"(?:initialize|ping|authenticate|shutdown|(?:tools|resources|prompts|completion|logging|elicitation|sampling|roots|session|fs|terminal|capabilities"
    r"|subscriptions|server|notifications|\$)/[a-zA-Z_/]{1,60})\Z"
)


class Full(Exception):
    """There are more secrets than can be kept in mind: nothing more can be written down safely."""


class Redactor:
    """One recording's. `env` is the environment, `places` paths of this machine and what to write for them."""

    def __init__(self, *, env: Mapping[str, str], places: Mapping[str, str]) -> None:
        self._secrets: set[str] = set()
        self._patterns: list[tuple[int, str, tuple[re.Pattern[str], ...]]] = []  # the longest first: one may be a part of another
        self._numbers: set[float] = set()
        self._links: dict[str, int] = {}
        self._states: dict[str, int] = {}
        self._settings, self._names = _settings(env)
        self._places = _places(places)

    def learn(self, value: Json) -> None:
        """`value`, and each value in it, is a secret from now on. Raises Full."""
        for leaf in leaves(value):
            self._learn_number(leaf)
            text = str(leaf)
            if len(text) <= LONGEST:  # of what is longer, where it stands is blanked all the same
                for piece in pieces(text):
                    self._learn_text(piece)

    def _learn_text(self, text: str) -> None:
        if text in self._secrets:
            return
        if len(self._secrets) >= MAX_SECRETS:
            raise Full
        self._secrets.add(text)
        spelled = (written(text), encoded(text))
        insort(self._patterns, (-len(text), text, tuple(re.compile(each) for each in spelled if each is not None)))

    def _learn_number(self, value: str | int | float) -> None:
        if sum(char.isdigit() for char in str(value)) < DIGITS:
            return
        try:
            self._numbers.add(abs(float(value)))
        except (ValueError, OverflowError):
            return

    def clean(self, value: Json) -> Json:
        """`value` as it may be written down. Raises Full."""
        self.learn(list(told(value)))
        return self._cleaned(value)

    def message(self, message: Json) -> Json:
        """The same for a message: what it needs to be one stays what it is."""
        self.learn(list(told(message)))
        if isinstance(message, (list, tuple)):
            return [self._message(each) for each in message]
        return self._message(message)

    def _message(self, message: Json) -> Json:
        if not isinstance(message, Mapping):
            return self._cleaned(message)
        return {name if name in _KEPT else self.text(str(name)): self._part(str(name), each) for name, each in message.items()}

    def _part(self, name: str, value: Json) -> Json:
        number = isinstance(value, (int, float))
        if name == "jsonrpc" or (name in ("id", "timestamp") and number) or (name == "method" and isinstance(value, str) and _METHOD.match(value)):
            return value
        return self._member(name, value)

    def _cleaned(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): blank(each) if is_told_of(value, name) else self._member(str(name), each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._cleaned(each) for each in value]
        return SECRET if self._is_secret(value) else value

    def _is_secret(self, value: Json) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) in self._numbers

    def _member(self, name: str, value: Json) -> Json:
        if name == "requestState" and isinstance(value, str):
            return f"[state {self._states.setdefault(value, len(self._states) + 1)}]"
        if telling(name):
            if not is_schema(value):
                return blank(value)
            value = {**value, **blank(given(value))}
        return self._cleaned(value)

    def text(self, words: str) -> str:
        """Text as it may be written down. What is long is left out, and that is said."""
        if len(words) > MAX_TEXT:
            return f"[cut {len(words)} characters]"
        for _, _, patterns in self._patterns:
            for pattern in patterns:
                words = pattern.sub(SECRET, words)
        words = _AGAIN.sub(SECRET, hide(words))
        words = _LINK.sub(lambda found: f"{found[1]}[link {self._links.setdefault(found[2], len(self._links) + 1)}]", words)
        if self._settings is not None:
            words = self._settings.sub(lambda found: f"[env {self._names[found.lastgroup or '']}]", words)
        for place, name in self._places:
            words = place.sub(name, words)
        return words


def blank(value: Json) -> Json:
    """The same shape, with no text and no number in it."""
    if isinstance(value, Mapping):
        return {name: blank(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [blank(each) for each in value]
    return value if value is None or isinstance(value, bool) or value == "" else SECRET


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


def _settings(env: Mapping[str, str]) -> tuple[re.Pattern[str] | None, dict[str, str]]:
    """What of the environment must not be read in a trace, as a pattern, and the name of each of its groups."""
    wanted: dict[str, str] = {}
    for name, value in env.items():
        telltale = _NAMED.search(name) is not None
        if len(value) >= (SHORT_SETTING if telltale else LONG_SETTING) and len(value) <= LONGEST and (telltale or not value.startswith("/")):
            wanted.setdefault(value, name)
    names = {f"e{place}": wanted[value] for place, value in enumerate(sorted(wanted, key=len, reverse=True))}
    found = [
        f"(?P<{group}>{_setting(name, value)})" for (group, name), value in zip(names.items(), sorted(wanted, key=len, reverse=True), strict=True)
    ]
    return (re.compile("|".join(found)), names) if found else (None, {})


def _setting(name: str, value: str) -> str:
    """A key is found wherever it stands; what is anybody's word, and short, where it stands alone."""
    whole = len(value) >= LONG_SETTING and _NAMED.search(name) is not None
    return written(value) if whole else rf"(?<!\w){written(value)}(?!\w)"


def _places(places: Mapping[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Paths, the deepest first, each as a whole name: /home/ann, and not the beginning of /home/anna."""
    whole = {path.rstrip("/"): name for path, name in places.items() if len(path.rstrip("/")) > 1}
    return [(re.compile(rf"{re.escape(path)}(?![\w.-])"), whole[path].replace("\\", r"\\")) for path in sorted(whole, key=len, reverse=True)]
