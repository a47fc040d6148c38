"""Traps that any host may have: files, entries, clocks, and who is asked. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from abp_bridge.core.json_value import as_number, as_object, as_texts
from abp_bridge.core.sanitize import label
from abp_bridge.session.profiles import PROFILES
from abp_bridge.settings import describe_removed, misspelt
from abp_bridge.settings.values import MAX_SECONDS
from abp_bridge.setup.doctor.finding import Entry, HostFacts, is_our_word, mentions_us
from abp_bridge.setup.entries import wrapped_command
from abp_bridge.setup.formats.text import find as find_value
from abp_bridge.setup.hosts import HOSTS, QUESTION_TIMEOUT, SetupHost

# --- files ----------------------------------------------------------------------------------------

_CONSEQUENCES = {
    "codex": "Codex does not start",
    "gemini": "every command of Gemini CLI fails",
    "qwen": "every command of Qwen Code fails",
    "opencode": "opencode does not start",
}


def not_understood(facts: HostFacts) -> Iterator[str]:
    """Files that the host cannot read."""
    then = _CONSEQUENCES.get(facts.host.name, "none of its servers is started")
    for file in facts.files:
        if file.problem:
            yield f"{file.path}: {label(file.problem)}: {then}."


def left_alone(facts: HostFacts) -> Iterator[str]:
    """Files that we put nothing into."""
    for file in facts.files:
        if file.obstacle:
            yield f"{file.path} is left alone by abp-bridge: {label(file.obstacle)}."


def unread_files(facts: HostFacts) -> Iterator[str]:
    """Files with our server that it does not read."""
    for path, why in facts.unread:
        yield f"abp-bridge is in {path}, which {facts.host.title} does not read: {why}."


def _own_keys(host: SetupHost) -> set[str]:
    layouts = [*host.layouts, *([host.agents] if host.agents else [])]
    return {each.key[0] for each in layouts}


def wrong_key(facts: HostFacts) -> Iterator[str]:
    """Our server under a key that is another host's."""
    known = _own_keys(facts.host)
    reads = " and ".join(sorted(known))
    for file, value in facts.values():
        for key, members in value.items():
            if key in known or key == "projects":
                continue
            for name, entry in as_object(members).items():
                if mentions_us(entry):
                    where = f'"{label(name)}" under {label(key)}'
                    yield f"{file.path} has {where}, where it is not seen: {reads} is."


# --- entries --------------------------------------------------------------------------------------

# The words of all hosts for a command's parts.
_WORDS = frozenset(
    word
    for host in HOSTS.values()
    for layout in (*host.layouts, *([host.agents] if host.agents else []))
    for word in (layout.shape.command, layout.shape.args, layout.shape.env)
    if word
)


def wrong_member(facts: HostFacts) -> Iterator[str]:
    """A command that is written down as another host has it."""
    for entry in facts.entries:
        shape = entry.shape
        inside = as_object(entry.members.get(shape.within)) if shape.within else entry.members
        wanted = [each for each in (shape.command, shape.args, shape.env) if each]
        strange = [each for each in inside if each in _WORDS and each not in wanted]
        if strange:
            words = ", ".join(strange)
            yield f"{entry.shown} has {words}, where {facts.host.title} reads {', '.join(wanted)}."
        elif entry.server.launch is None:
            many = "a list of words" if not shape.args else "one word, and its arguments in args"
            yield f"{entry.shown} has no {shape.command} that is {many}."


def wrong_type(facts: HostFacts) -> Iterator[str]:
    """An entry without what makes it one."""
    allowed = ("stdio", "local") if facts.host.name == "copilot" else ()
    for entry in facts.entries:
        inside = as_object(entry.members.get(entry.shape.within)) or entry.members
        for name, value in entry.shape.fixed.items():
            there = inside.get(name)
            if there != value and there not in allowed:
                yield f"{entry.shown} lacks {name} = {json.dumps(value)}."


def switched_off(facts: HostFacts) -> Iterator[str]:
    """Entries that are not started."""
    for entry in facts.entries:
        if not entry.server.enabled:
            member, off = entry.shape.disabled or ("enabled", False)
            yield f'"{entry.name}" is not started: {entry.file} has {member}: {json.dumps(off)}.'


def unusable(facts: HostFacts) -> Iterator[str]:
    """Words and variables that no system starts a program with."""
    for entry in facts.entries:
        for each in entry.unusable:
            yield f"{entry.shown} has {each}."


def no_program(facts: HostFacts) -> Iterator[str]:
    """Commands that are not there."""
    for entry in facts.entries:
        words = entry.words
        if not words or entry.program or entry.elsewhere or words[0].startswith("~"):
            continue
        if _is_expanded(facts.host, words[0]):
            continue
        first = words[0].split()[0]
        is_line = first != words[0] and is_our_word(first)
        why = "with its arguments, which go to args" if is_line else "which is not there"
        yield f"{entry.shown} starts {label(first if is_line else words[0])}, {why}."


def not_on_path(facts: HostFacts) -> Iterator[str]:
    """Commands that a terminal finds, and this host does not."""
    for entry in facts.entries:
        if entry.elsewhere and not entry.program:
            yield (
                f"{entry.shown} starts {label(entry.words[0])}, which is {entry.elsewhere} here,"
                f" and not on the PATH of {facts.host.title}."
            )


def no_absolute_path(facts: HostFacts) -> Iterator[str]:
    """Commands that depend on the folder."""
    for entry in facts.entries:
        word = entry.words[0] if entry.words else ""
        relative = re.match(r"(?![A-Za-z]:)(\.{1,2}|[^/\\~$]+)[/\\]", word)
        if entry.scope != "project" and relative:
            yield f"{entry.shown} starts {label(word)}, which depends on the folder."


def home_sign(facts: HostFacts) -> Iterator[str]:
    """A ~ for the home."""
    for entry in facts.entries:
        for word in entry.words:
            if word == "~" or word.startswith("~/"):
                yield f"{entry.shown} has {label(word)}: no host knows what ~ stands for."


# host -> the member that names the tools which are let through
TOOLS: Mapping[str, str] = {
    "codex": "enabled_tools",
    "goose": "available_tools",
    "copilot": "tools",
    "gemini": "includeTools",
    "qwen": "includeTools",
}
_EMPTY_IS_NONE = ("codex", "copilot")  # elsewhere an empty list lets all through
# host -> the member that names the tools which are kept back
KEPT_BACK: Mapping[str, str] = {
    "codex": "disabled_tools",
    "gemini": "excludeTools",
    "qwen": "excludeTools",
    "kiro": "disabledTools",
}


def withheld_tools(facts: HostFacts) -> Iterator[str]:
    """Lists of tools, which keep others back, or those that are in them."""
    host = facts.host.name
    member, against = TOOLS.get(host, ""), KEPT_BACK.get(host, "")
    for entry in facts.entries:
        let = entry.members.get(member)
        if isinstance(let, list) and "*" not in let and (let or host in _EMPTY_IS_NONE):
            yield f"{entry.shown} has {member}: {len(let)} of our tools may be used, and no other."
        if kept := as_texts(entry.members.get(against)):
            yield f"{entry.shown} has {against}: {len(kept)} of our tools may not be used."


_VARIABLE = re.compile(r"\$\{[^}]+\}|\$[A-Z_][A-Z0-9_]*|\{env:[^}]+\}")
_WHOLE_VARIABLE = re.compile(r"\$?\{[^{}]+\}")
# What a host puts in for a variable; who is not here was not seen to.
EXPANDS: Mapping[str, str] = {
    "claude": r"\$\{[A-Za-z_]\w*(:-[^}]*)?\}",
    "gemini": r"\$\w+|\$\{\w+\}",
    "qwen": r"\$\w+|\$\{\w+\}",
    "opencode": r"\{(env|file):[^}]+\}",
    "kilo": r"\{(env|file):[^}]+\}",
    "codex": "(?!)",
    "goose": "(?!)",
    "cursor": r"\$\{[^}]+\}",
    "windsurf": r"\$\{(env|file):[^}]+\}",
    "vscode": r"\$\{[^}]+\}",
    "kiro": r"\$\{[^}]+\}",
}


def _is_expanded(host: SetupHost, word: str) -> bool:
    """Whether the host, or nobody knows, puts something in for a variable in a word."""
    found = _VARIABLE.search(word)
    pattern = EXPANDS.get(host.name)
    if found is None:
        return False
    return pattern is None or bool(re.fullmatch(pattern, found[0]))


def variables(facts: HostFacts) -> Iterator[str]:
    """Variables as this host does not write them."""
    pattern = EXPANDS.get(facts.host.name)
    for entry in facts.entries if pattern else ():
        for word in entry.words:
            for each in _VARIABLE.findall(word):
                if not re.fullmatch(pattern or "", each):
                    yield f"{entry.shown} has {label(each)}, which {facts.host.title} leaves so."
        for name, value in entry.env.items():  # of what may be a secret nothing is shown
            if _WHOLE_VARIABLE.fullmatch(value) and not re.fullmatch(pattern or "", value):
                words = f"is a variable as {facts.host.title} does not write it"
                yield f"{entry.shown}: {label(name)} of its {entry.shape.env} {words}."


def copies(facts: HostFacts) -> Iterator[str]:
    """One server under several names."""
    started = [each for each in facts.entries if each.server.enabled and each.words]
    for same in _group(started, _what_is_started):
        names = list(dict.fromkeys(f'"{label(each.name)}"' for each in same))
        if len(names) > 1:
            times = "twice" if len(names) == 2 else f"{len(names)} times"
            listed = f"{', '.join(names[:-1])} and {names[-1]}"
            yield f"{listed} are the same: each tool is there {times}."


def _what_is_started(entry: Entry) -> Hashable:
    behind = entry.words[entry.words.index("--") :] if "--" in entry.words else ()
    return entry.own, entry.agent, tuple(behind)


def two_scopes(facts: HostFacts) -> Iterator[str]:
    """One name in several places."""
    for same in _group(facts.entries, lambda each: each.name):
        places = list(dict.fromkeys(f"in {each.file} ({each.scope})" for each in same))
        if len(places) > 1:
            listed = f"{', '.join(places[:-1])} and {places[-1]}"
            yield f'"{label(same[0].name)}" is {listed}: one of them counts.'


def _group(entries: Iterable[Entry], key: Callable[[Entry], Hashable]) -> list[list[Entry]]:
    """The entries that are alike by `key`, together."""
    groups: dict[Hashable, list[Entry]] = {}
    for each in entries:
        groups.setdefault(key(each), []).append(each)
    return [*groups.values()]


NAMES = {
    "codex": re.compile(r"[A-Za-z0-9_:@/.-]+"),
    "claude": re.compile(r"(?!workspace$)[A-Za-z0-9_-]+"),
}


def wrong_name(facts: HostFacts) -> Iterator[str]:
    """Names that the host does not take."""
    for entry in facts.entries:
        if not NAMES[facts.host.name].fullmatch(entry.name):
            yield f'"{label(entry.name)}" is no name of a server for {facts.host.title}.'


# --- clocks ---------------------------------------------------------------------------------------

# Seconds after which a host gives a call up that its file says nothing of, the person included;
# Codex's clock stands still meanwhile.
_CALL_TIMEOUTS = {
    **{name: PROFILES[HOSTS[name].client].tool_timeout for name in ("goose", "copilot")},
    "zed": 60.0,
    "opencode": 300.0,
    "kilo": 300.0,
}
# host -> where its settings say that for all servers, in the unit of an entry
_TIMEOUT_KEYS = {"zed": ("context_server_timeout",)}
# host -> the variable that says it, in ms, in its environment or in the `env` of its settings
_TIMEOUT_VARIABLES = {"claude": "MCP_TOOL_TIMEOUT"}
_SHORTEST_MS = 1_000  # less was meant as seconds


def _limit(entry: Entry) -> float | None:
    """What the entry says of that, in its unit."""
    timeout = entry.shape.timeout
    return as_number(find_value(entry.members, timeout)) if timeout else None


def short_clock(facts: HostFacts) -> Iterator[str]:
    """Limits for a call that end before a person may have answered."""
    wanted = min(QUESTION_TIMEOUT, facts.host.patience or QUESTION_TIMEOUT)
    for entry in facts.entries:
        if entry.agent or not entry.shape.timeout or _wrong_unit_of(entry):
            continue
        said = _limit(entry)
        usual = _limit_of_all(facts) or _said_limit(facts) or _CALL_TIMEOUTS.get(facts.host.name)
        seconds = usual if said is None else said / (1000 if entry.shape.unit == "ms" else 1)
        if seconds is not None and seconds < wanted and not _is_told(entry, seconds):
            yield (
                f"{entry.shown}: {facts.host.title} gives a call up after {seconds:g} s, while a"
                f" question of it may wait for you for {QUESTION_TIMEOUT:g} s."
            )


def _limit_of_all(facts: HostFacts) -> float | None:
    place = _TIMEOUT_KEYS.get(facts.host.name, ())
    said = [as_number(find_value(value, place)) for _, value in facts.values()] if place else []
    return next((each for each in said if each is not None), None)


def _said_limit(facts: HostFacts) -> float | None:
    name = _TIMEOUT_VARIABLES.get(facts.host.name, "")
    inside = [as_object(as_object(each).get("env")) for each in facts.beside.values()]
    for place in (*inside, facts.environ) if name else ():
        said = str(place.get(name, ""))
        if said.isdecimal() and len(said) < 10:
            return int(said) / 1000
    return None


def _is_told(entry: Entry, seconds: float) -> bool:
    """Whether the bridge's own questions end before that."""
    own = entry.own
    place = own.index("--timeout") + 1 if "--timeout" in own else len(own)
    given = own[place] if place < len(own) else ""
    found = re.fullmatch(r"([0-9.]+)s?", given)
    return found is not None and float(found[1]) < seconds


def _wrong_unit_of(entry: Entry) -> str:
    said = _limit(entry)
    if said is None:
        return ""
    if entry.shape.unit == "ms" and 0 < said < _SHORTEST_MS:
        return "milliseconds"
    return "seconds" if entry.shape.unit == "s" and said > MAX_SECONDS else ""


def wrong_unit(facts: HostFacts) -> Iterator[str]:
    """Limits in another unit."""
    for entry in facts.entries:
        if unit := _wrong_unit_of(entry):
            member = ".".join(entry.shape.timeout)
            yield f"{entry.shown} has {member} = {_limit(entry):g}, which is in {unit}."


# --- who is asked ---------------------------------------------------------------------------------

# What has a person asked, or answers, beside a host that shows nothing.
_ASKING = ("--page", "--tty", "--questions-api", "--answers", "--ask-via-model")
_ASKING_VARIABLES = ("ABP_PAGE", "ABP_TTY", "ABP_QUESTIONS_API", "ABP_ANSWERS", "ABP_ASK_VIA_MODEL")


def nobody_asked(facts: HostFacts) -> Iterator[str]:
    """Servers that ask, where nobody is shown what they ask."""
    for entry in facts.entries if not facts.host.asks else ():
        if entry.agent or entry.own[:1] != ("serve",):
            continue
        if not entry.has_option(*_ASKING) and not entry.env.keys() & {*_ASKING_VARIABLES}:
            yield f"{entry.shown}: {facts.host.title} shows its person nothing that a server asks."


def answers_file(facts: HostFacts) -> Iterator[str]:
    """Files that answer for a person."""
    for entry in facts.entries:
        if entry.has_option("--answers") or "ABP_ANSWERS" in entry.env:
            yield f"{entry.shown}: a file answers what is asked, before any person is."


# It declares that it asks, and never answers when it is asked.
_SILENT_AGENTS = {"zed-industries/codex-acp": "@agentclientprotocol/codex-acp"}


def silent_agent(facts: HostFacts) -> Iterator[str]:
    """Agents that declare that they ask, and never answer."""
    for entry in facts.entries:
        behind = wrapped_command(entry.words) or ()
        for silent, other in _SILENT_AGENTS.items():
            if any(silent in word for word in behind):
                yield f"{entry.shown}: {silent} never answers what a server asks; {other} does."


def misspelt_settings(facts: HostFacts) -> Iterator[str]:
    """Misspelt settings, and removed ones, with which the bridge does not start."""
    for entry in facts.entries:
        for removed in filter(None, map(describe_removed, entry.env)):
            yield f"{entry.shown} sets {' '.join(removed.splitlines())}"
        for name, meant in misspelt(entry.env):
            yield f"{entry.shown} sets {label(name)}, which is no setting: is {meant} meant?"


def started_by_uvx(facts: HostFacts) -> Iterator[str]:
    """Commands that fetch us when they start."""
    for entry in facts.entries:
        if entry.server.own is None and entry.own:
            yield (
                f"{entry.shown} starts us by {label(entry.words[0])}, which fetches what it lacks"
                " first: some hosts wait a second."
            )
