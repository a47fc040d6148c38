"""A change of a host's configuration: shown, agreed to, made, and told what comes next."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from abp_bridge.cli.install.difference import changed_lines
from abp_bridge.cli.install.place import Place
from abp_bridge.cli.install.secrets import WORK, Mask, find_own_secrets, find_secrets
from abp_bridge.cli.output import print_json, print_text
from abp_bridge.core.json_value import JsonObject, JsonValue, map_texts
from abp_bridge.core.sanitize import message, reveal
from abp_bridge.setup.change import Change
from abp_bridge.setup.entries import list_servers, read_server
from abp_bridge.setup.file import (
    SetupError,
    keep_backup,
    read,
    remove_backup,
    remove_folders,
    write,
)
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import equal
from abp_bridge.setup.locate import parse

if TYPE_CHECKING:
    import argparse

Status = Literal["done", "nothing to do", "shown", "declined"]
COMMAND_LIMIT = 60.0  # seconds for a command of a host's
NOT_DONE = 1


@dataclass(frozen=True)
class Proposal:
    """What is to become of one entry.

    Attributes:
        place: Where.
        name: Of the entry.
        change: Of the file.
        entry: What is there afterwards; None where nothing is.
        commands: Of the host's, where it has to write its file itself.
        notes: What a person should know of this change, a sentence each.
        restores: The file is afterwards what its backup has.
        is_theirs: The entry is a person's own, or has one inside: its secrets are not shown.
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
        """What is there now; None where nothing is."""
        return self.place.document.find((*self.place.layout.key, self.name))

    @cached_property
    def mask(self) -> Mask:
        """What of the file, and of a person's own entry, is not shown."""
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
        """Whether the entry starts us afterwards."""
        read_own = read_server(self.place.layout, self.name, self.entry).own
        return self.entry is not None and read_own is not None

    @property
    def leaves_ours(self) -> bool:
        """Whether an entry of ours is in the file afterwards."""
        host = self.place.host
        value = Document(self.change.after or b"", host.format).value
        found = (
            each for agents in (False, True) for each in list_servers(host, value, agents=agents)
        )
        return any(each.own is not None for each in found)

    @property
    def shown_entry(self) -> JsonValue:
        """The entry as it is shown."""
        return map_texts(self.entry, self.mask.hide)

    @property
    def shown_commands(self) -> list[list[str]]:
        """The host's commands as they are shown."""
        return [[*map(self.mask.hide, command)] for command in self.commands]


def carry_out(proposal: Proposal, options: argparse.Namespace) -> int:
    """Show a change, ask, make it, and say what comes next.

    Returns:
        The exit code: 0 where all is as it was asked for.

    Raises:
        SetupError: It cannot be made.
    """
    status: Status = "nothing to do"
    if proposal.change.is_one:
        status = _agree(proposal, options)
    if status == "done":
        _make(proposal)
    if options.json:
        print_json(json.dumps(_describe(proposal, status)) + "\n")
    else:
        for line in _tell(proposal, status):
            _print(reveal(line))
    return 0 if status in ("done", "nothing to do") else NOT_DONE


def _agree(proposal: Proposal, options: argparse.Namespace) -> Status:
    """Whether it is to be made, as the options or the person say."""
    if not options.json:
        for line in _show(proposal):
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


def _show(proposal: Proposal) -> Iterator[str]:
    """The change: the commands of the host, or the lines that go and come."""
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
    write(file, change.after, backup=not change.keeps_backup and not proposal.restores)
    if proposal.restores:
        remove_backup(file)
    if proposal.entry is None and not proposal.leaves_ours:
        remove_folders(file.target.parent)


def _have_host_write(proposal: Proposal) -> None:
    """Run the host's commands. Raises SetupError; what one of them took out is there again then, or
    in the backup.
    """
    if not equal(_entry_now(proposal), proposal.entry_before):
        raise SetupError(f"{proposal.place.file.path} has changed meanwhile: run this again")
    first, *others = proposal.commands
    has_run = False
    try:
        _run(first, proposal)
        has_run = True
        if others and _entry_now(proposal) is not None:
            ran, where = shlex.join(first[:3]), proposal.place.where
            raise SetupError(f'{ran} ended well, but "{proposal.name}" is still in {where}')
        for command in others:
            _run(command, proposal)
        _check_made(proposal)
    except SetupError as problem:
        told = "" if proposal.entry_before is None else _put_back(proposal, has_run=has_run)
        raise SetupError(f"{problem}{told}") from None


def _check_made(proposal: Proposal) -> None:
    """Raises SetupError where the host's file does not say what it was to say: a program that ends
    well may have done nothing.
    """
    place, name = proposal.place, proposal.name
    launches = [
        None if entry is None else read_server(place.layout, name, entry).launch
        for entry in (proposal.entry, _entry_now(proposal))
    ]
    if launches[0] != launches[1]:
        ran = shlex.join(proposal.commands[-1][:3])
        raise SetupError(f'{ran} ended well, but "{name}" in {place.where} is not as wanted')


def _put_back(proposal: Proposal, *, has_run: bool) -> str:
    """Have the host take the entry again that it had: what came of that, as a further sentence.

    `has_run` says that it took one out. Where that is still there it was another, as of another
    folder: the file as it was has that.
    """
    place, name = proposal.place, proposal.name
    if _is_as_before(proposal):
        return f". {_keep(proposal)}" if has_run else ""
    with suppress(SetupError):  # whatever it says: what is there now is looked at
        _run((*place.add, name, json.dumps(proposal.entry_before)), proposal)
    if _is_as_before(proposal):
        return f'. "{name}" is again what it was'
    return f'. "{name}" is not what it was. {_keep(proposal)}'


def _is_as_before(proposal: Proposal) -> bool:
    try:
        return equal(_entry_now(proposal), proposal.entry_before)
    except SetupError:  # nobody knows what is there now
        return False


def _keep(proposal: Proposal) -> str:
    """Keep the file as it was before the host wrote it: where it is, as a sentence."""
    file = proposal.place.file
    try:
        keep_backup(file)
    except OSError as problem:
        return f"No backup can be written of what the file was: {problem.strerror}"
    return f"The file as it was before is in {file.backup}"


def _entry_now(proposal: Proposal) -> JsonValue:
    place = proposal.place
    document = parse(place.host, place.file.path, read(place.file.path).content or b"")
    return document.find((*place.layout.key, proposal.name))


def _run(command: Sequence[str], proposal: Proposal) -> None:
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
    """What has become of it, and what comes next."""
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


def _describe(proposal: Proposal, status: Status) -> JsonObject:
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
