"""Which file of a host's is meant on this machine, and what it says. Reads files, writes none."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.entries import find_layout
from abp_bridge.setup.file import SetupError, is_there, read_content
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import FormatError, LimitError
from abp_bridge.setup.hosts import Files, FileScope, Layout, SetupHost


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
    """This person's folder. Raises SetupError."""
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
