"""Which entry of which file is meant on the command line, and what that file has there now."""

from __future__ import annotations

import difflib
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from abp_bridge.cli.runtime import print_json, print_text
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_texts,
    leaves,
    map_texts,
)
from abp_bridge.core.redact.command import (
    HIDDEN,
    MIN_SECRET,
    clean_target,
    find_word_secrets,
    names_secret,
    read_named,
    show_command,
)
from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.sanitize import label, message, reveal
from abp_bridge.setup.change import Change
from abp_bridge.setup.entries import (
    Machine,
    Server,
    find_layout,
    list_entries,
    list_servers,
    local_layout,
    locate,
    parse,
    read_server,
    read_value,
)
from abp_bridge.setup.file import (
    ConfigFile,
    SetupError,
    keep_backup,
    read_file,
    remove_backup,
    remove_folders,
    write_file,
)
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import equal, find_value
from abp_bridge.setup.hosts import (
    HOSTS,
    NAME,
    FileScope,
    Layout,
    Scope,
    SetupHost,
    nearest_host,
)

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class Place:
    """The servers or agents of a host in one file.

    Attributes:
        others: Where the same file has more, for the user or for this folder alone.
        scope: The user's, a project's, or the user's for this folder alone.
        by_host: The host has to write the file, as it rewrites it itself.
        hidden_by: The folder whose own entry of that name hides a project's; or "".
    """

    host: SetupHost
    file: ConfigFile
    document: Document
    layout: Layout
    others: Layout | None
    scope: Scope
    agents: bool
    by_host: bool
    hidden_by: str = ""

    def find_entry(self, name: str) -> Server | None:
        path = (*self.layout.key, name)
        self.document.check(path)
        entry = self.document.find(path)
        if entry is None:
            return None
        if not isinstance(entry, dict):
            raise SetupError(
                f'{self.where} has something at "{name}" that is no server: take it out first'
            )
        return read_server(self.layout, name, entry)

    def names(self) -> list[str]:
        keys = (each.key for each in (self.layout, self.others) if each is not None)
        return list(dict.fromkeys(x for key in keys for x in as_object(self.document.find(key))))

    def servers(self) -> list[Server]:
        return list_entries(self.document.value, self.layout, self.others)

    def is_hidden(self, server: Server) -> bool:
        """Whether another entry of its name goes before it in this folder."""
        local = self.layout if self.scope == "local" else self.others
        if local is None or server.path[:-1] == local.key:
            return False
        return self.document.find((*local.key, server.name)) is not None

    @property
    def folder(self) -> str:
        return self.layout.key[len(self.host.local)] if self.scope == "local" else ""

    @property
    def where(self) -> str:
        file = self.file.path
        return f"{file} (for {label(self.folder, 200)} alone)" if self.folder else f"{file}"

    def namesakes(self, name: str, *, goes: bool = False) -> Iterator[str]:
        """Yield notes about another entry of this name; `goes` if this one is removed."""
        there = self.others.key if self.folder and self.others is not None else None
        if there is not None and self.document.find((*there, name)) is not None:
            yield f'Another "{label(name)}", for all folders, stays: it counts ' + (
                "here now, and the same again is for that one."
                if goes
                else "where there is no other, and is changed in such a folder."
            )
        if self.hidden_by and not goes:
            folder = label(self.hidden_by, 200)
            yield f'Your own "{label(name)}" for {folder} alone goes before this one there.'

    @property
    def add_command(self) -> tuple[str, ...]:
        return tuple(word.format(scope=self.scope) for word in self.host.add)

    @property
    def remove_command(self) -> tuple[str, ...]:
        return tuple(word.format(scope=self.scope) for word in self.host.remove)


def find_host(word: str) -> SetupHost:
    """The host of this name. Raises SetupError."""
    if found := HOSTS.get(word.lower()):
        return found
    near = nearest_host(word)
    meant = f"is {near!r} meant?" if near else f"there are {', '.join(HOSTS)}."
    raise SetupError(
        f"{word!r} is no host that is known here: {meant} Another one that reads"
        " mcpServers from a JSON file: 'mcp-json --file FILE'"
    )


def find_place(
    options: argparse.Namespace, machine: Machine, *, agents: bool, reads: bool = True
) -> Place:
    """Return the place that the options name; entries for this folder alone go first."""
    host = find_host(options.host)
    agents = agents or not host.layouts
    usual = find_layout(host, {}, agents=agents)
    if usual is None:
        raise SetupError(f"{host.title} starts no agents from a file")
    of_file: FileScope = "project" if options.project or not host.user else "user"
    path = Path(options.file).absolute() if options.file else locate(host, of_file, machine)
    if path is None:
        raise SetupError(f"{host.title} has no file for a project: leave out --project")
    file = read_file(path) if reads else ConfigFile(path, path, None)
    document = parse(host, path, file.content or b"")
    layout = find_layout(host, document.value, agents=agents) or usual
    is_theirs = of_file == "user" and not options.file
    by_host = bool(host.add) and is_theirs
    local = local_layout(host, document.value, machine) if is_theirs and not agents else None
    if (
        local is not None
        and find_value(document.value, (*local.key, _wanted_name(options))) is not None
    ):
        return Place(host, file, document, local, layout, "local", agents, by_host)
    hidden_by = "" if of_file == "user" or options.file else _find_local(host, options, machine)
    return Place(host, file, document, layout, local, of_file, agents, by_host, hidden_by)


def _find_local(host: SetupHost, options: argparse.Namespace, machine: Machine) -> str:
    """For which folder alone the person's file has the entry that is meant; empty where none."""
    try:
        value = read_value(host, locate(host, "user", machine) if host.local else None)
    except SetupError:  # it is not the file that is meant, and Claude Code says it itself
        return ""
    local = local_layout(host, value, machine)
    if local is None or find_value(value, (*local.key, _wanted_name(options))) is None:
        return ""
    return local.key[len(host.local)]


def _wanted_name(options: argparse.Namespace) -> str:
    return options.wrap or options.name or NAME


Status = Literal["done", "nothing to do", "shown", "declined"]
COMMAND_LIMIT = 60.0  # seconds for a command of a host's
NOT_DONE = 1


@dataclass(frozen=True)
class Proposal:
    """A planned change of one entry.

    Attributes:
        entry: The new entry; None if it is removed.
        commands: The host's commands, if it has to write its file itself.
        notes: Sentences for the user about this change.
        restores: The file will equal its backup.
        is_theirs: The entry is or wraps the user's own: its secrets are hidden.
    """

    place: Place
    name: str
    change: Change
    entry: JsonValue
    commands: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    restores: bool = False
    is_theirs: bool = False

    @property
    def entry_before(self) -> JsonValue:
        return self.place.document.find((*self.place.layout.key, self.name))

    @cached_property
    def mask(self) -> Mask:
        return Mask(self._secrets())

    def _secrets(self) -> set[str]:
        found = find_secrets(self.place.document.value)
        if self.is_theirs:
            return found | find_secrets(self.entry)
        entries: list[JsonValue] = [self.entry_before, self.entry]
        ours = json.dumps(entries, ensure_ascii=False)
        if len(found) * len(ours) <= WORK:
            found = {x for x in found if json.dumps(x, ensure_ascii=False)[1:-1] not in ours}
        return found | find_own_secrets(entries)

    @property
    def is_ours(self) -> bool:
        read_own = read_server(self.place.layout, self.name, self.entry).own
        return self.entry is not None and read_own is not None

    @property
    def leaves_ours(self) -> bool:
        host = self.place.host
        value = Document(self.change.after or b"", host.format).value
        found = (
            each for agents in (False, True) for each in list_servers(host, value, agents=agents)
        )
        return any(each.own is not None for each in found)

    @property
    def shown_entry(self) -> JsonValue:
        return map_texts(self.entry, self.mask.hide)

    @property
    def shown_commands(self) -> list[list[str]]:
        return [[*map(self.mask.hide, command)] for command in self.commands]


def carry_out(proposal: Proposal, options: argparse.Namespace) -> int:
    """Show a change, ask, make it, say what comes next, and return the exit code."""
    status: Status = "nothing to do"
    if proposal.change.is_one:
        status = _agree(proposal, options)
    if status == "done":
        _make(proposal)
    if options.json:
        print_json(json.dumps(_proposal_members(proposal, status)) + "\n")
    else:
        for line in _tell(proposal, status):
            _print(reveal(line))
    return 0 if status in ("done", "nothing to do") else NOT_DONE


def _agree(proposal: Proposal, options: argparse.Namespace) -> Status:
    if not options.json:
        for line in _change_lines(proposal):
            _print(reveal(line))
    if not _can_make(proposal):
        return "shown"
    if options.yes:
        return "done"
    if options.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "shown"
    sys.stdout.write("Do this? [y/N] ")
    sys.stdout.flush()
    return "done" if sys.stdin.readline().strip().lower() in ("y", "yes") else "declined"


def _can_make(proposal: Proposal) -> bool:
    """Whether the host's own command is here, where it takes that."""
    return not proposal.commands or shutil.which(proposal.commands[0][0]) is not None


def _change_lines(proposal: Proposal) -> Iterator[str]:
    if proposal.commands:
        yield f"{proposal.place.host.title} itself writes {proposal.place.where}:"
        for command in proposal.shown_commands:
            yield f"  {shlex.join(command)}"
        return
    yield from diff(proposal)


def diff(proposal: Proposal) -> Iterator[str]:
    """The lines that go and come, without those around them: secrets may stand there."""
    change, path = proposal.change, str(proposal.place.file.path)
    before, after = (
        (content or b"").decode(errors="replace").splitlines()
        for content in (change.before, change.after)
    )
    names = ("nothing" if change.before is None else path, path)
    if change.after is None:
        names = (path, "nothing")
    if before == after:
        yield f"  (only how lines end, in {path})"
        return
    yield from (f"--- {names[0]}", f"+++ {names[1]}")
    yield from map(proposal.mask.hide, changed_lines(before, after))


def _make(proposal: Proposal) -> None:
    if proposal.commands:
        _have_host_write(proposal)
        return
    file, change = proposal.place.file, proposal.change
    write_file(file, change.after, backup=not change.keeps_backup and not proposal.restores)
    if proposal.restores:
        remove_backup(file)
    if proposal.entry is None and not proposal.leaves_ours:
        remove_folders(file.target.parent)


def _have_host_write(proposal: Proposal) -> None:
    """Run the host's commands; if one fails, restore the entry it removed."""
    if not equal(_entry_now(proposal), proposal.entry_before):
        raise SetupError(f"{proposal.place.file.path} has changed meanwhile: run this again")
    first, *others = proposal.commands
    has_run = False
    try:
        _run_host_command(first, proposal)
        has_run = True
        if others and _entry_now(proposal) is not None:
            ran, where = shlex.join(first[:3]), proposal.place.where
            raise SetupError(f'{ran} ended well, but "{proposal.name}" is still in {where}')
        for command in others:
            _run_host_command(command, proposal)
        _check_made(proposal)
    except SetupError as problem:
        told = "" if proposal.entry_before is None else _put_back(proposal, has_run=has_run)
        raise SetupError(f"{problem}{told}") from None


def _check_made(proposal: Proposal) -> None:
    """Raise SetupError if the host's command succeeded without the change."""
    place, name = proposal.place, proposal.name
    launches = [
        None if entry is None else read_server(place.layout, name, entry).launch
        for entry in (proposal.entry, _entry_now(proposal))
    ]
    if launches[0] != launches[1]:
        ran = shlex.join(proposal.commands[-1][:3])
        raise SetupError(f'{ran} ended well, but "{name}" in {place.where} is not as wanted')


def _put_back(proposal: Proposal, *, has_run: bool) -> str:
    """Have the host add the removed entry again, and return a sentence about it."""
    place, name = proposal.place, proposal.name
    if _is_as_before(proposal):
        return f". {_keep(proposal)}" if has_run else ""
    with suppress(SetupError):  # whatever it says: what is there now is looked at
        _run_host_command((*place.add_command, name, json.dumps(proposal.entry_before)), proposal)
    if _is_as_before(proposal):
        return f'. "{name}" is again what it was'
    return f'. "{name}" is not what it was. {_keep(proposal)}'


def _is_as_before(proposal: Proposal) -> bool:
    try:
        return equal(_entry_now(proposal), proposal.entry_before)
    except SetupError:  # nobody knows what is there now
        return False


def _keep(proposal: Proposal) -> str:
    file = proposal.place.file
    try:
        keep_backup(file)
    except OSError as problem:
        return f"No backup can be written of what the file was: {problem.strerror}"
    return f"The file as it was before is in {file.backup}"


def _entry_now(proposal: Proposal) -> JsonValue:
    place = proposal.place
    document = parse(place.host, place.file.path, read_file(place.file.path).content or b"")
    return document.find((*place.layout.key, proposal.name))


def _run_host_command(command: Sequence[str], proposal: Proposal) -> None:
    program = shutil.which(command[0]) or command[0]
    try:
        ended = subprocess.run(  # noqa: S603  # what was shown, and agreed to
            [program, *command[1:]],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_LIMIT,
        )
    except subprocess.TimeoutExpired:  # whose words have the entry
        words = shlex.join(command[:3])
        raise SetupError(f"{words} did not end within {COMMAND_LIMIT:g} s") from None
    except (OSError, subprocess.SubprocessError) as problem:
        raise SetupError(f"{command[0]} cannot be run: {problem}") from None
    if ended.returncode:
        lines = message(ended.stderr or ended.stdout).strip().splitlines()
        said = "\n".join(map(proposal.mask.hide, lines))
        raise SetupError(f"{shlex.join(command[:3])} ended with {ended.returncode}: {said}")


def _tell(proposal: Proposal, status: Status) -> Iterator[str]:
    place, where = proposal.place, proposal.place.where
    if status == "declined":
        yield "Nothing was changed."
    elif status == "shown" and not _can_make(proposal):
        there = f"there is no {proposal.commands[0][0]} here"
        cure = f"install {place.host.title} first, or put it on the PATH, and run this again"
        yield f"Nothing was changed: {there}; {cure}."
    elif status == "shown":
        yield "Nothing was changed: this is no terminal to ask at. --yes does it without asking."
    elif status == "nothing to do":
        there = "is as it should be" if proposal.is_ours else "does not go through abp-bridge"
        there = there if proposal.entry is not None else "is not there"
        yield f'Nothing to do: "{proposal.name}" {there} in {where}'
    else:
        yield f"Done: {_done(proposal)}"
    is_new = status == "done" and proposal.entry is not None
    if status == "done":
        yield f"- {place.host.then}."
    if is_new or (status == "nothing to do" and proposal.is_ours):
        theirs = verification(proposal)
        if theirs and place.host.verify_reach == "model":
            theirs += " (it begins a session with your model)"
        ours = f"abp-bridge doctor {place.host.name}" if proposal.is_ours else ""
        if checks := "; ".join(filter(None, (ours, theirs))):
            yield f"- Check it: {checks}"
    for note in (*proposal.notes, *(place.host.traps if is_new and proposal.is_ours else ())):
        yield f"- {note}"


def _done(proposal: Proposal) -> str:
    file, change, place = proposal.place.file, proposal.change, proposal.place.where
    where = "is in" if proposal.is_ours else "does not go through abp-bridge any more, in"
    what = f'"{proposal.name}" {"is not in" if proposal.entry is None else where} {place}'
    if proposal.commands:
        return what
    if change.after is None:
        return f"{what}, which was ours alone and is gone"
    if proposal.restores:
        return f"{what}, which is again what it was, to the byte"
    if change.before is None or change.keeps_backup:
        return what
    return f"{what}; what it was before is in {file.backup.name} beside it"


def verification(proposal: Proposal) -> str:
    """The host's command that shows whether the server starts; empty where there is none."""
    if proposal.entry is None:
        return ""
    words = (word.format(name=proposal.name) for word in proposal.place.host.verify)
    return shlex.join(words)


def _proposal_members(proposal: Proposal, status: Status) -> JsonObject:
    place = proposal.place
    changed = proposal.change.is_one
    return {
        "host": place.host.name,
        "name": proposal.name,
        "file": str(place.file.path),
        "folder": place.folder or None,
        "status": status,
        "entry": proposal.shown_entry,
        "diff": [*diff(proposal)] if changed and not proposal.commands else [],
        "commands": proposal.shown_commands if changed else [],
        "notes": [*proposal.notes, *(place.host.traps if proposal.is_ours else ())],
        "then": place.host.then,
        "verify": verification(proposal),
    }


def _print(line: str) -> None:
    print_text(f"{reveal(line)}\n")  # a comment of a project's file may repaint a terminal


def changed_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield the hunks of a unified diff."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    rest = range(1, shorter - start + 1)
    end = next((at - 1 for at in rest if before[-at] != after[-at]), len(rest))
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    for kind, *places in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if kind != "equal":
            first, last, new_first, new_last = places
            there, then = ((first, last), (new_first, new_last))
            yield f"@@ -{_range(start, *there)} +{_range(start, *then)} @@"
            yield from (f"-{line}" for line in old[first:last])
            yield from (f"+{line}" for line in new[new_first:new_last])


def _range(offset: int, first: int, last: int) -> str:
    length = last - first
    begin = offset + first + (length > 0)
    return f"{begin}" if length == 1 else f"{begin},{length}"


# --- what of a file is not shown ------------------------------------------------------------------

_HOLDERS = ("env", "envs", "environment", "headers")
_COMMANDS = ("command", "cmd")
WORK = 2**28  # characters that are searched, for each secret anew: a few seconds
_EACH = 50  # characters: what a text costs besides, however short
_QUOTED = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


def find_secrets(value: JsonValue) -> set[str]:
    """Return the texts to hide in a file's content."""
    return _long_enough(_secrets(value))


def find_own_secrets(value: JsonValue) -> set[str]:
    """Return the texts to hide in our own entry."""
    return _long_enough(_own_secrets(value))


def _long_enough(found: Iterator[str]) -> set[str]:
    """Return the texts and their lines, without short ones."""
    texts = {each for text in found for each in (text, *map(str.strip, text.splitlines()))}
    return {each for each in texts if len(each) >= MIN_SECRET}


def _secrets(value: JsonValue) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name in _HOLDERS or holds_secret(name):
                yield from map(str, leaves(each))
            elif name in _COMMANDS and isinstance(each, str):
                yield from _secret_words(each.split())
            else:
                yield from _secrets(each)
    elif isinstance(value, list):
        yield from _secret_words(as_texts(value))
        for each in value:
            yield from _secrets(each)
    elif isinstance(value, str) and _tells_more(value):
        yield value


def _secret_words(words: list[str]) -> Iterator[str]:
    for word in find_word_secrets(words):
        if word.whole or word.secrets or len(word.text.split()) > 1 or _tells_more(word.text):
            yield word.text


def _tells_more(word: str) -> bool:
    """Whether it is an address with more than its host, which often holds a key."""
    return "://" in word and show_command(["x", word]) != f"x {word.rstrip('/')}"


def _own_secrets(value: JsonValue) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from map(str, leaves(each)) if holds_secret(name) else _own_secrets(each)
    elif isinstance(value, str):
        yield from _own_words(value.split())
    for each in as_list(value):
        yield from _own_secrets(each)
    words = as_texts(value)
    yield from (word for before, word in pairwise(words) if names_secret(before))


def _own_words(words: list[str]) -> Iterator[str]:
    """Yield the secrets in a text that may be a command."""
    for word in find_word_secrets(words):
        named = read_named(word.text)
        if named is not None and named.is_secret:
            yield named.value
        elif word.whole or ("://" in word.text and clean_target(word.text) != word.text):
            yield word.text


class Mask:
    """Replace each secret in a text, however quoted; the whole text if there are too many."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._left = WORK

    def hide(self, line: str) -> str:
        said = self._without(_QUOTED.sub(self._requote, line))
        return said if self._left >= 0 else HIDDEN

    def _requote(self, quoted: re.Match[str]) -> str:
        try:
            said = str(json.loads(quoted[0]))
        except ValueError:
            return quoted[0]
        shown = self._without(said)
        return quoted[0] if shown == said else json.dumps(shown, ensure_ascii=False)

    def _without(self, text: str) -> str:
        self._left -= (len(text) + _EACH) * len(self._secrets)
        for each in self._secrets if self._left >= 0 else ():
            text = text.replace(json.dumps(each)[1:-1], HIDDEN).replace(each, HIDDEN)
        return text
