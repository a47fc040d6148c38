"""`abp-bridge install`: add the bridge, a server or an agent behind it, to a host."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from abp_bridge.cli.host_file import Place, Proposal, carry_out, find_place
from abp_bridge.cli.options import argument_type
from abp_bridge.cli.runtime import complain, print_text, stdout_encoding
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object
from abp_bridge.core.redact.command import HIDDEN
from abp_bridge.core.sanitize import label, reveal
from abp_bridge.core.words import SIMILAR, nearest
from abp_bridge.errors import AbpBridgeError
from abp_bridge.log import print_message
from abp_bridge.settings import TABLE, SettingsError, describe_removed, misspelt, read_values
from abp_bridge.settings.table import Setting
from abp_bridge.settings.values import BUILT_IN, find_target_problem, is_extension
from abp_bridge.setup import change
from abp_bridge.setup.entries import (
    Launch,
    Machine,
    Server,
    Wanted,
    additions,
    find_layout,
    find_rewrapped,
    find_wrapped,
    is_started_by_another,
    list_entries,
    list_servers,
    local_layout,
    locate,
    make_entry,
    read_value,
    understanding,
    unread_words,
    wrapped_command,
)
from abp_bridge.setup.file import SetupError, is_there, read_backup
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import FormatError, find_value
from abp_bridge.setup.hosts import (
    BROWSER_VARIABLES,
    DISPLAY_VARIABLES,
    HOSTS,
    NAME,
    QUESTION_TIMEOUT,
    FileScope,
    FormatName,
    SetupHost,
)

if TYPE_CHECKING:
    import argparse


NOT_HERE = (
    "what a host would start runs on Linux and macOS only; on Windows, inside WSL. --print prints"
    " the entry all the same."
)
HIDDEN_HERE = f"'{HIDDEN}' stands for what may be secret: put in what stands there in your file"
HELP = "abp-bridge in a host's own configuration, or before a server or an agent of it"
USAGE = """\
abp-bridge install HOST [--app TARGET]... [OPTION]...
       abp-bridge install HOST --name NAME [OPTION]... -- SERVER [ARGUMENT]...
       abp-bridge install HOST --wrap NAME [OPTION]...
       abp-bridge install HOST --agent COMMAND [OPTION]...
       abp-bridge install --list [--json]"""
DESCRIPTION = """\
Writes into the configuration of a host (Codex, Goose, Claude Code, VS Code, Zed ...) how it
launches abp-bridge, as that host wants it:

  abp-bridge install codex                  your agent can connect apps, and ask you: in the host
        where it shows questions, else on a page in your browser
  abp-bridge install codex --app demo       the same, with an app
  abp-bridge install codex --wrap mongodb   its server "mongodb" goes through abp-bridge mcp from
        now on, so that what it asks reaches you; 'uninstall codex --wrap mongodb' takes us out
  abp-bridge install codex --name db -- npx -y mongodb-mcp-server  one that is not there yet
  abp-bridge install zed --agent claude-agent-acp  before an agent that the editor starts

- The change is shown first, and you are asked; off a terminal nothing is written without --yes.
- All else in the file stays, to the byte. What it was lies beside it, in a file whose name ends in
  .before-abp-bridge; 'abp-bridge uninstall HOST' goes back.
- What you change in our entry is yours: a second install touches only what it is told. Apps stay
  without --app, and go where others are named.
- A file that is not understood, or that has another server of that name, is left alone.
- Exits with 0 where the entry is there afterwards, with 1 where it was only shown or you said no,
  and with 2 where it cannot be.
"""
BEHIND = "server"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def add_install_options(parser: argparse.ArgumentParser) -> None:
    """Add what is installed where."""
    option = parser.add_argument
    option("host", nargs="?", metavar="HOST", help="a name of --list")
    option("--app", action="append", default=[], metavar="TARGET", help="an app; may be repeated")
    what = parser.add_mutually_exclusive_group().add_argument
    what("--wrap", metavar="NAME", help="have this server of the host go through abp-bridge mcp")
    what("--agent", metavar="COMMAND", help="an ACP agent, which we are put before")
    option("--name", metavar="NAME", help=f"of the entry (default: {NAME}, of an agent's ABP)")
    add_place_options(parser)
    option(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=argument_type(_read_variable),
        help="a variable that it is started with, as ABP_PAGE=open; may be repeated",
    )
    option(
        "--approve",
        action="store_true",
        help="the host calls its tools without asking you first, where it can be told that",
    )
    option("--print", action="store_true", help="print what to put in by hand, and write nothing")
    add_consent_options(parser)
    option("--list", action="store_true", help="the hosts, their files, and where we are in them")


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Add which file of the host is meant."""
    option = parser.add_argument
    option("--project", action="store_true", help="the file of the project in this folder")
    option("--file", metavar="FILE", help="this file, in place of the host's usual one")


def add_consent_options(parser: argparse.ArgumentParser) -> None:
    """Add who is asked, and how it is told."""
    option = parser.add_argument
    option("--yes", action="store_true", help="do it without asking")
    option("--json", action="store_true", help="one JSON object instead of words; asks nothing")


def run_install(options: argparse.Namespace) -> int:
    """Show a change and make it, or list the hosts. Returns the exit code."""
    if os.name != "posix" and not (options.print or options.list):
        return complain(NOT_HERE, "install")
    try:
        machine = Machine()
        if options.list:
            print_hosts(machine, as_json=options.json)
            return 0
        if options.host is None:
            raise SetupError("name a host: 'abp-bridge install --list' has them")
        _check(options)
        proposal = _propose_change(options, machine)
        if options.print:
            _print_before(proposal)
            if proposal.is_theirs and proposal.shown_entry != proposal.entry:
                print_message(HIDDEN_HERE)
            sys.stdout.write(write_snippet(proposal, stdout_encoding()))
            return 0
        return carry_out(proposal, options)
    except AbpBridgeError as problem:
        return complain(problem, "install")


def _propose_change(options: argparse.Namespace, machine: Machine) -> Proposal:
    """Return the planned change; with `--print` also if the file cannot be changed."""
    propose = propose_wrapping if options.wrap else propose_entry
    agents = options.agent is not None
    try:
        place = find_place(options, machine, agents=agents)
        with understanding(place.file.path):
            return propose(place, options)
    except SetupError as problem:
        if options.wrap or not options.print:
            raise
        place = find_place(options, machine, agents=agents, reads=False)
        proposal = propose(place, options)
        print_message(f"this is for an empty file: {problem}")
        return proposal


def _print_before(proposal: Proposal) -> None:
    """What a person should know before they run the host's own command."""
    place = proposal.place
    if place.folder:
        print_message(f"this is for {label(place.folder, 200)} alone: run it in this folder")
    if place.by_host and place.find_entry(proposal.name) is not None:
        first = shlex.join((*place.remove_command, proposal.name))
        print_message(f"one of this name is there: {first} comes first")


def _read_variable(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"{name!r} must be NAME=VALUE, as in ABP_PAGE=open")
    return name, value


def _check(options: argparse.Namespace) -> None:
    words = (*options.app, *options.server, options.agent or "", *dict(options.env).values())
    if any("\ud800" <= letter <= "\udfff" for letter in "".join(words)):
        raise SetupError("a word is no UTF-8, which no host's file can hold")
    for problem in filter(None, map(find_target_problem, options.app)):
        raise SetupError(f"--app {problem}")
    _check_settings(dict(options.env))
    if options.server and not options.name:
        raise SetupError(
            "--name says what the server is called there, as in: abp-bridge install codex --name"
            f" db -- {shlex.join(options.server)}"
        )
    if options.server and (options.wrap or options.agent):
        raise SetupError("a server after -- goes with neither --wrap nor --agent")
    if options.app and (options.server or options.wrap):
        raise SetupError("--app is for the bridge itself, or with --agent: a server has no apps")
    if options.name and not _NAME.fullmatch(options.name):
        raise SetupError(f"--name {options.name!r} must be letters, digits, - and _: hosts want so")
    if options.agent is not None and not split_command(options.agent):
        raise SetupError("--agent wants a command, as in: --agent claude-agent-acp")


def _check_settings(env: Mapping[str, str]) -> None:
    """Raises SetupError for a setting that the bridge would not start with, or not know."""
    for removed in filter(None, map(describe_removed, (*env, env.get("ABP_SAMPLING", "")))):
        raise SetupError(f"--env {removed}")
    for name, meant in misspelt(env):
        raise SetupError(f"--env {name} is no setting: is {meant} meant?")
    try:
        read_values(env, {})
    except SettingsError as problem:
        raise SetupError(f"--env {problem}") from None


AGENT_NAME = "ABP"


def split_command(command: str) -> list[str]:
    """The words of `--agent`. Raises SetupError."""
    try:
        return shlex.split(command)
    except ValueError as problem:
        raise SetupError(f"--agent {command!r}: {problem}") from None


def propose_entry(place: Place, options: argparse.Namespace) -> Proposal:
    """Our own entry, new or as it is to be from now on. Raises SetupError."""
    if options.server and place.agents:
        raise SetupError(f"{place.host.title} starts agents alone from a file: name one, --agent")
    server = place.find_entry(_wanted_name(place, options))
    wanted = make_wanted(place, options, server)
    if server is not None and server.own is None:
        raise SetupError(
            f'{place.where} has a server "{server.name}" already that is not abp-bridge:'
            f" choose another --name, or --wrap {server.name} to go before that one"
        )
    if server is not None and is_behind_us(server) and not (options.server or options.agent):
        raise SetupError(
            f'"{server.name}" in {place.where} is a server behind abp-bridge, which would go:'
            " choose another --name"
        )
    backup = read_backup(place.file)
    made = change.install(place.host.format, place.file.content, wanted, backup)
    made = keep_originals(place, made, backup)
    notes = [*_notes(place, wanted.path[-1], server)]
    if options.approve and not place.layout.shape.approve:
        notes.append(f"{place.host.title} has no word for --approve in its file: it asks as usual.")
    if place.scope != "project":
        notes += _relative(options)
    theirs = server is not None and is_behind_us(server)
    return _make_proposal(place, wanted.path[-1], made, notes, is_theirs=theirs)


def _relative(options: argparse.Namespace) -> Iterator[str]:
    """What stands in this folder and would be looked for in the one where the host starts us."""
    words = [*(shlex.split(options.agent or "")), *options.server]
    for app in options.app:
        if app.lower().startswith(("stdio:", "mcp:", "acp:")):
            words += shlex.split(app.partition(":")[2])
        elif app not in BUILT_IN and is_extension(app):
            words.append(app)
    for word in dict.fromkeys(words):
        if os.path.exists(word) and not os.path.isabs(word):
            path = shlex.quote(os.path.abspath(word))
            yield f"{label(word)} is found from this folder only: write {path} in its place."


def _wanted_name(place: Place, options: argparse.Namespace) -> str:
    return options.name or (AGENT_NAME if place.agents else NAME)


def make_wanted(place: Place, options: argparse.Namespace, server: Server | None = None) -> Wanted:
    """The entry that the options ask for, with what a person put into ours that is there."""
    host, layout = place.host, place.layout
    own, env = own_command(), dict(options.env)
    apps = [word for app in options.app for word in ("--app", app)]
    beside = _find_display(place)
    if options.server or options.agent:
        behind = _locate(place, options.server or split_command(options.agent))
        kind = ["acp", *apps] if options.agent else ["mcp", *_limit(place)]
        words = [*own[1:], *kind, "--", *behind]
        if host.on_desktop and place.scope == "user":
            beside["PATH"] = os.environ.get("PATH", os.defpath)
    else:
        page = [] if place.agents or "ABP_PAGE" in env else ["--page", "open"]
        there = (server.own if server is not None else None) or ("",)
        said = [*_kept(there[1:], apps, env)] if there[0] == "serve" else page
        words = [*own[1:], "serve", *apps, *said]
        if host.tells_patience and not place.agents and host.patience is not None:
            beside["ABP_HOST_PATIENCE"] = f"{host.patience * 1000:.0f}"
    beside = {name: value for name, value in beside.items() if name not in env}
    launch = Launch(own[0], tuple(words), env)
    return make_entry(
        host, layout, _wanted_name(place, options), launch, beside=beside, approve=options.approve
    )


def _kept(there: Sequence[str], apps: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    given = {*env, *(["--app"] if apps else [])}
    rows = [row for row in TABLE.values() if row.flag]
    anew = {row.flag: row for row in rows if not given.isdisjoint((row.flag, row.variable))}
    option: Setting | None = None  # that is given anew, and may have a value behind it
    for word in there:
        if option is not None and _is_value(option, word):
            option = None
            continue
        flag, equals, _ = word.partition("=")
        option = None if equals else anew.get(flag)
        if flag not in anew:
            yield word


def _is_value(option: Setting, word: str) -> bool:
    return option.const is None or word.lower() in (option.choices or ())


def _limit(place: Place) -> list[str]:
    """How long a server's question waits, where the host gives its call up before that."""
    patience = place.host.patience
    if patience is None or patience > QUESTION_TIMEOUT:
        return []
    return ["--timeout", f"{patience * 0.8:.0f}s"]


def _find_display(place: Place) -> dict[str, str]:
    """Return the variables a browser needs, if the host drops them and the file is not shared."""
    if place.host.environment != "bare" or place.scope == "project":
        return {}
    names = (*DISPLAY_VARIABLES, *BROWSER_VARIABLES)
    return {
        name: os.environ[name]
        for name in names
        if os.environ.get(name) and name != "SSH_CONNECTION"
    }


def _locate(place: Place, command: Sequence[str]) -> list[str]:
    """A command with the whole path of its program, for a host that has a bare PATH."""
    found = shutil.which(command[0]) if place.host.on_desktop and place.scope == "user" else None
    return [os.path.abspath(found) if found else command[0], *command[1:]]


def own_command() -> list[str]:
    """How this program is started from anywhere: its script, else its Python and module."""
    python = Path(os.path.abspath(sys.executable))
    script = python.with_name("abp-bridge.exe" if os.name == "nt" else "abp-bridge")
    return [str(script)] if script.exists() else [str(python), "-m", "abp_bridge"]


def propose_wrapping(place: Place, options: argparse.Namespace) -> Proposal:
    """The entry of `--wrap`, started through us, as we are started now. Raises SetupError."""
    server = find_server(place, options.wrap)
    own, shape = own_command(), place.layout.shape
    backup = read_backup(place.file)
    if server.own is not None and is_behind_us(server):
        again = find_rewrapped(shape, server.own, Launch(own[0], tuple(own[1:])))
        made = change.wrap(place.host.format, place.file.content or b"", server, again, {})
        made = keep_originals(place, made, backup)
        notes = _notes(place, server.name, server) if made.is_one else place.namesakes(server.name)
        return _make_proposal(place, server.name, made, [*notes], is_theirs=True)
    if server.launch is not None and is_started_by_another(server.launch.words):
        raise SetupError(f'"{server.name}" goes through abp-bridge already, by its own command')
    kind = ["acp"] if place.agents else ["mcp", *_limit(place)]
    ours = Launch(own[0], (*own[1:], *kind))
    members = find_wrapped(shape, server, ours)
    if members is None or server.own is not None:
        why = "is abp-bridge itself" if server.own is not None else "has no command"
        raise SetupError(
            f'{place.where}: "{server.name}" {why}: we are put before a server that the host'
            " starts. One at an address: give the host 'abp-bridge mcp --url ADDRESS'"
        )
    added = additions(place.host, shape, _find_display(place))
    made = change.wrap(place.host.format, place.file.content or b"", server, members, added)
    made = keep_originals(place, made, backup)
    notes = _notes(place, server.name, server)
    return _make_proposal(place, server.name, made, [*notes], is_theirs=True)


def is_behind_us(server: Server) -> bool:
    """Whether it is another server, or an agent, that we are put before."""
    return server.launch is not None and wrapped_command(server.launch.words) is not None


def find_originals(place: Place, backup: bytes | None) -> list[tuple[Server, Server]]:
    """Return the wrapped servers: as they are in the backup, and as they are now."""
    with suppress(FormatError):
        earlier = Document(backup or b"", place.host.format).value
        there = list_servers(place.host, earlier, agents=place.agents)
        before = {each.path: each for each in there if not is_behind_us(each)}
        now = list_servers(place.host, place.document.value, agents=place.agents)
        return [
            (before[each.path], each) for each in now if is_behind_us(each) and each.path in before
        ]
    return []


def keep_originals(place: Place, made: change.Change, backup: bytes | None) -> change.Change:
    """Return the change, keeping a backup that has the server unwrapped."""
    return replace(made, keeps_backup=made.keeps_backup or bool(find_originals(place, backup)))


def find_server(place: Place, name: str) -> Server:
    """The entry of this name, which has to be there. Raises SetupError."""
    server = place.find_entry(name)
    if server is None:
        names = place.names()
        if name in names:
            raise SetupError(f'{place.where}: "{name}" is empty: it has no command')
        near = nearest(name, names, SIMILAR)
        there = (
            f"is {near!r} meant?" if near else f"there are {', '.join(map(label, names)) or 'none'}"
        )
        raise SetupError(f"{place.file.path} has no server {name!r}: {there}")
    if unread := unread_words(place.layout.shape, as_object(server.entry)):
        raise SetupError(
            f'{place.where}: "{server.name}" has arguments that are no list of texts,'
            f" {label(json.dumps(unread[0]), 80)}: write them as one, or they would be lost"
        )
    return server


def _make_proposal(
    place: Place, name: str, made: change.Change, notes: list[str], *, is_theirs: bool = False
) -> Proposal:
    entry = _entry_after(place, name, made)
    commands: list[tuple[str, ...]] = []
    if place.by_host and made.is_one:
        if place.find_entry(name) is not None:
            commands.append((*place.remove_command, name))
        commands.append((*place.add_command, name, json.dumps(entry)))
    return Proposal(place, name, made, entry, tuple(commands), tuple(notes), is_theirs=is_theirs)


def _entry_after(place: Place, name: str, made: change.Change) -> JsonValue:
    after = Document(made.after or b"", place.host.format)
    return after.find((*place.layout.key, name))


def _notes(place: Place, name: str, server: Server | None) -> Iterator[str]:
    yield from place.namesakes(name)
    if server is not None and not server.enabled:
        yield f'"{server.name}" is switched off in this file, which stays so.'
    for path, value, sentence in place.host.warnings:
        if find_value(place.document.value, path) == value:
            yield sentence
    if place.scope == "project":
        yield "The command is a path of this machine: others who have the project install it too."
    if place.host.program and shutil.which(place.host.program) is None and not place.by_host:
        yield f"There is no {place.host.program} on the PATH here."
    if is_temporary(own_command()[0], os.environ):
        yield (
            "This abp-bridge lies in a cache that uvx may clear: install it for good, from its"
            " folder ('uv tool install .'), then again into this host."
        )


def is_temporary(command: str, environ: Mapping[str, str]) -> bool:
    """Whether a program lies where uvx puts what it may clear."""
    parts = Path(command).parts
    cache = environ.get("UV_CACHE_DIR", "")
    return any(part.startswith("archive-v") for part in parts) or bool(
        cache and Path(command).is_relative_to(cache)
    )


def write_snippet(proposal: Proposal, encoding: str) -> str:
    """Return what the user adds manually, without secrets of their own entry.

    Characters outside `encoding` are escaped, which the host reads the same.
    """
    place = proposal.place
    entry = proposal.shown_entry if proposal.is_theirs else proposal.entry
    if place.by_host:
        name = _shell_word(proposal.name, encoding)
        return f"{shlex.join(place.add_command)} {name} {shlex.quote(json.dumps(entry))}\n"
    alone = Document(b"", place.host.format)
    alone.insert((*place.layout.key, proposal.name), as_object(entry))
    snippet = alone.content.decode()
    return "".join(_escape(each, place.host.format, encoding) for each in snippet)


def _shell_word(word: str, encoding: str) -> str:
    try:
        word.encode(encoding)
    except UnicodeEncodeError:
        return "$'" + "".join(f"\\x{each:02x}" for each in word.encode()) + "'"
    return shlex.quote(word)


def _escape(letter: str, format: FormatName, encoding: str) -> str:
    try:
        letter.encode(encoding)
    except UnicodeEncodeError:
        is_long = letter > "\uffff" and format in ("toml", "yaml")  # JSON has two for such
        return f"\\U{ord(letter):08x}" if is_long else json.dumps(letter)[1:-1]
    return letter


WIDTH = 15  # of the longest name


def print_hosts(machine: Machine, *, as_json: bool) -> None:
    """A line for each host."""
    for host in HOSTS.values():
        about = _describe_host(host, machine)
        if as_json:
            print_text(json.dumps(about) + "\n")
        else:
            where = f"{host.name:<{WIDTH}} {host.title}: {about['file']}"
            missing = f"; no {host.program} on the PATH" if about["here"] is False else ""
            print_text(reveal(f"{where} ({about['state']}{missing})\n"))


def _describe_host(host: SetupHost, machine: Machine) -> JsonObject:
    """Return a host, whether its program is found (None: unknown), its file and our entries."""
    scope: FileScope = "user" if host.user else "project"
    file = locate(host, scope, machine)
    names: list[str] = []
    local: list[str] = []
    try:
        value = read_value(host, file)
        layouts = (find_layout(host, value, agents=agents) for agents in (False, True))
        names = _ours(list_entries(value, *layouts))
        local = _ours(list_entries(value, local_layout(host, value, machine)))
        state = "not there yet" if file is None or not is_there(file) else "without abp-bridge"
        shown = [*names, *(f"{each} for this folder alone" for each in local)]
        state = f"has {', '.join(shown)}" if shown else state
    except SetupError as problem:
        state = str(problem)
    here = shutil.which(host.program) is not None if host.program else None
    return {
        "host": host.name,
        "title": host.title,
        "file": str(file),
        "project": None if host.project is None else str(locate(host, "project", machine)),
        "ours": names,
        "oursInFolder": local,
        "here": here,
        "state": state,
    }


def _ours(servers: list[Server]) -> list[str]:
    return [label(each.name) for each in servers if each.own is not None]
