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

from abp_bridge.apps.program import (
    CANCEL,
    LIST_LIMIT,
    MAX_OPEN,
    START_LIMIT,
    Pipes,
    ProgramApp,
)
from abp_bridge.core.capability import AppInfo, CallResult, CapabilityList, failed
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.sanitize import label, message
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import ConnectionClosedError, RemoteError
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.protocols.abp import PROGRESS, decode_progress
from abp_bridge.protocols.mcp import server
from abp_bridge.protocols.mcp.revisions import INVALID_PARAMS, MAX_ROUNDS, MAX_UPDATES
from abp_bridge.protocols.mcp.revisions import URL_REQUIRED, urls_required
from abp_bridge.session.app import Absence, AppError, AppListener, only_error
from abp_bridge.session.context import AskContext

if TYPE_CHECKING:
    from abp_bridge.mcp.client_session import Beat, ServerSession

logger = logging.getLogger(__name__)

OpenAddress = Callable[[str], Awaitable[bool]]

KEEPALIVE_INTERVAL = 20.0  # seconds between reports to a server that counts its person's time
MAX_PAGES = 100  # pages of one list: a server may page without an end
SOON = 0.05  # seconds before a round without questions is tried again

SIGN_IN = "This server wants you to sign in. Your browser comes back to the bridge."
SIGN_IN_TIME = 1_000.0  # seconds for the question, ten minutes, and then the browser, five


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
        self._session: ServerSession | None = None
        self._server: JsonObject = {}  # its capabilities, as it declared them
        self._lists: dict[str, list[JsonValue]] = {}  # its entries, as they were listed last
        self._stale: dict[str, anyio.Event] = {}
        self._offered = CapabilityList()
        self._tools: set[str] = set()  # those of what is offered that are the server's own
        self._calls: dict[str, bool] = {}  # the running ones; whether each destroys nothing
        # What is shown of what a call needs first, with the elicitationId that it has.
        self._visits: dict[anyio.CancelScope, str] = {}
        self._subscribed: dict[str, None] = {}
        self._listening: anyio.CancelScope | None = None
        self._clock: anyio.CancelScope | None = None  # of the handshake, as long as that lasts
        self._was_sent = False  # to sign in, during that

    # --- App ---

    @asynccontextmanager
    async def open_app(self, listener: AppListener) -> AsyncIterator[AppInfo]:
        """Connect the server and list its offers; at the end, cancel its questions and end it."""
        async with (
            self._program.report_to(listener),
            self._connect(self._sign_in) as pipes,
            self._begin(pipes) as session,
            anyio.create_task_group() as tasks,
        ):
            self._tasks = tasks
            tasks.start_soon(self._program.watch, pipes)
            async with self._program.greeting(pipes, "MCP", START_LIMIT) as self._clock:
                await self._negotiate(session)
                opened = await self._describe_server(session)
            self._clock = None
            for member in self._lists:
                self._stale[member] = anyio.Event()
                tasks.start_soon(self._refresh_list, session, member)
            await self._listen(session)
            try:
                yield opened
            finally:
                self._program.listener = None
                self._program.withdraw()
                tasks.cancel_scope.cancel()

    async def call_capability(self, capability: str, params: JsonObject, call: str) -> CallResult:
        """Call a tool, prompt or resource; an error of the server becomes a failed result."""
        assert self._session is not None, "the app is open"
        known = next((each for each in self._offered if each.name == capability), None)
        self._calls[call] = known is not None and not known.destructive
        try:
            return self._program.clean(await self._make(capability, params, call))
        except RemoteError as problem:
            if problem.code == URL_REQUIRED:
                return await self._send_to_addresses(urls_required(problem.error), call)
            said = as_text(problem.error.get("message"))
            return self._program.clean(server.decode_error(problem.code, said, problem.data))
        except ConnectionClosedError:
            return await self._program.end_call()
        finally:
            del self._calls[call]

    async def cancel_call(self, call: str, reason: str) -> None:
        """Do nothing: the session notified the server when `call` was cancelled."""

    async def capabilities(self) -> CapabilityList:
        """Return the last list; a change notification makes a new one."""
        return self._offered

    # --- from the beginning to the end ---

    def _begin(self, pipes: Pipes) -> AbstractAsyncContextManager[ServerSession]:
        from abp_bridge.mcp.client_session import open_session

        streams = self._tap(self._program.overhear(pipes.stdout), pipes.stdin)
        assert self._program.listener is not None, "it is being opened"
        can_sample = self._program.listener.can_sample()
        return open_session(*streams, self, has_roots=bool(self._roots), can_sample=can_sample)

    async def _negotiate(self, session: ServerSession) -> None:
        """Agree on a version, or raise AppError if the address does not answer."""
        try:
            await session.negotiate(modern_first=self._modern_first)
        except RemoteError as problem:
            if problem.data != server.UNREACHED:
                raise
            raise AppError(
                f"{self.origin}: {self._program.quote(problem)}", absence=Absence.SERVER
            ) from None

    async def _describe_server(self, session: ServerSession) -> AppInfo:
        """Return what the server is and offers."""
        self._session, self._server = session, session.info.capabilities
        if not session.modern and "logging" in self._server:
            with suppress(RemoteError):
                await session.request("logging/setLevel", {"level": "info"})
        warnings = []
        for member in filter(self._server.__contains__, server.KEYS):
            try:
                self._lists[member], problem = await _pages(session, f"{member}/list", member)
            except RemoteError as error:
                words = f"its {member} cannot be listed: {self._program.quote(error)}"
                self._lists[member], problem = [], words
            warnings += [problem] if problem else []
        self._offered = self._decode_offer()
        info = session.info
        name = info.title or info.name or "an unnamed server"
        return AppInfo(
            id=label(info.name or "server", 80),
            name=label(name, 120),
            session="",
            version=f"MCP {info.version}",
            capabilities=self._offered,
            warnings=(*warnings, *self._offered.problems),
            instructions=message(info.instructions),
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
        """Send a request; in stateless MCP, repeat it with answers to the questions.

        Raises:
            RemoteError: The server answered with an error, or asks without end.
            ConnectionClosedError: The server is gone.
        """
        assert self._session is not None
        again: JsonObject = {}
        for _ in range(MAX_ROUNDS + 1):
            result = await self._session.request(method, {**params, **again})
            if result.get("resultType") != "input_required":
                return result
            again = await self._answer_round(result, call)
        raise _refused(f"the server asked more than {MAX_ROUNDS} times for one call")

    async def _answer_round(self, result: JsonObject, call: str) -> JsonObject:
        """Answer the server's questions in a result, for the repeated request."""
        asked = as_object(result.get("inputRequests"))
        answers: dict[str, JsonValue] = {}

        async def answer(key: str, request: JsonObject) -> None:
            method = as_text(request.get("method"))
            given = await self._answer_server(method, as_object(request.get("params")), call)
            if given is None:
                raise _refused(f"the server wants {label(method, 80)}, which is not known here")
            answers[key] = given

        async with only_error(RemoteError), anyio.create_task_group() as tasks:
            for key, request in asked.items():
                tasks.start_soon(answer, key, as_object(request))
        if not asked:
            await anyio.sleep(SOON)
        again: dict[str, JsonValue] = {"inputResponses": answers} if asked else {}
        state = result.get("requestState")
        return again | ({} if state is None else {"requestState": state})

    async def _send_to_addresses(self, links: Sequence[JsonObject], call: str) -> CallResult:
        """Ask the user to open the addresses that the server requires, hidden from the model."""
        problem = "" if links else "the server named none"
        for link in links[:MAX_OPEN]:
            if problem := await self._visit(link, call):
                break
        if problem:
            words = "its user must do something at an address of the server's first"
            return failed("PERMISSION_REQUIRED", f"{words}, and {problem}")
        words = "its user was sent to an address of the server's first."
        if len(links) > MAX_OPEN:
            words += f" Of its {len(links)} addresses they were asked to visit {MAX_OPEN}."
        return failed("PERMISSION_REQUIRED", f"{words} Call again when done.", retryable=True)

    async def _visit(self, link: JsonObject, call: str) -> str:
        """Ask the user to open an address; return why they did not, or ""."""
        answer: JsonObject = {"action": "accept"}  # where the server says that they were there
        with anyio.CancelScope() as shown:
            self._visits[shown] = as_text(link.get("elicitationId"))
            try:
                answer = await self._elicit(link, call)
            finally:
                del self._visits[shown]
        if answer["action"] == "accept":
            return ""
        said = as_object(as_object(answer.get("_meta")).get("abp")).get("answeredBy")
        refused = said == AnsweredBy.PERSON.value
        return "did not go" if refused else "could not be sent there, or did not go"

    # --- lists ---

    async def _all_of(self, member: str) -> dict[str, JsonValue]:
        assert self._session is not None
        lists = {member: f"{member}/list"}
        if member == "resources":
            lists["resourceTemplates"] = "resources/templates/list"
        found: dict[str, JsonValue] = {}
        for name, method in lists.items():
            found[name], problem = await _pages(self._session, method, name)
            found |= {"note": problem} if problem else {}
        return found

    async def _refresh_list(self, session: ServerSession, member: str) -> None:
        """On `list_changed`, list again and report the differences."""
        while True:
            await self._stale[member].wait()
            self._stale[member] = anyio.Event()
            try:
                new, problem = await _pages(session, f"{member}/list", member)
            except (RemoteError, ConnectionClosedError) as error:
                logger.warning("%s cannot be listed again: %s", member, error)
                continue
            if problem:
                logger.warning("%s", problem)
                continue  # half of a list is none
            old, self._lists[member] = self._lists[member], new
            self._offered = self._decode_offer()
            self._program.tell(server.decode_change(member, old, new))

    async def _subscribe(self, uri: str, wanted: bool) -> CallResult:
        assert self._session is not None
        if wanted and uri not in self._subscribed and len(self._subscribed) >= MAX_UPDATES:
            return failed("RATE_LIMITED", f"{MAX_UPDATES} resources are subscribed to already")
        if not self._session.modern:
            method = "resources/subscribe" if wanted else "resources/unsubscribe"
            await self._session.request(method, {"uri": uri})
        before = dict(self._subscribed)
        self._subscribed.pop(uri, None)
        self._subscribed |= {uri: None} if wanted else {}
        if self._session.modern and self._subscribed != before:
            await self._listen(self._session)
        return CallResult({"uri": uri, "subscribed": wanted})

    async def _listen(self, session: ServerSession) -> None:
        """Keep one stream for notifications (stateless MCP), reopened to add subscriptions."""
        lists = [member for member in self._lists if self._tells(member, "listChanged")]
        if self._tasks is None or not session.modern or not (lists or self._subscribed):
            return
        if self._listening is not None:
            self._listening.cancel()
        self._listening = scope = anyio.CancelScope()
        self._tasks.start_soon(self._hear, session, lists, list(self._subscribed), scope)

    async def _hear(
        self,
        session: ServerSession,
        lists: Sequence[str],
        uris: Sequence[str],
        scope: anyio.CancelScope,
    ) -> None:
        with scope:
            try:
                await session.listen(lists, uris)
            except (RemoteError, ConnectionClosedError) as problem:
                logger.warning("%s tells no changes: %s", self.origin, problem)

    def _tells(self, member: str, what: str) -> bool:
        return as_object(self._server.get(member)).get(what) is True

    # --- ServerListener ---

    async def on_request(self, method: str, params: JsonObject, beat: Beat) -> JsonObject | None:
        """Answer elicitation, sampling and roots; the session handles other requests."""
        if method != "elicitation/create":
            return await self._answer_server(method, params)
        result = CANCEL
        async with anyio.create_task_group() as beating:
            beating.start_soon(_send_keepalive_progress, beat)
            result = await self._elicit(params)
            beating.cancel_scope.cancel()
        return result

    def on_notification(self, method: str, params: JsonObject) -> None:
        """Pass a notification to the listener."""
        listener = self._program.listener
        if listener is None or method in _SILENT:
            return
        member = server.CHANGES.get(method)
        if member in self._stale:
            self._stale[member].set()
        elif method == "notifications/elicitation/complete":
            if link := as_text(params.get("elicitationId")):
                self._complete(link)
        elif method != PROGRESS:
            listener.on_notice(server.decode_notice(method, params))
        elif (progress := decode_progress(params)) is not None:
            listener.on_progress(progress)

    def _complete(self, link: str) -> None:
        """Handle the server's notice that the user has been at an address."""
        for shown, name in self._visits.items():
            if name == link:
                shown.cancel()
        self._program.withdraw(link)

    # --- questions ---

    async def _answer_server(
        self, method: str, params: JsonObject, call: str | None = None
    ) -> JsonObject | None:
        """Return the result of a server's request, or None for an unknown method.

        Raises:
            RemoteError: No model answered.
        """
        if method == "elicitation/create":
            return await self._elicit(params, call)
        if method == "sampling/createMessage":
            return await self._sample(params, call)
        if method == "roots/list" and self._roots:
            return {"roots": [{"uri": each.as_uri(), "name": each.name} for each in self._roots]}
        return None

    async def _elicit(self, params: JsonObject, call: str | None = None) -> JsonObject:
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
# What the SDK has acted on, and nobody needs to be told.
_SILENT = ("notifications/cancelled", "notifications/subscriptions/acknowledged")


async def _pages(session: ServerSession, method: str, member: str) -> tuple[list[JsonValue], str]:
    """Return the entries of all pages of a list, and why it may be incomplete."""
    entries: list[JsonValue] = []
    seen: set[str] = set()
    params: JsonObject = {}
    with anyio.move_on_after(LIST_LIMIT):
        while len(seen) < MAX_PAGES:
            result = await session.request(method, params)
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


async def _send_keepalive_progress(beat: Beat) -> None:
    beats = 0
    while True:
        await anyio.sleep(KEEPALIVE_INTERVAL)
        beats += 1
        await beat(beats)


def _refused(words: str) -> RemoteError:
    from abp_bridge.protocols.mcp.sampling import encode_refused

    return RemoteError(encode_refused(words), 0.0)
