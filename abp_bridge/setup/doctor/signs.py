"""The signs of each trap: of any host, then of single hosts. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import PurePath

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_count,
    as_number,
    as_object,
    as_text,
    as_texts,
)
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import nearest
from abp_bridge.session.profiles import PROFILES
from abp_bridge.settings import REMOVED, misspelt
from abp_bridge.settings.values import MAX_SECONDS
from abp_bridge.setup.doctor.finding import Entry, HostFacts, is_our_word, mentions_us
from abp_bridge.setup.entries import wrapped_command
from abp_bridge.setup.formats.text import find_value
from abp_bridge.setup.hosts import DISPLAY_VARIABLES, HOSTS, QUESTION_TIMEOUT, SetupHost

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
    """Misspelt settings, which the bridge ignores."""
    for entry in facts.entries:
        for name, meant in misspelt(entry.env):
            yield f"{entry.shown} sets {label(name)}, which is no setting: is {meant} meant?"


def removed_settings(facts: HostFacts) -> Iterator[str]:
    """Removed settings and models, with which the bridge does not start."""
    for entry in facts.entries:
        for name in (name for name, value in entry.env.items() if value):
            if name in REMOVED:
                yield f"{entry.shown} sets {name}, which was removed: {REMOVED[name]}."
        model = entry.env.get("ABP_SAMPLING", "")
        if model in REMOVED:
            yield f"{entry.shown} sets ABP_SAMPLING={model}, which was removed: {REMOVED[model]}."


def started_by_uvx(facts: HostFacts) -> Iterator[str]:
    """Commands that fetch us when they start."""
    for entry in facts.entries:
        if entry.server.own is None and entry.own:
            yield (
                f"{entry.shown} starts us by {label(entry.words[0])}, which fetches what it lacks"
                " first: some hosts wait a second."
            )


# --- traps of single hosts ------------------------------------------------------------------------


def _names(facts: HostFacts, name: str) -> set[str]:
    """The names that one of its settings has, wherever it keeps that."""
    user = facts.file("user")
    projects = as_object(as_object(user.value if user else None).get("projects"))
    places = [*facts.beside.values(), projects.get(facts.repository)]
    return {each for place in places for each in as_texts(as_object(place).get(name))}


def claude_pending(facts: HostFacts) -> Iterator[str]:
    """A project's servers that nobody has approved."""
    if any(
        as_object(each).get("enableAllProjectMcpServers") is True for each in facts.beside.values()
    ):
        return
    known = _names(facts, "enabledMcpjsonServers") | _names(facts, "disabledMcpjsonServers")
    for entry in facts.entries:
        if entry.scope == "project" and entry.name not in known:
            yield f'"{entry.name}" of {entry.file} waits for your approval.'


def claude_rejected(facts: HostFacts) -> Iterator[str]:
    """A project's servers that somebody has rejected."""
    rejected = _names(facts, "disabledMcpjsonServers")
    for entry in facts.entries:
        if entry.scope == "project" and entry.name in rejected:
            yield f'"{entry.name}" of {entry.file} is among disabledMcpjsonServers.'


def claude_disabled(facts: HostFacts) -> Iterator[str]:
    """Servers that its person switched off in this folder, by /mcp."""
    user = facts.file("user")
    projects = as_object(as_object(user.value if user else None).get("projects"))
    off = as_texts(as_object(projects.get(facts.repository)).get("disabledMcpServers"))
    for entry in facts.entries:
        if user is not None and entry.name in off:
            where = f"disabledMcpServers of {facts.repository} in {user.path}"
            yield f"{entry.shown} is among {where}: it is not started here."


def claude_settings(facts: HostFacts) -> Iterator[str]:
    """Servers in settings, where none are read."""
    for path, value in facts.beside.items():
        if names := [*as_object(as_object(value).get("mcpServers"))]:
            shown = label(", ".join(names))
            yield f"{path} has mcpServers ({shown}): Claude Code reads no servers there."


_TEXT, _WHOLE, _NUMBER, _TABLE = "text", "true or false", "a number", "a table"
_TEXTS, _VARIABLES, _COUNT = "a list of texts", "a table of texts", "a whole number"
_CODEX_KEYS: Mapping[str, str] = {
    "command": _TEXT,
    "args": _TEXTS,
    "cwd": _TEXT,
    "env": _VARIABLES,
    "env_vars": "a list",
    "enabled": _WHOLE,
    "required": _WHOLE,
    "startup_timeout_sec": _NUMBER,
    "startup_timeout_ms": _COUNT,
    "tool_timeout_sec": _NUMBER,
    "enabled_tools": _TEXTS,
    "disabled_tools": _TEXTS,
    "default_tools_approval_mode": "auto, prompt, writes or approve",
    "tools": _TABLE,
    "url": _TEXT,
    "http_headers": _TABLE,
    "env_http_headers": _TABLE,
    "bearer_token_env_var": _TEXT,
    "supports_parallel_tool_calls": _WHOLE,
    "experimental_environment": _TEXT,
    "oauth_resource": _TEXT,
    "scopes": _TEXTS,
}
_APPROVAL_MODES = ("auto", "prompt", "writes", "approve")


def _servers(facts: HostFacts) -> Iterator[tuple[str, JsonObject]]:
    for _, value in facts.values():
        for name, entry in as_object(value.get("mcp_servers")).items():
            yield name, as_object(entry)


def codex_misspelt(facts: HostFacts) -> Iterator[str]:
    """Keys that Codex passes over."""
    for entry in facts.entries:
        for key in entry.members:
            if key not in _CODEX_KEYS and (meant := nearest(key, _CODEX_KEYS)):
                yield f"{entry.shown} has {label(key)}, which is no key: is {meant} meant?"
    for file, value in facts.values():
        for key, members in value.items():
            ours = any(map(mentions_us, as_object(members).values()))  # as `wrong_key` says
            if key != "mcp_servers" and nearest(key, ("mcp_servers",), 0.8) and not ours:
                yield f"{file.path} has {label(key)}: is mcp_servers meant?"


def _fits(value: JsonValue, wanted: str) -> bool:
    if wanted == _TEXT:
        return isinstance(value, str)
    if wanted == _WHOLE:
        return isinstance(value, bool)
    if wanted == _NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if wanted == _COUNT:
        return as_count(value) is not None
    if wanted == _TEXTS:
        return isinstance(value, list) and len(as_texts(value)) == len(value)
    if wanted == _VARIABLES:
        return isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())
    if wanted == _TABLE:
        return isinstance(value, Mapping)
    return isinstance(value, list) if wanted == "a list" else value in _APPROVAL_MODES


def codex_wrong_value(facts: HostFacts) -> Iterator[str]:
    """Values with which Codex does not start."""
    for name, entry in _servers(facts):
        if ("command" in entry) is ("url" in entry):
            both = "both command and url" if "url" in entry else "neither command nor url"
            yield f'"{label(name)}" has {both}.'
        for key, value in entry.items():
            wanted = _CODEX_KEYS.get(key)
            if wanted and not _fits(value, wanted):
                yield f'"{label(name)}": {key} is not {wanted}.'
    for file, value in facts.values():
        granular = as_object(as_object(value.get("approval_policy")).get("granular"))
        missing = [each for each in _GRANULAR if each not in granular]
        if granular and missing:
            yield f"{file.path}: approval_policy.granular lacks {', '.join(missing)}."


_GRANULAR = ("sandbox_approval", "rules", "mcp_elicitations")  # it does not start without one


def _policies(facts: HostFacts) -> Iterator[tuple[str, JsonValue]]:
    for file, value in facts.values():
        yield file.path, value.get("approval_policy")
        if chosen := as_text(value.get("profile")):
            profile = as_object(as_object(value.get("profiles")).get(chosen))
            yield f"{file.path} (profile {label(chosen, 40)})", profile.get("approval_policy")


def codex_never(facts: HostFacts) -> Iterator[str]:
    """Policies by which nobody is asked."""
    for where, policy in _policies(facts):
        if policy == "never":
            yield f'{where} has approval_policy = "never": Codex declines every question itself.'


def codex_granular(facts: HostFacts) -> Iterator[str]:
    """Granular policies by which no server asks."""
    for where, policy in _policies(facts):
        if as_object(as_object(policy).get("granular")).get("mcp_elicitations") is False:
            yield f"{where} has mcp_elicitations = false: Codex declines every question itself."


def codex_untrusted(facts: HostFacts) -> Iterator[str]:
    """A project's file that is not read."""
    file, user = facts.file("project"), facts.file("user")
    if file is None or not file.exists:
        return
    projects = as_object(as_object(user.value if user else None).get("projects"))
    levels = [
        as_object(projects.get(each)).get("trust_level") for each in (facts.folder, facts.root)
    ]
    if "trusted" not in levels and any(each.scope == "project" for each in facts.entries):
        yield f"{file.path} is not read: Codex does not trust {facts.folder}."


def codex_not_required(facts: HostFacts) -> Iterator[str]:
    """Servers that Codex does not wait for; one that we are put before is as it was."""
    for entry in facts.entries:
        is_wrapped = wrapped_command(entry.words) is not None
        is_required = is_wrapped or entry.members.get("required") is True
        if not is_required and entry.server.enabled:
            yield f"{entry.shown} is not required: Codex waits a second for it, then does without."


def codex_display(facts: HostFacts) -> Iterator[str]:
    """Servers that are kept from finding a browser."""
    needed = [each for each in DISPLAY_VARIABLES[:2] if facts.environ.get(each)]
    for entry in facts.entries if needed else ():
        given = {*as_texts(entry.members.get("env_vars")), *entry.env}
        if not given.intersection(DISPLAY_VARIABLES[:2]):
            neither = " nor ".join(DISPLAY_VARIABLES[:2])
            yield f"{entry.shown} gets neither {neither}: no page opens."


ENABLEMENT = "mcp-server-enablement.json"


def _trust(facts: HostFacts) -> str:
    """What the host's list says of this folder; empty where nothing."""
    best, level = "", ""
    for value in facts.beside.values():
        for path, said in as_object(value).items():
            above = path.rstrip("/\\")
            if said == "TRUST_PARENT":
                above = re.sub(r"[/\\][^/\\]*$", "", above)
            if above in facts.folders and len(path) > len(best):
                best, level = path, as_text(said)
    return level


def _asks_for_trust(facts: HostFacts) -> bool:
    """Whether it trusts only what its person named. Gemini CLI does unless it is told not to."""
    usual = facts.host.name == "gemini"
    user = facts.file("user")
    wanted = find_value(user.value if user else None, ("security", "folderTrust", "enabled"))
    by_variable = facts.environ.get("GEMINI_CLI_TRUST_WORKSPACE") == "true" and usual
    return (wanted if isinstance(wanted, bool) else usual) and not by_variable


def gemini_untrusted_folder(facts: HostFacts) -> Iterator[str]:
    """A folder of which nobody has said that it is trusted."""
    if facts.entries and _asks_for_trust(facts) and not _trust(facts):
        yield f"{facts.host.title} does not know whether to trust {facts.folder}."


def gemini_distrusted_folder(facts: HostFacts) -> Iterator[str]:
    """A folder that is not trusted."""
    if facts.entries and _asks_for_trust(facts) and _trust(facts) == "DO_NOT_TRUST":
        yield f"{facts.folder} is one that {facts.host.title} was told not to trust."


def gemini_disabled(facts: HostFacts) -> Iterator[str]:
    """Servers that its person switched off, by /mcp."""
    for path, value in facts.beside.items():
        for entry in facts.entries if PurePath(path).name == ENABLEMENT else ():
            said = as_object(as_object(value).get(entry.name.lower().strip()))
            if said.get("enabled") is False:
                yield f"{entry.shown} is switched off in {path}: it is not started."


def gemini_not_allowed(facts: HostFacts) -> Iterator[str]:
    """Servers that the settings keep from being started."""
    for file, value in facts.values():
        lists = as_object(value.get("mcp"))
        allowed, excluded = lists.get("allowed"), as_texts(lists.get("excluded"))
        for entry in facts.entries:
            if entry.name in excluded or (
                allowed is not None and entry.name not in as_texts(allowed)
            ):
                which = "mcp.excluded" if entry.name in excluded else "no mcp.allowed"
                yield f"{entry.shown} is in {which} of {file.path}: it is not started."


_SILENT = {
    "auto-cancel": "it dismisses every question itself",
    "none": "it does not say that it can be asked",
}


def fast_agent_never(facts: HostFacts) -> Iterator[str]:
    """Modes by which nobody is asked."""
    for entry in facts.entries:
        mode = as_object(entry.members.get("elicitation")).get("mode")
        if isinstance(mode, str) and (then := _SILENT.get(mode)):
            yield f"{entry.shown} has elicitation.mode: {mode}, with which {then}."
