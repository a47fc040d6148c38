"""Apps that are MCP servers of either era, run by a command or reached by an address.

Tools are capabilities; prompts and resources are reached by one more. Questions are decoded as the
MCP proxy does. At the end, open questions are cancelled first: servers take an error for consent.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from abp_bridge import VERSION
from abp_bridge.apps.program import LIST_LIMIT, MAX_OPEN, START_LIMIT, Pipes, ProgramApp
from abp_bridge.core.capability import AppInfo, CallResult, CapabilityList, failed
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.sanitize import label, message
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import (
    ByteReader,
    ByteWriter,
    ConnectionClosedError,
    RemoteError,
)
from abp_bridge.jsonrpc.protocol import INVALID_REQUEST, METHOD_NOT_FOUND, Id, RpcError
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.mcp.server_link import LostError, ServerLink
from abp_bridge.protocols.abp import PROGRESS, decode_progress
from abp_bridge.protocols.mcp import server
from abp_bridge.protocols.mcp.client import ERAS, LEGACY, McpClientInfo
from abp_bridge.protocols.mcp.revisions import INVALID_PARAMS, MAX_UPDATES, URL_REQUIRED
from abp_bridge.session.app import Absence, AppError, AppListener, only_error
from abp_bridge.session.context import AskContext

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

OpenAddress = Callable[[str], Awaitable[bool]]

MAX_PAGES = 100  # pages of one list: a server may page without an end

NAME = "abp-bridge"
SIGN_IN = "This server wants you to sign in. Your browser comes back to the bridge."
SIGN_IN_TIME = 1_000.0  # seconds for the question, ten minutes, and then the browser, five


class NotVisitedError(RpcError):
    """The user did not go to an address that the server wants visited first."""


class McpApp(ProgramApp):
    """A server that is connected while the app is open.

    Args:
        origin: The command or address, as the user sees it.
        connect: Connects the server while its block runs; gets a function that asks the user to
            sign in at an address.
        modern_first: Whether stateless MCP is tried first.
        roots: The user's folders.
        tap: Observes the pipes.
    """

    def __init__(
        self,
        origin: str,
        connect: Callable[[OpenAddress], AbstractAsyncContextManager[Pipes]],
        *,
        modern_first: bool = False,
        roots: Sequence[str] = (),
        tap: Tap = unobserved_stream,
    ) -> None:
        super().__init__(origin, "server", tap)
        self._connect = connect
        self._modern_first = modern_first
        self._roots = [Path(root).absolute() for root in roots]
        self._link: ServerLink | None = None
        self._pipes: Pipes | None = None
        self._problem: OSError | None = None  # why the server cannot be started
        self._server: JsonObject = {}  # its capabilities, as it declared them
        self._lists: dict[str, list[JsonValue]] = {}  # its entries, as they were listed last
        self._stale: dict[str, anyio.Event] = {}
        self._offered = CapabilityList()
        self._tools: set[str] = set()  # those of what is offered that are the server's own
        self._calls: dict[str, bool] = {}  # the running ones; whether each destroys nothing
        self._subscribed: dict[str, None] = {}
        self._clock: anyio.CancelScope | None = None  # of the handshake, as long as that lasts
        self._was_sent = False  # to sign in, during that

    # --- App ---

    @asynccontextmanager
    async def open_app(self, listener: AppListener) -> AsyncIterator[AppInfo]:
        """Connect the server and list its offers; at the end, cancel its questions and end it."""
        async with (
            self._program.report_to(listener),
            only_error(AppError, OSError),
            anyio.create_task_group() as tasks,
        ):
            self._tasks = tasks
            link = self._link = self._make_link(listener, tasks)
            try:
                async with self._program.greeting(self._find_pipes, "MCP", START_LIMIT) as clock:
                    self._clock = clock
                    await self._negotiate(link)
                    opened = await self._describe_server(link)
                self._clock = None
                link.listen()
                tasks.start_soon(self._program.watch, self._find_pipes)
                for member in self._lists:
                    self._stale[member] = anyio.Event()
                    tasks.start_soon(self._refresh_list, link, member)
                yield opened
            finally:
                self._program.listener = None
                self._program.withdraw()
                with anyio.CancelScope(shield=True):
                    await link.settle()
                    await link.close()
                tasks.cancel_scope.cancel()

    async def call_capability(self, capability: str, params: JsonObject, call: str) -> CallResult:
        """Call a tool, prompt or resource; an error of the server becomes a failed result."""
        assert self._link is not None, "the app is open"
        known = next((each for each in self._offered if each.name == capability), None)
        self._calls[call] = known is not None and not known.destructive
        try:
            return self._program.clean(await self._make(capability, params, call))
        except LostError:
            return await self._program.end_call()
        except RemoteError as problem:
            if problem.code == URL_REQUIRED:
                words = "its user was sent to an address of the server first."
                return failed(
                    "PERMISSION_REQUIRED", f"{words} Call again when done.", retryable=True
                )
            said = as_text(problem.error.get("message"))
            return self._program.clean(server.decode_error(problem.code, said, problem.data))
        except NotVisitedError as problem:
            return failed("PERMISSION_REQUIRED", str(problem))
        except RpcError as problem:
            return self._program.clean(server.decode_error(problem.code, str(problem), None))
        finally:
            del self._calls[call]

    async def cancel_call(self, call: str, reason: str) -> None:
        """Do nothing: the session notified the server when `call` was cancelled."""

    async def capabilities(self) -> CapabilityList:
        """Return the last list; a change notification makes a new one."""
        return self._offered

    # --- from the beginning to the end ---

    def _make_link(self, listener: AppListener, tasks: TaskGroup) -> ServerLink:
        declared: dict[str, JsonValue] = {"elicitation": {"form": {}, "url": {}}}
        declared |= {"roots": {}} if self._roots else {}
        declared |= {"sampling": {}} if listener.can_sample() else {}
        info: JsonObject = {"name": NAME, "version": VERSION}
        client = McpClientInfo(LEGACY[0], info, declared)
        eras = ERAS[::-1] if self._modern_first else ERAS
        return ServerLink(
            self._open_pipes,
            self,
            tasks,
            eras=eras,
            client=client,
            tap=self._tap_pipes,
            restarts=False,
        )

    @asynccontextmanager
    async def _open_pipes(self) -> AsyncIterator[Pipes]:
        try:
            async with self._connect(self._sign_in) as self._pipes:
                yield self._pipes
        except OSError as problem:
            self._problem = problem
            raise

    def _find_pipes(self) -> Pipes | None:
        return self._pipes

    def _tap_pipes(self, source: ByteReader, sink: ByteWriter) -> tuple[ByteReader, ByteWriter]:
        return self._tap(self._program.overhear(source), sink)

    async def _negotiate(self, link: ServerLink) -> None:
        """Agree on a version.

        Raises OSError where the server cannot be started, AppError where it does not answer.
        """
        try:
            await link.connect()
        except RemoteError as problem:
            if problem.data != server.UNREACHED:
                raise
            raise AppError(
                f"{self.origin}: {self._program.quote(problem)}", absence=Absence.SERVER
            ) from None
        except RpcError as problem:
            if self._problem is not None:
                raise self._problem from None
            if link.is_lost:
                raise ConnectionClosedError("it ended before it answered") from None
            raise RemoteProtocolError(str(problem)) from None

    async def _describe_server(self, link: ServerLink) -> AppInfo:
        """Return what the server is and offers."""
        self._server = link.capabilities
        with suppress(RemoteError):
            await link.set_level("info")
        warnings = []
        for member in filter(self._server.__contains__, server.KEYS):
            try:
                self._lists[member], problem = await _pages(link, f"{member}/list", member)
            except RemoteError as error:
                words = f"its {member} cannot be listed: {self._program.quote(error)}"
                self._lists[member], problem = [], words
            warnings += [problem] if problem else []
        self._offered = self._decode_offer()
        name = as_text(link.info.get("name"))
        shown = as_text(link.info.get("title")) or name or "an unnamed server"
        return AppInfo(
            id=label(name or "server", 80),
            name=label(shown, 120),
            session="",
            version=f"MCP {link.version}",
            capabilities=self._offered,
            warnings=(*warnings, *self._offered.problems),
            instructions=message(as_text(link.hello.get("instructions"))),
        )

    def _decode_offer(self) -> CapabilityList:
        tools = self._lists.get("tools", [])
        self._tools = {as_text(as_object(each).get("name")) for each in tools}
        return server.decode_tools(tools, self._server)

    async def _sign_in(self, address: str) -> bool:
        """Ask the user to sign in at `address`, once per handshake; return whether they did."""
        if self._clock is not None:
            if self._was_sent:
                return False
            self._was_sent = True
            self._clock.deadline += SIGN_IN_TIME
        question = {"mode": "url", "message": SIGN_IN, "url": address, "elicitationId": "sign-in"}
        answer = await self._program.elicit(question, (), destructive=False)
        return answer["action"] == "accept"

    # --- calls ---

    async def _make(self, capability: str, params: JsonObject, call: str) -> CallResult:
        meta: JsonObject = {"progressToken": call}
        if capability in self._tools or capability not in server.OWN:
            given: JsonObject = {"name": capability, "arguments": params, "_meta": meta}
            return server.decode_result(await self._request("tools/call", given, call))
        if capability in server.LISTS:
            return CallResult(await self._all_of(server.LISTS[capability]))
        if capability in server.SUBSCRIPTIONS:
            return await self._subscribe(
                as_text(params.get("uri")), server.SUBSCRIPTIONS[capability]
            )
        method = server.REQUESTS[capability]
        return _DECODERS[method](await self._request(method, {**params, "_meta": meta}, call))

    async def _request(self, method: str, params: JsonObject, call: str) -> JsonObject:
        """Send a request; what the server asks before its result comes to `answer` and `visit`."""
        assert self._link is not None
        return as_object(await self._link.request(method, params, call=call))

    async def visit(
        self, error: RemoteError, links: Sequence[JsonObject], call: str | None
    ) -> None:
        """Ask the user to open the addresses that the server requires, hidden from the model."""
        problem = "" if links else "the server named none"
        if len(links) > MAX_OPEN:
            problem = f"the server named {len(links)}"
        for link in () if problem else links:
            if problem := await self._find_absence(link, call):
                break
        if problem:
            words = "its user must do something at an address of the server first"
            raise NotVisitedError(INVALID_REQUEST, f"{words}, and {problem}")

    async def _find_absence(self, link: JsonObject, call: str | None) -> str:
        """Ask the user to open an address; return why they did not, or ""."""
        answer = await self._elicit({"mode": "url", **link}, call)
        if answer["action"] == "accept":
            return ""
        said = as_object(as_object(answer.get("_meta")).get("abp")).get("answeredBy")
        refused = said == AnsweredBy.PERSON.value
        return "they did not go" if refused else "they could not be sent there, or did not go"

    # --- lists ---

    async def _all_of(self, member: str) -> dict[str, JsonValue]:
        assert self._link is not None
        lists = {member: f"{member}/list"}
        if member == "resources":
            lists["resourceTemplates"] = "resources/templates/list"
        found: dict[str, JsonValue] = {}
        for name, method in lists.items():
            found[name], problem = await _pages(self._link, method, name)
            found |= {"note": problem} if problem else {}
        return found

    async def _refresh_list(self, link: ServerLink, member: str) -> None:
        """On `list_changed`, list again and report the differences."""
        while True:
            await self._stale[member].wait()
            self._stale[member] = anyio.Event()
            try:
                new, problem = await _pages(link, f"{member}/list", member)
            except (RemoteError, RpcError) as error:
                logger.warning("%s cannot be listed again: %s", member, error)
                continue
            if problem:
                logger.warning("%s", problem)
                continue  # half of a list is none
            old, self._lists[member] = self._lists[member], new
            self._offered = self._decode_offer()
            self._program.tell(server.decode_change(member, old, new))

    async def _subscribe(self, uri: str, wanted: bool) -> CallResult:
        assert self._link is not None
        if wanted and uri not in self._subscribed and len(self._subscribed) >= MAX_UPDATES:
            return failed("RATE_LIMITED", f"{MAX_UPDATES} resources are subscribed to already")
        await self._link.subscribe(uri, wanted=wanted)
        self._subscribed.pop(uri, None)
        self._subscribed |= {uri: None} if wanted else {}
        return CallResult({"uri": uri, "subscribed": wanted})

    # --- LinkListener ---

    def passes(self, method: str, result: JsonObject, call: str | None) -> bool:
        """No question passes: the bridge asks each (`LinkListener.passes`)."""
        return False

    def on_notification(self, method: str, params: JsonObject | None) -> None:
        """Pass a notification to the listener."""
        listener, params = self._program.listener, as_object(params)
        if listener is None or method == "notifications/cancelled":
            return
        member = server.CHANGES.get(method)
        if member in self._stale:
            self._stale[member].set()
        elif method == "notifications/elicitation/complete":
            if link := as_text(params.get("elicitationId")):
                self._program.complete(link)
        elif method != PROGRESS:
            listener.on_notice(server.decode_notice(method, params))
        elif (progress := decode_progress(params)) is not None:
            listener.on_progress(progress)

    # --- questions ---

    async def answer(
        self, method: str, params: JsonObject, call: str | None, id: Id | None = None
    ) -> JsonValue:
        """Answer what the server asks (`LinkListener.answer`)."""
        if method == "elicitation/create":
            return await self._elicit(params, call)
        if method == "sampling/createMessage":
            return await self._sample(params, call)
        if method == "roots/list" and self._roots:
            return {"roots": [{"uri": each.as_uri(), "name": each.name} for each in self._roots]}
        words = f"the server wants {label(method, 80)}, which is not known here"
        raise RpcError(METHOD_NOT_FOUND, words)

    async def _elicit(self, params: JsonObject, call: str | None) -> JsonObject:
        """Ask an `elicitation/create`, and return its result, never an error."""
        running = [self._calls[call]] if call in self._calls else list(self._calls.values())
        return await self._program.elicit(
            params,
            () if call is None else (call,),
            destructive=not (running and all(running)),
        )

    async def _sample(self, params: JsonObject, call: str | None) -> JsonObject:
        from abp_bridge.protocols.mcp.sampling import decode_sampling, encode_sampled

        if (listener := self._program.listener) is None:
            raise _refused("the session ended")
        try:
            question = decode_sampling(params, id=listener.new_question_id(), origin=self.origin)
        except RemoteProtocolError as problem:
            raise RemoteError({"code": INVALID_PARAMS, "message": str(problem)}, 0.0) from None
        context = AskContext(calls=() if call is None else (call,))
        answer = await listener.elicit(question, context)
        if answer.outcome is Outcome.ACCEPTED:
            return encode_sampled(answer)
        raise _refused(f"no model answered: {answer.reason or answer.outcome.value}")


_DECODERS: Mapping[str, Callable[[JsonValue], CallResult]] = {
    "resources/read": server.decode_contents,
    "prompts/get": server.decode_prompt,
}


async def _pages(link: ServerLink, method: str, member: str) -> tuple[list[JsonValue], str]:
    """Return the entries of all pages of a list, and why it may be incomplete."""
    entries: list[JsonValue] = []
    seen: set[str] = set()
    params: JsonObject = {}
    with anyio.move_on_after(LIST_LIMIT):
        while len(seen) < MAX_PAGES:
            result = as_object(await link.request(method, params or None))
            entries += as_list(result.get(member))
            cursor = as_text(result.get("nextCursor"))
            if not cursor:
                return entries, ""
            if cursor in seen:
                break
            seen.add(cursor)
            params = {"cursor": cursor}
    return entries, (
        f"its list of {member} did not end after {len(seen)} pages or {LIST_LIMIT:g} s: there may"
        " be more"
    )


def _refused(words: str) -> RemoteError:
    from abp_bridge.protocols.mcp.sampling import encode_refused

    return RemoteError(encode_refused(words), 0.0)
