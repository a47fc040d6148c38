"""Read a configuration file once, and replace it atomically if it has not changed since.

Links are followed; mode and owner stay. One backup is kept beside the file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from abp_bridge.errors import AbpBridgeError
from abp_bridge.jsonrpc.files import lock


class SetupError(AbpBridgeError):
    """A host's configuration stays as it is; the message says why, and what to do."""


logger = logging.getLogger(__name__)

MAX_FILE = 8 * 2**20  # bytes of a file that is read
ANOTHER = "Mend that first, or name another file: --file FILE"
BACKUP = ".before-abp-bridge"  # behind the file's name
MADE = ".made-by-abp-bridge"  # in a folder that was made for a file: how many were, that the last
LOCK_LIMIT = 5.0  # seconds for another of us that writes in the same folder
_BEGUN = (".abp-bridge-", ".part")  # around a name of what is not written whole yet
_NEW = 0o600  # of a file that was not there: tokens may come to stand in it


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file as it was read: `target` is behind links, `content` None if missing."""

    path: Path
    target: Path
    content: bytes | None

    @property
    def backup(self) -> Path:
        return self.target.with_name(self.target.name + BACKUP)


def is_there(file: Path) -> bool:
    """Whether there is a file, or something keeps us from knowing: reading it says what."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def read_content(file: Path) -> bytes | None:
    """All of a file; None where there is none. Raises SetupError."""
    try:
        if stat.S_IFMT(file.stat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise SetupError(f"{file} cannot be read: it is a device or a pipe. {ANOTHER}")
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise SetupError(f"{file} cannot be read: {why}. {ANOTHER}") from None
    if len(content) > MAX_FILE:
        raise SetupError(
            f"{file} has more than {MAX_FILE // 2**20} MiB: it is left alone. {ANOTHER}"
        )
    return content


def read_file(path: Path) -> ConfigFile:
    """A file, or that there is none. Raises SetupError."""
    try:
        target = path.resolve()
    except OSError as problem:
        raise SetupError(f"{path} cannot be read: {problem.strerror}. {ANOTHER}") from None
    except RuntimeError:
        raise SetupError(f"{path} is a link that leads back to itself. {ANOTHER}") from None
    return ConfigFile(path, target, read_content(target))


def read_backup(file: ConfigFile) -> bytes | None:
    """The content of its backup; None where there is none. Raises SetupError."""
    return read_content(file.backup)


def write_file(file: ConfigFile, content: bytes | None, *, backup: bool) -> None:
    """Replace a file that is still as it was read; None removes it.

    Raises:
        SetupError: It has changed, or cannot be written. File and backup stay as they were.
    """
    _check_unchanged(file)
    try:
        with _folder(file.target.parent, makes=content is not None) as folder, _locked(folder):
            _check_unchanged(file)
            if backup:
                _keep_backup(file)
                _check_unchanged(file)
            if content is None:
                file.target.unlink()
            else:
                _replace(file.target, content, file.target)
    except OSError as problem:
        where = problem.filename or file.path
        raise SetupError(
            f"{file.path} cannot be written: {problem.strerror} ({where}). --print shows what to"
            " put in by hand"
        ) from None


@contextlib.contextmanager
def _folder(folder: Path, *, makes: bool) -> Iterator[Path]:
    """Make the folder if `makes`, and remove it again if the body fails."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()] if makes else []
    made: list[Path] = []
    try:
        for each in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another made it just now
                each.mkdir()
                made.append(each)
        if made:
            (folder / MADE).write_text(f"{len(made)}\n")
        yield folder
    except (OSError, SetupError):
        if made and (not folder.exists() or [*folder.iterdir()] == [folder / MADE]):
            (folder / MADE).unlink(missing_ok=True)
            _remove(reversed(made))
        raise


def remove_folders(folder: Path) -> None:
    """Remove the empty folders that were made for our file."""
    marker = folder / MADE
    with contextlib.suppress(OSError, ValueError, SetupError):
        made = int(read_content(marker) or b"0")
        marker.unlink()
        _remove((folder, *folder.parents)[: max(made, 0)])


def _remove(folders: Iterable[Path]) -> None:
    with contextlib.suppress(OSError):
        for each in folders:
            each.rmdir()


def keep_backup(file: ConfigFile) -> None:
    """Keep what was read beside the file, in place of the backup before. Raises OSError."""
    with _locked(file.target.parent):
        _keep_backup(file)


def _keep_backup(file: ConfigFile) -> None:
    if file.content is not None:
        _replace(file.backup, file.content, file.target)


def _check_unchanged(file: ConfigFile) -> None:
    if read_content(file.target) != file.content:
        raise SetupError(f"{file.path} has changed meanwhile: run this again")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other writers of ours; raise OSError after `LOCK_LIMIT`."""
    if os.name != "posix" or not folder.is_dir():
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _lock(descriptor):
            _remove_begun(folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        lock(descriptor, wait=LOCK_LIMIT)
    except BlockingIOError:
        raise
    except OSError as problem:  # some networks' folders; that a file has changed is seen without
        logger.info("a folder cannot be locked: %s", problem)
        return False
    return True


def _remove_begun(folder: Path) -> None:
    """Remove temporary files of a killed writer: they may hold tokens."""
    with contextlib.suppress(OSError):
        for begun in folder.glob("*".join(_BEGUN)):
            if not begun.is_symlink() and begun.is_file():
                begun.unlink()


def remove_backup(file: ConfigFile) -> None:
    """The file is what it was before: its backup has done its work. Raises SetupError."""
    try:
        file.backup.unlink(missing_ok=True)
    except OSError as problem:
        raise SetupError(f"{file.backup} cannot be removed: {problem.strerror}") from None


def _replace(place: Path, content: bytes, like: Path) -> None:
    """Put `content` at `place` in one step, with the mode and the owner of `like`."""
    descriptor, begun = tempfile.mkstemp(dir=place.parent, prefix=_BEGUN[0], suffix=_BEGUN[1])
    try:
        with open(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        _make_alike(begun, like)
        os.replace(begun, place)
    finally:
        Path(begun).unlink(missing_ok=True)


def _make_alike(path: str, like: Path) -> None:
    try:
        wanted = like.stat()
    except FileNotFoundError:
        os.chmod(path, _NEW)
        return
    made = os.stat(path)
    if (made.st_uid, made.st_gid) != (wanted.st_uid, wanted.st_gid) and hasattr(os, "chown"):
        os.chown(path, wanted.st_uid, wanted.st_gid)
    os.chmod(path, stat.S_IMODE(wanted.st_mode))
