"""Where hosts' files are, what entries they have, and how each host writes a command."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePath

from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text, as_texts
from abp_bridge.setup.file import SetupError, is_there, read_content
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import FormatError, LimitError, equal, find_value, holding, merge
from abp_bridge.setup.hosts import (
    BROWSER_VARIABLES,
    DISPLAY_VARIABLES,
    Files,
    FileScope,
    Layout,
    SetupHost,
    Shape,
)

_PROGRAMS = ("abp-bridge", "abp-bridge.exe")
_MODULE = ("-m", "abp_bridge")
_PACKAGE = re.compile(r"abp[-_]bridge(?:\[[\w,-]*\])?(?:[=@].*)?")
_ROLES = ("serve", "mcp", "acp")


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that a host starts, with the variables that it adds."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        return (self.command, *self.args)


@dataclass(frozen=True, slots=True)
class Server:
    """An entry of a file; `launch` is None if it has no command."""

    name: str
    path: tuple[str, ...]
    entry: JsonValue
    launch: Launch | None
    enabled: bool

    @property
    def own(self) -> tuple[str, ...] | None:
        """The arguments of `abp-bridge` where it starts that; else None."""
        return None if self.launch is None else own_arguments(self.launch.words)


def own_arguments(words: Sequence[str]) -> tuple[str, ...] | None:
    """What follows `abp-bridge` or `python -m abp_bridge`; None where it is neither."""
    if not words:
        return None
    if PurePath(words[0].replace("\\", "/")).name.lower() in _PROGRAMS:
        return tuple(words[1:])
    return tuple(words[3:]) if tuple(words[1:3]) == _MODULE else None


def wrapped_command(words: Sequence[str]) -> tuple[str, ...] | None:
    """The command behind `abp-bridge mcp ... --`, or `acp`; None where it is no such command."""
    own = own_arguments(words)
    if not own or own[0] not in ("mcp", "acp") or "--" not in own:
        return None
    return own[own.index("--") + 1 :] or None


def is_started_by_another(words: Sequence[str]) -> bool:
    """Return whether a command such as `uvx abp-bridge mcp -- x` runs us by a package runner."""
    pairs = pairwise(words[1:])
    return any(_PACKAGE.fullmatch(word) and role in _ROLES for word, role in pairs)


def find_layout(host: SetupHost, value: JsonValue, *, agents: bool = False) -> Layout | None:
    """Return the last layout that occurs in the file, else the host's first, if any."""
    if agents:
        return host.agents
    for layout in host.layouts[:0:-1]:
        there = find_value(value, layout.key)
        is_entry = isinstance(there, Mapping) and not {"command", "type", "url"}.isdisjoint(there)
        if isinstance(there, Mapping) and not is_entry:
            return layout
    return host.layouts[0] if host.layouts else None


def list_servers(host: SetupHost, value: JsonValue, *, agents: bool = False) -> list[Server]:
    """The servers, or the agents, of a file that says `value`; what is no entry is left out."""
    return list_entries(value, find_layout(host, value, agents=agents))


def list_entries(value: JsonValue, *layouts: Layout | None) -> list[Server]:
    """Return the valid entries in each of these places."""
    return [
        read_server(layout, name, entry)
        for layout in layouts
        if layout is not None
        for name, entry in as_object(find_value(value, layout.key)).items()
        if isinstance(entry, Mapping)
    ]


def read_server(layout: Layout, name: str, entry: JsonValue) -> Server:
    """An entry of a file, read by its host's layout."""
    shape = layout.shape
    enabled = True
    if shape.disabled is not None:
        member, off = shape.disabled
        enabled = as_object(entry).get(member) is not off
    launch = read_launch(shape, as_object(entry))
    return Server(name, (*layout.key, name), entry, launch, enabled)


def read_launch(shape: Shape, entry: JsonObject) -> Launch | None:
    """The command of an entry; None where it has none, or one of blanks."""
    inside = as_object(entry.get(shape.within)) or entry
    words = [as_text(inside.get(shape.command))]
    if shape.args:
        words += as_texts(inside.get(shape.args))
    else:
        words = as_texts(inside.get(shape.command))
    if not words or not words[0].strip():
        return None
    env = {
        name: each
        for name, each in as_object(inside.get(shape.env)).items()
        if isinstance(each, str)
    }
    return Launch(words[0], tuple(words[1:]), env)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file should have at `path`: members `set`, and those `filled` only if missing."""

    path: tuple[str, ...]
    set: JsonObject
    filled: JsonObject

    @property
    def entry(self) -> JsonValue:
        return merge(self.set, self.filled)


def write_launch(shape: Shape, launch: Launch) -> JsonObject:
    """The members for a command and its variables."""
    inside: dict[str, JsonValue] = {shape.command: launch.command, shape.args: [*launch.args]}
    if not shape.args:
        inside = {shape.command: [*launch.words]}
    if launch.env:
        inside[shape.env] = dict(launch.env)
    return inside


def make_entry(
    host: SetupHost,
    layout: Layout,
    name: str,
    launch: Launch,
    *,
    beside: Mapping[str, str],
    approve: bool,
) -> Wanted:
    """Return the entry of a server or agent.

    Args:
        beside: Further variables that it needs.
        approve: The host calls its tools without asking first.
    """
    shape = layout.shape
    inside = write_launch(shape, launch)
    members: dict[str, JsonValue] = dict(shape.fixed)
    if shape.named:
        members[shape.named] = name
    if shape.within:
        members = {shape.within: {**members, **inside}}
    else:
        members |= inside
    if approve:
        members |= shape.approve
    filled = additions(host, shape, beside)
    return Wanted((*layout.key, name), members, {**filled, **shape.defaults})


def additions(host: SetupHost, shape: Shape, beside: Mapping[str, str]) -> dict[str, JsonValue]:
    """What a host needs to be told beside a command: variables, and how long a call may take."""
    found: dict[str, JsonValue] = {}
    if beside:
        env: JsonObject = {shape.env: dict(beside)}
        found |= {shape.within: env} if shape.within else env
    if shape.env_names:
        found[shape.env_names] = [*DISPLAY_VARIABLES]
    if shape.timeout and host.patience is not None:
        scale = 1000 if shape.unit == "ms" else 1
        found |= as_object(holding({}, shape.timeout, int(host.patience * scale)))
    return found


def find_wrapped(shape: Shape, server: Server, ours: Launch) -> JsonObject | None:
    """The members of a server's entry with our command before its own; None where it has none."""
    if server.launch is None:
        return None
    words = Launch(ours.command, (*ours.args, "--", *server.launch.words))
    return _write_members(shape, words)


def find_unwrapped(shape: Shape, server: Server) -> JsonObject | None:
    """Return the members of an entry without our command in front, if it is there."""
    command = None if server.launch is None else wrapped_command(server.launch.words)
    if command is None:
        return None
    return _write_members(shape, Launch(command[0], command[1:]))


def find_rewrapped(shape: Shape, own: Sequence[str], ours: Launch) -> JsonObject:
    """The members of an entry of ours, whose arguments are `own`, with `ours` for its program."""
    return _write_members(shape, Launch(ours.command, (*ours.args, *own)))


def is_only_wrapped(host: SetupHost, shape: Shape, earlier: Server, now: Server) -> bool:
    """Return whether wrapping is the only change of an entry, so that it can be restored."""
    if earlier.launch is None or now.launch is None:
        return False
    added = additions(host, shape, dict.fromkeys((*DISPLAY_VARIABLES, *BROWSER_VARIABLES), ""))
    was, there = (_without_command(shape, as_object(each.entry)) for each in (earlier, now))
    return earlier.launch.words == wrapped_command(now.launch.words) and _is_filled(
        was, there, added
    )


def _without_command(shape: Shape, entry: JsonObject) -> JsonObject:
    command = (shape.command, shape.args)
    inside = as_object(entry.get(shape.within))
    rest = {name: each for name, each in entry.items() if name not in command}
    if not inside:
        return rest
    return rest | {
        shape.within: {name: each for name, each in inside.items() if name not in command}
    }


def _is_filled(was: JsonValue, now: JsonValue, added: JsonValue) -> bool:
    """Whether `now` is `was`, and where that has nothing, what was `added`; "" stands for any."""
    if isinstance(now, Mapping) and isinstance(was if was is not None else added, Mapping):
        before, more = as_object(was), as_object(added)
        return before.keys() <= now.keys() and all(
            _is_filled(before.get(name), each, more.get(name)) for name, each in now.items()
        )
    if was is not None or now is None:
        return equal(was, now)
    return added == "" or (added is not None and equal(added, now))


def unread_words(shape: Shape, entry: JsonObject) -> list[JsonValue]:
    """What of its command is no text: `read_launch` leaves that out, and a host may not."""
    inside = as_object(entry.get(shape.within)) or entry
    words = inside.get(shape.args or shape.command)
    if not isinstance(words, list) and words is not None:
        return [words]
    return [each for each in as_list(words) if not isinstance(each, str)]


def _write_members(shape: Shape, launch: Launch) -> JsonObject:
    inside = write_launch(shape, launch)
    return {shape.within: inside} if shape.within else inside


# --- where the files are --------------------------------------------------------------------------


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise SetupError("the folder that this runs in is gone: change to another one") from None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where files are looked for.

    Raises:
        SetupError: The working directory was deleted.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    home: Path | None = None
    folder: Path = field(default_factory=_working_folder)
    platform: str = sys.platform


def _find_home() -> Path:
    try:
        if (home := Path.home()).is_absolute() and os.environ.get("HOME", "/") != "":
            return home
    except RuntimeError:  # neither a variable nor an account has one
        pass
    raise SetupError("there is no home for your files here: set HOME to its whole path")


def locate(host: SetupHost, scope: FileScope, machine: Machine) -> Path | None:
    """The file of a host, which may be missing yet; None where it has none of this scope here."""
    if scope == "project":
        return None if host.project is None else _project_file(host.project, machine.folder)
    return next(possible_files(user_files(host, machine), machine), None)


def user_files(host: SetupHost, machine: Machine) -> Files | None:
    """Where a host may have its person's file on such a machine; None where it has none."""
    return host.user.get(machine.platform) or host.user.get("*")


def possible_files(files: Files | None, machine: Machine) -> Iterator[Path]:
    """One for each of the folders that there may be here: the first is the file that counts."""
    if files is None:
        return
    for template in files.folders:
        if (folder := _expand(template, machine)) is not None:
            yield _existing(folder, files.names)


def _project_file(files: Files, folder: Path) -> Path:
    return _existing(folder / files.folders[0], files.names)


def _existing(folder: Path, names: tuple[str, ...]) -> Path:
    found = (folder / name for name in names if is_there(folder / name))
    return next(found, folder / names[0])


def _expand(template: str, machine: Machine) -> Path | None:
    """Return the folder of a template, or None if a variable or match is missing."""
    first, *rest = template.split("/")
    if first == "~":
        start = machine.home or _find_home()
    else:
        value = machine.environ.get(first.removeprefix("$"), "")
        if not value:
            return None
        start = Path(value)
    path = start.joinpath(*rest)
    if "*" not in template:
        return path
    found = sorted(start.glob("/".join(rest)))
    return found[0] if found else None


def local_layout(host: SetupHost, value: JsonValue, machine: Machine) -> Layout | None:
    """Return where the user's file has the entries for this folder alone, if it can."""
    usual = find_layout(host, value)
    if usual is None or not host.local:
        return None
    folder = str(repository_folder(machine.folder.absolute()))
    return Layout((*host.local, folder, *usual.key), usual.shape)


def repository_folder(folder: Path) -> Path:
    """Return the main worktree's folder, as Claude Code does, or `folder` outside any."""
    for each in (folder, *folder.parents):
        if os.path.isdir(each / ".git"):
            return each
        if os.path.isfile(each / ".git"):
            return _main_folder(each)
    return folder


def _main_folder(worktree: Path) -> Path:
    """Return the main worktree's folder if both refer to each other, else `worktree`."""
    try:
        kept = _join(worktree, _read_link(worktree / ".git").removeprefix("gitdir:").strip())
        shared = _join(kept, _read_link(kept / "commondir"))
        back = os.path.realpath(_join(kept, _read_link(kept / "gitdir")))
    except (OSError, ValueError):
        return worktree
    is_its_own = back == os.path.join(os.path.realpath(worktree), ".git")
    if kept.parent != shared / "worktrees" or not is_its_own:
        return worktree
    if shared.name == ".git":
        return shared.parent
    return worktree if os.path.exists(shared / ".git") else shared  # a bare one has no folder


def _join(folder: Path, path: str) -> Path:
    return Path(os.path.normpath(folder / path))


def _read_link(file: Path) -> str:
    """Raises OSError, or ValueError where it is no path."""
    if not stat.S_ISREG(os.lstat(file).st_mode):
        raise OSError(f"{file} is no file")
    return os.fsdecode(file.read_bytes().strip())


def parse(host: SetupHost, file: Path, content: bytes) -> Document:
    """A file's content. Raises SetupError, where a person has to mend it first."""
    with understanding(file):
        return Document(content, host.format)


@contextmanager
def understanding(file: Path) -> Iterator[None]:
    """What of a file is not understood is said with its name. Raises SetupError."""
    try:
        yield
    except LimitError as problem:
        raise SetupError(
            f"{file} is left alone: {problem}. Put our entry in by hand, as 'abp-bridge install"
            " HOST --print' shows it, or take it out by hand"
        ) from None
    except FormatError as problem:
        raise SetupError(
            f"{file} is not understood, so nothing is changed in it: {problem}. Mend that first"
        ) from None


def read_value(host: SetupHost, file: Path | None) -> JsonValue:
    """What a host's file says; None where there is none. Raises SetupError."""
    content = None if file is None else read_content(file)
    return None if file is None or content is None else parse(host, file, content).value
