"""Tokens of a sign-in, kept in the system's keyring or a private file, shared by this user's
bridges.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

from abp_bridge.core.json_value import JsonObject, JsonValue, as_number, as_object, parse_json
from abp_bridge.jsonrpc.files import lock, wait_for_lock

logger = logging.getLogger(__name__)

EXPIRY_MARGIN = 30.0  # seconds before its end a token counts as over: it has a way to go
SERVICE = "abp-bridge"  # in the keyring


class Discovery(BaseModel):
    """Where a token is renewed."""

    server: str | None = None
    metadata: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None


class TokenStore:
    """The SDK's `TokenStorage` for one server; also keeps the expiry and the token endpoint."""

    def __init__(self, url: str) -> None:
        name = hashlib.blake2b(url.encode(), digest_size=16).hexdigest()
        self._vault = _find_vault(name)
        # No secret, and too long for some keyrings.
        self._server = _File(_data_folder() / f"{name}.server.json")
        self._lock_path = _data_folder() / f"{name}.lock"
        self._kept: JsonObject = {}
        self._found: JsonObject = {}
        self._is_shared = True  # that it could be written, as far as it was tried
        self._rejected: str | None = None
        self._may_renew = True
        self.load()

    def load(self) -> None:
        """Read what is stored now. Call it in a thread: a keyring may block."""
        if not self._is_shared:
            return
        self._kept, self._found = (
            _decode(self._vault.read_secret()),
            _decode(self._server.read_secret()),
        )

    @contextlib.asynccontextmanager
    async def lock(self, wait: float) -> AsyncIterator[None]:
        """Lock sign-in and renewal among this user's bridges, waiting at most `wait` seconds.

        Some servers treat a token that is renewed twice as stolen. Raises OAuthFlowError.
        """
        with contextlib.ExitStack() as opened:
            if os.name == "posix":
                try:
                    descriptor = _open(self._lock_path)
                    opened.callback(os.close, descriptor)
                    await _acquire(descriptor, wait)
                except TimeoutError:
                    words = "another abp-bridge has been waiting for you to sign in: do that first"
                    raise OAuthFlowError(words) from None
                except OSError as problem:  # some networks' folders
                    logger.warning("sign-ins of several bridges are not kept apart: %s", problem)
            yield

    @property
    def port(self) -> int | None:
        """The port of the registered redirect address."""
        uris = as_object(self._kept.get("client")).get("redirect_uris")
        first = uris[0] if isinstance(uris, list) and uris else None
        return urlsplit(first).port if isinstance(first, str) else None

    @property
    def expires_at(self) -> float | None:
        """When the access token expires, in seconds since 1970."""
        end = as_number(self._kept.get("end"))
        return None if end is None else end - EXPIRY_MARGIN

    @property
    def discovered(self) -> Discovery:
        """Where a token is renewed, as found at sign-in."""
        return _validated(Discovery, self._found) or Discovery()

    def mark_rejected(self, token: str, *, may_renew: bool) -> None:
        """Note that the server refuses this access token, whatever its expiry."""
        self._rejected, self._may_renew = token, may_renew

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, with an expired or rejected access token emptied."""
        tokens = as_object(self._kept.get("tokens"))
        was_refused = self._rejected is not None and tokens.get("access_token") == self._rejected
        if was_refused and not self._may_renew:
            return None
        if was_refused or (self.expires_at is not None and time.time() > self.expires_at):
            tokens = {**tokens, "access_token": ""}
        return _validated(OAuthToken, tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        end = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._keep(tokens=tokens.model_dump(mode="json", exclude_none=True), end=end)

    async def set_discovered(self, discovery: Discovery) -> None:
        if discovery != self.discovered:
            self._found = discovery.model_dump(mode="json", exclude_none=True)
            await _store(self._server, self._found)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return _validated(OAuthClientInformationFull, self._kept.get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._keep(client=client_info.model_dump(mode="json", exclude_none=True))

    async def _keep(self, **members: JsonValue) -> None:
        self._kept = {**self._kept, **members}
        self._is_shared = await _store(self._vault, self._kept)


async def _store(vault: _Keyring | _File, kept: JsonObject) -> bool:
    """Store it; False if that failed."""
    try:
        await anyio.to_thread.run_sync(vault.write_secret, json.dumps(kept), abandon_on_cancel=True)
    except OSError as problem:
        logger.warning("you will have to sign in again the next time: %s", problem)
        return False
    return True


def _decode(text: str | None) -> JsonObject:
    try:
        return as_object(parse_json(text or "{}"))
    except ValueError:
        return {}


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


async def _acquire(descriptor: int, wait: float) -> None:
    try:
        lock(descriptor)
    except BlockingIOError:
        with anyio.fail_after(wait):
            await wait_for_lock(descriptor)


Model = TypeVar("Model", bound=BaseModel)


def _validated(model: type[Model], value: JsonValue) -> Model | None:
    try:
        return model.model_validate(value) if value else None
    except ValidationError:  # of another version of ours: as if there were none
        return None


def _find_vault(name: str) -> _Keyring | _File:
    """Return the keyring if there is one, else a file."""
    file = _File(_data_folder() / f"{name}.json")
    try:
        keyring: Any = importlib.import_module("keyring")  # of the extra `keyring`
        return _Keyring(keyring, name, file) if keyring.get_keyring().priority > 0 else file
    except Exception as problem:  # none of its kinds of trouble keeps anybody from signing in
        logger.debug("there is no keyring: %s", type(problem).__name__)
        return file


def _data_folder() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(base) / "abp-bridge/sign-ins"


class _Keyring:
    """The keyring; a file while it cannot be written."""

    def __init__(self, keyring: Any, name: str, file: _File) -> None:
        self._keyring = keyring
        self._name = name
        self._file = file

    def read_secret(self) -> str | None:
        if (newer := self._file.read_secret()) is not None:
            return newer
        try:
            found = self._keyring.get_password(SERVICE, self._name)
        except Exception as problem:
            self._warn(problem)
            return None
        return found if isinstance(found, str) else None

    def write_secret(self, text: str) -> None:
        try:
            self._keyring.set_password(SERVICE, self._name, text)
        except Exception as problem:
            self._warn(problem)
            self._file.write_secret(text)
        else:
            self._file.remove()

    def _warn(self, problem: Exception) -> None:
        logger.warning("the keyring cannot be used (%s): a file is", type(problem).__name__)


class _File:
    """A file that only this user can read at any moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_secret(self) -> str | None:
        try:
            return self._path.read_text()
        except (OSError, UnicodeDecodeError):
            return None

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def write_secret(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self._path.parent)  # which has the mode 0600
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            Path(name).replace(self._path)
        except BaseException:  # a cancellation too: no half of a token stays; it is raised again
            Path(name).unlink(missing_ok=True)
            raise
