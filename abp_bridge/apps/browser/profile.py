"""The folder where our browser keeps its sign-ins, and the lock on it.

A folder that holds anything else is never changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from abp_bridge.core.json_value import JsonObject, as_object, parse_json
from abp_bridge.jsonrpc.files import PlaceError, lock, private_folder, write_private
from abp_bridge.session.app import AppError

MARK = "abp-bridge.lock"  # in each folder of ours; locked, and with who uses it, while one does
_BROWSERS_OWN = ("Local State", "First Run", "Default", "Preferences", "Cookies")
_RESTORE = 1  # Chromium's word in its preferences for "continue where you left off"


class ProfileError(AppError):
    """A folder cannot be used as a profile; the message says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "BROWSER_ERROR")


def default_profile() -> Path:
    """Return the default folder of the profile.

    Raises:
        ProfileError: The user has no home folder.
    """
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "abp-bridge" / "profile"
        named = Path(os.environ.get("XDG_DATA_HOME", ""))
        data = named if named.is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError:
        raise ProfileError("There is no home to keep a profile in: name a folder.") from None
    return data / "abp-bridge" / "profile"


def find_problem(folder: Path) -> str:
    """Return why `folder` cannot be a profile, or ""."""
    try:
        if not os.path.lexists(folder):
            return ""
        found = folder.stat()
        if not folder.is_dir():
            return f"{folder} is no folder. Name one that is empty, or not there yet"
        if found.st_uid != os.getuid():
            return f"{folder} is another user's. Name a folder of your own"
        names = os.listdir(folder)
    except OSError as problem:
        return f"{folder} cannot be looked at: {problem.strerror}"
    if not names or MARK in names:
        return ""
    if any(name in names for name in _BROWSERS_OWN):
        return (
            f"{folder} is the profile of another browser. The one that you use every day is signed"
            " in everywhere, and Chrome lets no program drive it. Name a folder of its own, and"
            " sign in there once: abp-bridge login ADDRESS --profile FOLDER"
        )
    return f"{folder} holds other files. Name a folder that is empty, or not there yet"


@contextlib.contextmanager
def use_profile(folder: Path) -> Iterator[Path]:
    """Lock `folder`, created for this user only, and yield its real path.

    Raises:
        ProfileError: It cannot be a profile, or another process uses it.
    """
    folder = folder.expanduser().resolve()
    if problem := find_problem(folder):
        raise ProfileError(f"{problem}.")
    try:
        if folder.exists():
            folder.chmod(0o700)
        private_folder(folder)
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(folder / MARK, flags, 0o600)
    except PlaceError as problem:
        raise ProfileError(f"{problem}.") from None
    except OSError as problem:
        raise ProfileError(f"{folder} cannot be used: {problem.strerror}.") from None
    try:
        _lock(folder, descriptor)
        try:
            _keep_sessions(folder)
        except OSError as problem:
            raise ProfileError(f"{folder} cannot be used: {problem.strerror}.") from None
        yield folder
    finally:
        os.close(descriptor)


def _lock(folder: Path, descriptor: int) -> None:
    try:
        lock(descriptor)
    except BlockingIOError:
        process = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
        who = f"process {process}" if process.isdecimal() else "another process"
        raise ProfileError(
            f"The profile {folder} is in use by {who}, another abp-bridge. End that one, or give"
            " this one a folder of its own: --profile FOLDER."
        ) from None
    except OSError as problem:
        raise ProfileError(f"{folder} cannot be locked: {problem.strerror}.") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def has_kept(folder: Path) -> bool:
    """Return whether the last browser exited properly, and so saved the profile."""
    try:
        found = as_object(_read_preferences(folder).get("profile"))
    except OSError:
        return False
    return found.get("exit_type") == "Normal"


def _keep_sessions(folder: Path) -> None:
    """Set Chromium to keep session cookies, which most sign-ins need, without reopening tabs.

    Also forget how the last browser ended, for `has_kept`.
    """
    shutil.rmtree(folder / "Default" / "Sessions", ignore_errors=True)
    preferences = _read_preferences(folder)
    session = {**as_object(preferences.get("session")), "restore_on_startup": _RESTORE}
    profile = {**as_object(preferences.get("profile"))}
    profile.pop("exit_type", None)
    file = _preferences(folder)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    changed = {**preferences, "session": session, "profile": profile}
    write_private(file, json.dumps(changed).encode())


def _read_preferences(folder: Path) -> JsonObject:
    with contextlib.suppress(FileNotFoundError, ValueError):
        return as_object(parse_json(_preferences(folder).read_bytes()))
    return {}


def _preferences(folder: Path) -> Path:
    return folder / "Default" / "Preferences"
