"""OAuth sign-in to an HTTP server: the official SDK's flow, in the user's browser when needed."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from http import HTTPStatus
from urllib.parse import SplitResult, parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from abp_bridge.mcp.client import TRANSIENT_STATUSES
from abp_bridge.mcp.token_store import Discovery, TokenStore

SIGN_IN_LIMIT = 300.0  # seconds for the person to come back from the browser
MAX_REQUEST = 16 * 2**10  # bytes of what the browser brings
STEP_LIMIT = 30.0  # seconds for an authorization server to go on with what it says

_DONE = b"You are signed in. You can close this tab."


async def sign_in(url: str, open_browser: Callable[[str], Awaitable[object]]) -> httpx2.Auth:
    """Return what signs in to the server at `url` if it requires that.

    Args:
        open_browser: Sends the user to an address; False if they did not go.
    """
    store = await anyio.to_thread.run_sync(TokenStore, url)  # a keyring may take its time
    signing_in = _SignIn(url, store, _Callback(store.port or _free_port(), open_browser))
    await signing_in.load()
    return signing_in


class _SignIn(OAuthClientProvider):
    """The SDK's flow, used only when a token is refused.

    The SDK serialises all requests and asks the user again where another bridge renewed the token.
    """

    def __init__(self, url: str, store: TokenStore, callback: _Callback) -> None:
        super().__init__(
            url, callback.client_metadata(), store, callback.open_sign_in, callback.wait
        )
        self._store = store
        self._callback = callback
        self._flow_lock = anyio.Lock()
        self._failure: OAuthFlowError | None = None  # of the last who wanted a token

    async def load(self) -> None:
        """Load the stored tokens."""
        context, discovered = self.context, self._store.discovered
        context.current_tokens = await self._store.get_tokens()
        context.token_expiry_time = self._store.expires_at
        context.client_info = await self._store.get_client_info()
        if context.oauth_metadata is None:
            context.oauth_metadata = discovered.metadata
            context.protected_resource_metadata = discovered.resource
            context.auth_server_url = discovered.server
        if self._store.port is not None:
            self._callback.port = self._store.port
            context.client_metadata.redirect_uris = self._callback.client_metadata().redirect_uris

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send `request` with the stored token, then a renewed one, then after a new sign-in."""
        refused: httpx2.Response | None = None
        failure = self._failure
        if self._token() is None and self._flow_lock.locked():
            async with self._flow_lock:  # what would be sent without a token waits for one
                pass
        for may_renew in (True, True, False):
            was_asked = False
            if refused is not None or self._is_expired():
                was_asked = await self._obtain(request, refused, failure, may_renew=may_renew)
            if (token := self._token()) is not None:
                request.headers["Authorization"] = f"Bearer {token}"
            refused = yield request
            if was_asked or not _wants_more(refused):
                return

    def _token(self) -> str | None:
        tokens = self.context.current_tokens
        return tokens.access_token if tokens and self.context.is_token_valid() else None

    def _is_expired(self) -> bool:
        return not self.context.is_token_valid() and self.context.can_refresh_token()

    async def _obtain(
        self,
        request: httpx2.Request,
        refused: httpx2.Response | None,
        failure: OAuthFlowError | None,
        *,
        may_renew: bool,
    ) -> bool:
        """Get another token than the refused one; return whether the user was asked for it."""
        async with self._flow_lock:
            if self._failure is not failure:  # meanwhile, of who asked for the same
                raise OAuthFlowError(str(self._failure))
            try:
                async with self._store.lock(SIGN_IN_LIMIT):
                    return await self._obtain_alone(request, refused, may_renew=may_renew)
            except OAuthFlowError as problem:
                self._failure = problem
                raise

    async def _obtain_alone(
        self, request: httpx2.Request, refused: httpx2.Response | None, *, may_renew: bool
    ) -> bool:
        sent = None if refused is None else _token_of(request)
        is_void = refused is not None and refused.status_code == HTTPStatus.UNAUTHORIZED
        if is_void and sent is not None:
            self._store.mark_rejected(sent, may_renew=may_renew)
        with anyio.move_on_after(STEP_LIMIT):  # a keyring may ask for its password
            await anyio.to_thread.run_sync(self._store.load, abandon_on_cancel=True)
        await self.load()
        prompts = self._callback.prompts
        if self._token() in (None, sent):
            await self._run_flow(request, refused, sent)
        return self._callback.prompts != prompts

    async def _run_flow(
        self, request: httpx2.Request, refused: httpx2.Response | None, sent: str | None
    ) -> None:
        """Go through the SDK's flow as far as the next time that it would send `request`."""
        context = self.context
        async with contextlib.aclosing(super().async_auth_flow(request)) as flow:
            step = await anext(flow)
            while step is not request or (refused is not None and self._token() in (None, sent)):
                if step is request:
                    assert refused is not None
                    response, refused = refused, None  # it was sent so a moment ago
                else:
                    response = await _send_step(step)
                step = await flow.asend(response)
        await self._store.set_discovered(
            Discovery(
                server=context.auth_server_url,
                metadata=context.oauth_metadata,
                resource=context.protected_resource_metadata,
            )
        )


async def _send_step(request: httpx2.Request) -> httpx2.Response:
    """Send a step of a sign-in. Raises OAuthFlowError without a timely, final answer."""
    try:
        with anyio.fail_after(STEP_LIMIT):
            async with httpx2.AsyncClient(timeout=STEP_LIMIT) as client:
                response = await client.send(request)
    except (httpx2.HTTPError, TimeoutError) as problem:
        words = str(problem) or f"no answer in {STEP_LIMIT:.0f} s"
        raise OAuthFlowError(f"{request.url.host}: {words}") from problem
    if response.status_code in TRANSIENT_STATUSES:
        raise OAuthFlowError(f"{request.url.host}: HTTP {response.status_code}, try again later")
    return response


def _token_of(request: httpx2.Request) -> str | None:
    return request.headers.get("Authorization", "").removeprefix("Bearer ") or None


def _wants_more(response: httpx2.Response) -> bool:
    """Whether the server wants another token: one, or one that may do more."""
    if response.status_code == HTTPStatus.FORBIDDEN:
        return extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == HTTPStatus.UNAUTHORIZED


class _Callback:
    """The redirect address on this machine, used once. Other requests are refused.

    Attributes:
        port: Where it listens during a sign-in.
        prompts: How often the user was sent to sign in.
    """

    def __init__(self, port: int, open_browser: Callable[[str], Awaitable[object]]) -> None:
        self.port = port
        self.prompts = 0
        self._open_browser = open_browser
        self._server: asyncio.Server | None = None
        self._came: asyncio.Future[AuthorizationCodeResult] | None = None
        self._state = ""  # that only who was sent to sign in knows

    def client_metadata(self) -> OAuthClientMetadata:
        """This client, as it tells a server of itself."""
        return OAuthClientMetadata.model_validate(
            {
                "client_name": "abp-bridge",
                "redirect_uris": [f"http://127.0.0.1:{self.port}/callback"],
                "token_endpoint_auth_method": "none",
            }
        )

    async def open_sign_in(self, url: str) -> None:
        """Listen, and send the user to `url`. Raises OAuthFlowError."""
        self.prompts += 1
        self._came = asyncio.get_running_loop().create_future()
        self._state = parse_qs(urlsplit(url).query)["state"][0]
        try:
            self._server = await asyncio.start_server(
                self._on_browser, "127.0.0.1", self.port, limit=MAX_REQUEST
            )
        except OSError as problem:
            raise OAuthFlowError(
                f"the port {self.port}, which the browser comes back to, is taken"
            ) from problem
        try:
            if not await self._send_person(url, self._came):
                raise OAuthFlowError("nobody went there to sign in")
        except BaseException:  # a cancellation too: nobody waits, and the port is needed again
            self._server.close()
            raise

    async def _send_person(self, url: str, came: asyncio.Future[AuthorizationCodeResult]) -> bool:
        """Whether they went: who `came` back did, and is not asked for longer than that."""
        went = True
        with anyio.CancelScope() as asking:
            came.add_done_callback(lambda _: asking.cancel())
            went = await self._open_browser(url) is not False
        return went or came.done()

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
            status, words = self._respond(head.decode("latin-1"))
            writer.write(
                b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n"
                b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(words), words)
            )
            await writer.drain()
        writer.close()

    def _respond(self, head: str) -> tuple[bytes, bytes]:
        first, *lines = head.splitlines()
        hosts = [line[5:].strip() for line in lines if line[:5].lower() == "host:"]
        match first.split(" "):
            case [_, _, _] if hosts != [f"127.0.0.1:{self.port}"]:
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
