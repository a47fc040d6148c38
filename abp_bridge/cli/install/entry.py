"""The entry that the options of `install` ask for, as a change of one file that is not made yet."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from abp_bridge.cli.install.place import Place
from abp_bridge.cli.install.proposal import Proposal
from abp_bridge.core.json_value import JsonValue, as_object
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import SIMILAR, nearest
from abp_bridge.settings import TABLE
from abp_bridge.settings.table import Setting
from abp_bridge.settings.targets import BUILT_IN, is_extension
from abp_bridge.setup import change
from abp_bridge.setup.entries import (
    Launch,
    Server,
    Wanted,
    additions,
    find_rewrapped,
    find_wrapped,
    is_started_by_another,
    list_servers,
    make_entry,
    unread_words,
    wrapped_command,
)
from abp_bridge.setup.file import SetupError, read_backup
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import FormatError, find
from abp_bridge.setup.hosts import (
    BROWSER_VARIABLES,
    DISPLAY_VARIABLES,
    NAME,
    QUESTION_LIMIT,
    FormatName,
)

if TYPE_CHECKING:
    import argparse

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
    server = place.find(_name(place, options))
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
    return _propose(place, wanted.path[-1], made, notes, is_theirs=theirs)


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


def _name(place: Place, options: argparse.Namespace) -> str:
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
        host, layout, _name(place, options), launch, beside=beside, approve=options.approve
    )


def _kept(there: Sequence[str], apps: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    """The arguments of ours that is there, without those that are given anew."""
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
    """Whether the word behind an option is its value, or stands for itself."""
    return option.const is None or word.lower() in (option.choices or ())


def _limit(place: Place) -> list[str]:
    """How long a server's question waits, where the host gives its call up before that."""
    patience = place.host.patience
    if patience is None or patience > QUESTION_LIMIT:
        return []
    return ["--timeout", f"{patience * 0.8:.0f}s"]


def _find_display(place: Place) -> dict[str, str]:
    """The variables by which a browser is found, where the host keeps them back; none of them in
    what others may get with a project.
    """
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
        return _propose(place, server.name, made, [*notes], is_theirs=True)
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
    return _propose(place, server.name, made, [*_notes(place, server.name, server)], is_theirs=True)


def is_behind_us(server: Server) -> bool:
    """Whether it is another server, or an agent, that we are put before."""
    return server.launch is not None and wrapped_command(server.launch.words) is not None


def find_originals(place: Place, backup: bytes | None) -> list[tuple[Server, Server]]:
    """The servers behind us that the backup has as they were before that: as they were, and as they
    are.
    """
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
    """A change that leaves the backup alone where that has a server as it was before we came before
    it: what would take its place has the server behind us.
    """
    return replace(made, keeps_backup=made.keeps_backup or bool(find_originals(place, backup)))


def find_server(place: Place, name: str) -> Server:
    """The entry of this name, which has to be there. Raises SetupError."""
    server = place.find(name)
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


def _propose(
    place: Place, name: str, made: change.Change, notes: list[str], *, is_theirs: bool = False
) -> Proposal:
    entry = _entry_after(place, name, made)
    commands: list[tuple[str, ...]] = []
    if place.by_host and made.is_one:
        if place.find(name) is not None:
            commands.append((*place.remove, name))
        commands.append((*place.add, name, json.dumps(entry)))
    return Proposal(place, name, made, entry, tuple(commands), tuple(notes), is_theirs=is_theirs)


def _entry_after(place: Place, name: str, made: change.Change) -> JsonValue:
    after = Document(made.after or b"", place.host.format)
    return after.find((*place.layout.key, name))


def _notes(place: Place, name: str, server: Server | None) -> Iterator[str]:
    """What a person should know of this host, and of what is in its file."""
    yield from place.namesakes(name)
    if server is not None and not server.enabled:
        yield f'"{server.name}" is switched off in this file, which stays so.'
    for path, value, sentence in place.host.warnings:
        if find(place.document.value, path) == value:
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
    """What is put in by hand: the entry alone in a file, or the host's own command. Of a person's
    own entry the secrets are left out: they have them. A letter that the encoding lacks is its
    escape, which the host reads the same.
    """
    place = proposal.place
    entry = proposal.shown_entry if proposal.is_theirs else proposal.entry
    if place.by_host:
        name = _shell_word(proposal.name, encoding)
        return f"{shlex.join(place.add)} {name} {shlex.quote(json.dumps(entry))}\n"
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
