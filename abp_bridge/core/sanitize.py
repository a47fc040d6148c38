"""Text from outside, made safe to show: bounded, without control characters, and never cut without
saying so.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence

LABEL_LIMIT = 200  # characters of one line: a name, a title, a problem
MESSAGE_LIMIT = 4_000  # characters of a text of several lines: more pushes buttons off a screen

# Cc and Cf hold the characters that move a cursor, reorder a line or hide in it: a label must not
# repaint the question. The joiners are Cf too, but scripts and emoji need them.
_HIDDEN = {"Cc", "Cf", "Zl", "Zp"}
_JOINERS = {"\u200c", "\u200d"}

# What has no meaning here, or none yet (an emoji newer than this Python): shown as a mark, for it
# may have been a word.
_UNKNOWN = {"Cs", "Co", "Cn"}


def label(value: object, limit: int = LABEL_LIMIT) -> str:
    """One line of at most `limit` characters; what is cut is counted in the text itself."""
    return _bounded(" ".join(_visible(str(value), keep="").split()), limit)


def message(value: object, limit: int = MESSAGE_LIMIT) -> str:
    """Several lines of at most `limit` characters; line breaks stay, what is cut is counted in the
    text itself.
    """
    return _bounded(_visible(str(value).replace("\r\n", "\n"), keep="\n\t").strip(), limit)


def escape(value: str) -> str:
    """`value` so that no two look alike: what cannot be seen is written as its code."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in value
    )


def _visible(value: str, keep: str) -> str:
    if value.isprintable():
        return value
    return "".join(_shown(character, keep) for character in value)


def _shown(character: str, keep: str) -> str:
    if character in keep or character in _JOINERS:
        return character
    category = unicodedata.category(character)
    if category in _UNKNOWN:
        return "\ufffd"
    if category not in _HIDDEN:
        return character
    return " " if character.isspace() else ""


def _bounded(value: str, limit: int) -> str:
    if len(value) <= limit:
        return value
    return f"{value[:limit].rstrip()} … [{len(value) - limit} more characters not shown]"


def command_name(command: Sequence[str]) -> str:
    """What a command is called: its program, and the script it runs.

    Its other arguments may hold secrets, and the origin is shown to the model.
    """
    script = [os.path.basename(word) for word in command[1:2] if word.endswith(_SCRIPTS)]
    return " ".join([*map(os.path.basename, command[:1]), *script])


def server_name(command: Sequence[str]) -> str:
    """`command_name`, with the package that a program that runs packages is told to run."""
    name, words = command_name(command), list(command[1:])
    if os.path.basename(command[0]) in _RUNNERS or words[:1] == ["-m"]:
        while words and words[0] in _PASSED_OVER:
            words.pop(0)
        if words and _PACKAGE.fullmatch(words[0]):
            name = f"{name} {words[0]}"
    return label(command[0] if name == _OURSELVES else name)


_RUNNERS = {"npx", "uvx", "bunx", "pnpx", "pnpm", "bun", "uv", "pipx", "deno"}
_PASSED_OVER = {"-y", "--yes", "-q", "--quiet", "-m", "dlx", "run", "tool", "x", "exec"}
_PACKAGE = re.compile(r"@?[A-Za-z][\w.-]*(?:/[\w.-]+)?(?:@[\w.^~-]+)?")
_OURSELVES = "abp-bridge"  # no program is shown by that name alone
_SCRIPTS = (".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php", ".sh", ".jar")


def redact_target(target: str) -> str:
    """A target as it may be shown to a model: without a command's arguments, and without an
    address's user and query, where secrets stand.
    """
    if target.startswith("stdio:"):
        return f"stdio:{command_name(target.removeprefix('stdio:').split())}"
    address = target.partition("?")[0]
    return re.sub(r"^(\w+://)[^/]*@", r"\1", address)
