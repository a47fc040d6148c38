"""Signing in to a server over HTTP: the official SDK's OAuth flow, with a browser of the person's,
and what it brings kept for the next time.

Owns where tokens are kept (the system's keyring, else a file that only this user reads) and the
address that the browser comes back to. Nothing is opened, asked or listened to before a server
wants it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import importlib
import json
import logging
import os
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import SplitResult, parse_qs, urlsplit

import anyio
import anyio.to_thread
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import BaseModel, ValidationError

from abp_bridge.core.json_text import parse
from abp_bridge.core.json_value import JsonValue, as_number, as_object

logger = logging.getLogger(__name__)

SIGN_IN_LIMIT = 300.0  # seconds for the person to come back from the browser
MAX_REQUEST = 16 * 2**10  # bytes of what the browser brings
EARLY = 30.0  # seconds before its end a token counts as over: it has a way to go
SERVICE = "abp-bridge"  # in the keyring

_DONE = b"You are signed in. You can close this tab."


async def sign_in(
    url: str, open_browser: Callable[[str], Awaitable[object]]
) -> OAuthClientProvider:
    """What signs in to the server at `url`, when it wants that.

    Args:
        url: The server's endpoint.
        open_browser: Sends the person to an address; False says that they did not go.
    """
    store = await anyio.to_thread.run_sync(TokenStore, url)  # a keyring may take its time
    callback = _Callback(store, open_browser)
    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "abp-bridge",
            "redirect_uris": [callback.address],
            "token_endpoint_auth_method": "none",
        }
    )
    return OAuthClientProvider(url, metadata, store, callback.open, callback.wait)


class _Vault(Protocol):
    """Where one text is kept. Both may wait, and run in a thread."""

    def read(self) -> str | None: ...

    def write(self, text: str) -> None: ...


class TokenStore:
    """What signing in to one server brought: the SDK's `TokenStorage`.

    The SDK takes a stored token for one that never ends, and signs in anew at the first refusal: so
    its end is kept here, and a token that is over comes back without itself, to be renewed.
    """

    def __init__(self, url: str) -> None:
        self._vault = _find_vault(hashlib.blake2b(url.encode(), digest_size=16).hexdigest())
        try:
            self._kept = as_object(parse(self._vault.read() or "{}"))
        except ValueError:
            self._kept = {}

    @property
    def port(self) -> int | None:
        """Of the address that the server knows for this client: some take no other."""
        uris = as_object(self._kept.get("client")).get("redirect_uris")
        first = uris[0] if isinstance(uris, list) and uris else None
        return urlsplit(first).port if isinstance(first, str) else None

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, of which one that is over is empty."""
        tokens, end = as_object(self._kept.get("tokens")), as_number(self._kept.get("end"))
        if end is not None and time.time() > end - EARLY:
            tokens = {**tokens, "access_token": ""}
        return _validated(OAuthToken, tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep these tokens, and when they end."""
        end = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._write(tokens=tokens.model_dump(mode="json", exclude_none=True), end=end)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Who this client is for the server."""
        return _validated(OAuthClientInformationFull, self._kept.get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep who this client is for the server."""
        await self._write(client=client_info.model_dump(mode="json", exclude_none=True))

    async def _write(self, **members: JsonValue) -> None:
        self._kept = {**self._kept, **members}
        await anyio.to_thread.run_sync(self._vault.write, json.dumps(self._kept))


Model = TypeVar("Model", bound=BaseModel)


def _validated(model: type[Model], value: JsonValue) -> Model | None:
    try:
        return model.model_validate(value) if value else None
    except ValidationError:  # of another version of ours: as if there were none
        return None


def _find_vault(name: str) -> _Vault:
    """The system's keyring where there is one, else a file."""
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
    def __init__(self, keyring: Any, name: str, file: _File) -> None:
        self._keyring = keyring
        self._name = name
        self._file = file

    def read(self) -> str | None:
        try:
            found = self._keyring.get_password(SERVICE, self._name)
        except Exception as problem:
            self._warn(problem)
            found = None
        return found if isinstance(found, str) else self._file.read()

    def write(self, text: str) -> None:
        try:
            self._keyring.set_password(SERVICE, self._name, text)
        except Exception as problem:
            self._warn(problem)
            self._file.write(text)

    def _warn(self, problem: Exception) -> None:
        logger.warning("the keyring cannot be used (%s): a file is", type(problem).__name__)


class _File:
    """Of which nobody else reads a byte, at any moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str | None:
        try:
            return self._path.read_text()
        except (OSError, UnicodeDecodeError):
            return None

    def write(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self._path.parent)  # which has the mode 0600
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            Path(name).replace(self._path)
        except BaseException:  # a cancellation too: no half of a token stays; it is raised again
            Path(name).unlink(missing_ok=True)
            raise


class _Callback:
    """The address of this machine that the browser comes back to, once. Who else comes (another
    page, a name that leads here, a program) is refused, and changes nothing.
    """

    def __init__(self, store: TokenStore, open_browser: Callable[[str], Awaitable[object]]) -> None:
        self._open_browser = open_browser
        self._port = store.port or _free_port()
        self._server: asyncio.Server | None = None
        self._came: asyncio.Future[AuthorizationCodeResult] | None = None
        self._state = ""  # that only who was sent to sign in knows
        self.address = f"http://127.0.0.1:{self._port}/callback"

    async def open(self, url: str) -> None:
        """Listen, and send the person to sign in at `url`."""
        self._came = asyncio.get_running_loop().create_future()
        self._state = parse_qs(urlsplit(url).query)["state"][0]
        try:
            self._server = await asyncio.start_server(
                self._on_browser, "127.0.0.1", self._port, limit=MAX_REQUEST
            )
        except OSError as problem:
            raise OAuthFlowError(
                f"the port {self._port}, which the browser comes back to, is taken"
            ) from problem
        try:
            if await self._open_browser(url) is False:
                raise OAuthFlowError("nobody went there to sign in")
        except BaseException:  # a cancellation too: nobody waits, and the port is needed again
            self._server.close()
            raise

    async def wait(self) -> AuthorizationCodeResult:
        """What the browser brings, within `SIGN_IN_LIMIT`."""
        assert self._came is not None
        assert self._server is not None
        try:
            with anyio.fail_after(SIGN_IN_LIMIT):
                return await self._came
        except TimeoutError:
            raise OAuthFlowError("nobody signed in") from None
        finally:
            self._server.close()

    async def _on_browser(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            status, words = self._answer(head.decode("latin-1"))
            writer.write(
                b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n"
                b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(words), words)
            )
            await writer.drain()
        writer.close()

    def _answer(self, head: str) -> tuple[bytes, bytes]:
        first, *lines = head.splitlines()
        hosts = [line[5:].strip() for line in lines if line[:5].lower() == "host:"]
        match first.split(" "):
            case [_, _, _] if hosts != [f"127.0.0.1:{self._port}"]:
                return b"403 Forbidden", b"Nobody of this name is here."
            case ["GET", target, _]:
                return self._take(urlsplit(target))
            case [_, _, _]:
                return b"405 Method Not Allowed", b"This is an address to come back to."
        return b"400 Bad Request", b"This is no request."

    def _take(self, parts: SplitResult) -> tuple[bytes, bytes]:
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != "/callback" or self._came is None or self._came.done():
            return b"404 Not Found", b"There is nothing here."
        if not hmac.compare_digest(given.get("state", "").encode(), self._state.encode()):
            return b"403 Forbidden", b"Nobody was sent here to sign in so."
        if "code" not in given:
            refused = given.get("error_description") or given.get("error") or "it brought no code"
            self._came.set_exception(OAuthFlowError(f"the browser came back with: {refused[:200]}"))
            return b"200 OK", b"You are not signed in. You can close this tab."
        members = {name: given.get(name) for name in ("code", "state", "iss")}
        self._came.set_result(AuthorizationCodeResult.model_validate(members))
        return b"200 OK", _DONE


def _free_port() -> int:
    """A port that nobody has now: it is listened on when somebody is sent to sign in."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
