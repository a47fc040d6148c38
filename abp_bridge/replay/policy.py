"""What a fixture may have a bridge started with, so that a stranger's can be played: its stand-ins
as apps and agent, files in its own folder, and settings that name no program, no place and no
address of this machine. Pure.

Which options and variables there are, and of what kind, the table of settings says (`replayable`);
here is what each kind may be. What has none is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from abp_bridge.core.json_value import JsonValue, as_object, as_text, member_names, walk
from abp_bridge.protocols.acp.v1 import prompt_text
from abp_bridge.replay.placeholders import parts
from abp_bridge.replay.stand_in import program_name
from abp_bridge.settings import TABLE
from abp_bridge.settings.table import Replayable, Setting
from abp_bridge.trace.format import AGENT, BEHIND, HOST, MODEL, PERSON, SERVER, Head, Recording

COMMANDS = ("serve", *BEHIND)
# Whether a value may be, and what would be right.
Rule = tuple[Callable[[str], object], str]
STANDS = re.compile(r"\{([^{}]*)\}")
TERMINAL, PORT, FOLDER = "{tty}", "{port}", "{folder}"
CONNECT = "abp_connect"
MAX_WORDS = 100  # words in brackets in one text

_ADDRESS = re.compile(r"\s*https?:", re.IGNORECASE)
_MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._:/-]*"
_APP = r"app(?: [A-Za-z0-9][A-Za-z0-9._-]{0,39})?"
# no colon: where a list of folders is expected, another would begin after it
_INSIDE = r"\{folder\}(?:/(?!\.\.?(?:/|:|\Z))[^/:{}\0]+)*/?"


def _rule(pattern: str, words: str) -> Rule:
    return re.compile(rf"(?:{pattern})\Z", re.DOTALL).match, words


_FILE = _rule(_INSIDE, "it must lie in {folder}")
_PLAIN = _rule(r"[A-Za-z0-9_.,: +-]*", "it must be plain: letters, digits and - + . , : _")
_LOCALE = _rule(r"[A-Za-z0-9_][A-Za-z0-9_.,@+-]*|", "it must be a plain name")
_ZONE = _rule(
    r"[A-Za-z0-9_+-][A-Za-z0-9_+,-]*(?:/[A-Za-z0-9_+-]+)*|", "it must be the name of a time zone"
)

# what a fixture may give for a setting -> what its variable may be
_BY_VARIABLE: Mapping[Replayable, Rule] = {
    "plain": _PLAIN,
    "file": _FILE,
    "files": _rule(rf"(?:{_INSIDE})?(?::{_INSIDE})*", "each must lie in {folder}"),
    "text": _rule(r"[^{}\0]*", "it must be text without { and }"),
    "app": _rule(
        rf"(?:stdio|mcp|acp):\{{{_APP}\}}|demo",
        "an app must be a stand-in, stdio:{app}, mcp:{app} or acp:{app}, or demo",
    ),
    "model": _rule(
        rf"cli:[a-z]+|acp:\{{{_APP}\}}|(?:openai|anthropic|google):{_MODEL_NAME}"
        rf"|\{{{MODEL}\}}#{_MODEL_NAME}",
        "a model must be a stand-in: acp:{app model}, cli:NAME, openai:NAME, anthropic:NAME,"
        " google:NAME, or {app model}#NAME",
    ),
    "terminal": _rule(re.escape(TERMINAL), "it must be {tty}"),
    "port": _rule(re.escape(PORT), "it must be {port}"),
    "page": _rule("off|link|", "it must be off or link: a replay opens no browser"),
}
# ... and what may follow its option, which names one file at a time
_BY_OPTION = {**_BY_VARIABLE, "files": _FILE}

# option -> its row, and what may follow it
OPTIONS: Mapping[str, tuple[Setting, Rule]] = {
    row.flag: (row, _BY_OPTION[row.replayable])
    for row in TABLE.values()
    if row.flag and row.replayable and {*COMMANDS} & {*row.commands}
}
# variable -> what it may be
VARIABLES: Mapping[str, Rule] = {
    row.variable: _BY_VARIABLE[row.replayable]
    for row in TABLE.values()
    if row.variable and row.replayable
} | {
    "TERM": _LOCALE,
    "LANG": _LOCALE,
    "LANGUAGE": _LOCALE,
    "TZ": _ZONE,
    "COLUMNS": _PLAIN,
    "LINES": _PLAIN,
    "NO_COLOR": _PLAIN,
}


def refusal(fixture: Recording) -> tuple[str, int] | None:
    """Why a fixture is not played, and the line; None when it may be."""
    words = next(_refusals(fixture), None)
    if words is not None:
        return words, 0
    for entry in fixture.entries:
        values = (*walk(entry.value), *member_names(entry.value))
        texts = (each for each in values if isinstance(each, str))
        if any(len(parts(text)) > 2 * MAX_WORDS for text in texts):
            return f"there are more than {MAX_WORDS} words in brackets in one text", entry.line
    return None


def connects_elsewhere(message: JsonValue) -> bool:
    """Whether this has a bridge open a page at some address: a tool call, or a prompt, wherever it
    stands in the message.
    """
    return any(_ADDRESS.match(target) for each in walk(message) for target in _targets(each))


def _targets(value: JsonValue) -> tuple[str, str]:
    """What a tool call and a prompt connect, if `value` is one."""
    call = as_object(value)
    is_connect = call.get("name") == CONNECT
    target = as_text(as_object(call.get("arguments")).get("target")) if is_connect else ""
    words = prompt_text(call.get("prompt")).strip().removeprefix("/connect").strip()
    return target, words


def parties(fixture: Recording) -> set[str]:
    """Whom there must be a stand-in for."""
    named = {name for word in fixture.head.run for name in STANDS.findall(word)}
    spoken = {entry.party for entry in fixture.entries}
    if model_of(fixture.head):
        spoken.add(MODEL)
    return {name for name in named | spoken if re.fullmatch(rf"{_APP}|{AGENT}|{SERVER}", name)} - {
        HOST,
        PERSON,
    }


def model_of(head: Head) -> str:
    """The model that the bridge is started with; empty where there is none."""
    own = head.run[: head.run.index("--")] if "--" in head.run else head.run
    row = TABLE["sampling"]
    found = head.env.get(row.variable, "")
    for place, word in enumerate(own):
        option, given, value = word.partition("=")
        if option == row.flag:
            found = value if given else "".join(own[place + 1 : place + 2])
    return found


def is_api(model: str) -> bool:
    """Whether `model` is asked over HTTP."""
    return bool(model) and not model.startswith(("cli:", "acp:"))


def _refusals(fixture: Recording) -> Iterator[str]:
    yield from _in_run(fixture.head.run)
    for name, value in fixture.head.env.items():
        rule = VARIABLES.get(name, _LOCALE if re.fullmatch(r"LC_[A-Z]+", name) else None)
        if rule is None:
            yield f"env in the head: {name!r} is no setting that a fixture may make"
        elif not rule[0](value):
            yield f"env in the head: {name}={value!r} is refused: {rule[1]}"
    named = [program_name(party) for party in sorted(parties(fixture))]
    if len(named) > len(set(named)):
        yield f"two of its parties would have one name: {', '.join(sorted(parties(fixture)))}"


def _in_run(run: Sequence[str]) -> Iterator[str]:
    own = run[: run.index("--")] if "--" in run else run
    behind = BEHIND.get(own[0], "") if own else ""
    if not own or own[0] not in COMMANDS:
        yield f"run in the head must begin with {', '.join(COMMANDS[:-1])} or {COMMANDS[-1]}"
    elif run[len(own) :][:2] != (("--", f"{{{behind}}}") if behind else ()):
        stands = " and ".join(f'"{each}", ..., "--", "{{{BEHIND[each]}}}"' for each in BEHIND)
        yield f"run in the head: an agent or a server must be a stand-in: {stands}"
    left = list(own[1:])
    while left:
        option, given, value = left.pop(0).partition("=")
        if option not in OPTIONS:
            yield f"run in the head: {option!r} is no option that a fixture may use"
            continue
        row, rule = OPTIONS[option]
        if not row.takes_value:
            if given:
                yield f"run in the head: {option} takes no value"
        elif not given and row.const is not None and (not left or left[0].startswith("-")):
            continue
        elif not given and not left:
            yield f"run in the head: {option} needs a value"
        elif not rule[0](value := value if given else left.pop(0)):
            yield f"run in the head: {option} {value!r} is refused: {rule[1]}"
