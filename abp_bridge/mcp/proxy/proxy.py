"""`abp-bridge mcp`: one host and one server, joined.

`HostFront` is the server of the host, `ServerLink` the client of the server. What is here decides
about each request of the host: answered here, refused by name, approved by the user first, or
passed on; and who answers what the server asks: the host, the user on a surface of ours, or a model
of the user. Messages pass value for value, and are translated between two kinds of revision.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, TypeVarTuple, Unpack

import anyio
import anyio.to_thread

from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.errors import AbpBridgeError, describe_bug
from abp_bridge.jsonrpc.connection import (
    ConnectionClosedError,
    JsonRpcConnection,
    RemoteError,
)
from abp_bridge.jsonrpc.loop import now
from abp_bridge.jsonrpc.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_PASSED_LINE,
    METHOD_NOT_FOUND,
    Id,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    RpcError,
    UnmatchedResponse,
    is_id,
    load_fast_codec,
)
from abp_bridge.mcp.connection import HostRequest, McpConnection, encode_cancel
from abp_bridge.mcp.host_front import HostFront
from abp_bridge.mcp.proxy.approval import Approval
from abp_bridge.mcp.proxy.calls import Calls, ProxyCall, add_notes, make_room
from abp_bridge.mcp.proxy.keepalive import KeepaliveElicitor
from abp_bridge.mcp.proxy.server_questions import ELICITATION, SAMPLING, ServerQuestions
from abp_bridge.mcp.server_link import OpenPipes, ServerLink
from abp_bridge.protocols.mcp import revisions
from abp_bridge.protocols.mcp.client import (
    ERAS,
    LEGACY,
    LOG_LEVELS,
    Era,
    McpClientInfo,
    decode_capabilities,
)
from abp_bridge.protocols.mcp.revisions import CAN_ASK, LISTENED, UPDATES, Crossing

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.abc import TaskGroup

    from abp_bridge.core.ledger import Progress
    from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
    from abp_bridge.jsonrpc.tap import Tap
    from abp_bridge.mcp.pending_call import FindPending, PendingCall
    from abp_bridge.mcp.tool_calls import ToolCalls
    from abp_bridge.session.profiles import Profile
    from abp_bridge.session.surface import ElicitorApi, OnModelProgress

logger = logging.getLogger(__name__)

ELICITS: JsonObject = {"form": {}, "url": {}}  # half of the servers look for any, half for each
# Seconds for what is open when the host says no more: hosts kill us after two in all.
DRAIN = 0.5
FIRST_WORDS = 10.0  # seconds for a host to ask why its server is not there
SETTLE = 0.1  # seconds in which the server says nothing, until its questions count as read
# Seconds without a message of the server that end one round of questions, and at most.
QUIET, QUIET_LIMIT = 0.02, 0.2
DEFAULT_LEVEL = "info"  # of logs, for a stateful host that sets none: most servers' own
MAX_TASKS = 1_000  # tasks whose questions the host answers
LIST_LIMIT = 10.0  # seconds to list all tools: a server may page without an end

_NOT_BEGUN = "send initialize first"
_NOT_ASKED = "the host does not declare this capability, or has no open call"
_WENT = (
    "abp-bridge: this server needs its user to open an address first, and they were sent there."
    " Do this again when they are done."
)

MakeElicitor = Callable[[McpConnection, "OnModelProgress", "FindPending"], "ElicitorApi"]
Given = TypeVarTuple("Given")
_Ended = JsonValue | AbpBridgeError  # how a call of a stateless host ended


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user has set for one proxy.

    Attributes:
        origin: Makes the server's name for the user, from its command.
        obstacle: (host's name, whether it shows questions) -> why no one can be asked, or "".
        overhear: Gets the server's output that is no message.
        confirm: The tools that need approval.
        roots: Folders for a server whose host has none.
        can_sample: Whether the user's model answers if the host has none.
        era: The only kind of revision to try with the server.
        modern_first: Whether the stateless one is tried first, whatever the host speaks.
        pending_timeout: Seconds that a call is kept for a stateless host to come back to.
    """

    origin: Callable[[], str]
    obstacle: Callable[[str, bool], str]
    overhear: Callable[[bytes], object]
    confirm: Collection[str] = ()
    roots: Sequence[Path] = ()
    can_sample: bool = False
    era: Era | None = None
    modern_first: bool = False
    pending_timeout: float = 600.0


async def run_proxy(
    host: tuple[ByteReader, ByteWriter],
    open_pipes: OpenPipes,
    *,
    policy: Policy,
    make_elicitor: MakeElicitor,
    tap_server: Tap,
) -> None:
    """Join a host and a server until the host leaves, or the server never answers a hello.

    Cancelling it ends it as the host's end does: a server may take the end of its input for a yes,
    so each question gets `cancel` first.

    Args:
        open_pipes: Starts or connects the server; again where it ended between two requests.
        make_elicitor: Makes the elicitor at the first question.
    """
    async with anyio.create_task_group() as outer:
        outer.start_soon(_close_when_cancelled, host[0])
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                proxy = Proxy(
                    host,
                    open_pipes,
                    tasks,
                    policy,
                    make_elicitor=make_elicitor,
                    tap_server=tap_server,
                )
                await proxy.run(host[0])
                tasks.cancel_scope.cancel()
        outer.cancel_scope.cancel()


async def _close_when_cancelled(source: ByteReader) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        source.close()


class Proxy:
    """One host joined to one server: a `HostHandler` and a `LinkListener`."""

    def __init__(
        self,
        host: tuple[ByteReader, ByteWriter],
        open_pipes: OpenPipes,
        tasks: TaskGroup,
        policy: Policy,
        *,
        make_elicitor: MakeElicitor,
        tap_server: Tap,
    ) -> None:
        self._policy = policy
        self._tasks = tasks
        self._rpc = JsonRpcConnection(
            JsonRpcProtocol(
                f"abp-{os.urandom(4).hex()}-", max_line=MAX_PASSED_LINE, max_depth=None
            ),
            *host,
            on_message=self._on_message,
            on_protocol_error=_log_protocol_error,
            cancel_request=encode_cancel,
        )
        self._host = McpConnection(self._rpc, tasks)
        self._subscriptions = self._host.subscriptions
        self._front = HostFront(self._host, self)
        client, origin = McpClientInfo(LEGACY[0], {}, None), cache(policy.origin)
        self._link = ServerLink(
            open_pipes, self, tasks, eras=ERAS, client=client, tap=tap_server, name=origin
        )
        self._link.host = self._rpc
        self._calls = Calls(self._wait_quiet)
        elicitor = KeepaliveElicitor(
            lambda on_progress: make_elicitor(self._host, on_progress, self._find_pending),
            self._host,
            self._calls,
        )
        self._questions = ServerQuestions(elicitor, self._calls, origin)
        self._approval = Approval(elicitor, policy.confirm, origin, self._calls)
        self._obstacle: str | None = None  # why nobody can be asked; None: not looked yet
        self._level: str | None = None  # of logs, that a stateful server was told
        # By task, what the host was shown and has not answered.
        self._task_questions: dict[str, set[str]] = {}
        self._gives_up = anyio.Event()
        self._is_settled = False  # the server's last questions are answered

    # --- from the beginning to the end ---

    async def run(self, source: ByteReader) -> None:
        """Carry messages until the host has left, and what it still waits for is answered."""
        self._tasks.start_soon(self._watch_host, source)
        self._tasks.start_soon(self._end_without_server)
        self._link.start()
        try:
            await self._rpc.run(self._finish)
        finally:
            self._questions.end()
            self._front.cancel_all("the host has left")
            with anyio.CancelScope(shield=True):
                if not self._is_settled:  # the host reads no more: `_finish` may not have run
                    with anyio.move_on_after(DRAIN):
                        await self._read_last()
                    await self._link.settle()
                await self._link.close()

    async def _finish(self) -> None:
        """The host says no more: what is open is answered, and each question cancelled."""
        self._questions.end()
        with anyio.move_on_after(DRAIN):
            await self._front.wait_idle()
            await self._read_last()
        await self._link.settle()
        self._is_settled = True

    async def _read_last(self) -> None:
        """Read what the server has written: its questions are cancelled."""
        while now() - self._link.last_message < SETTLE:  # noqa: ASYNC110 - time passes
            await anyio.sleep(SETTLE / 4)

    async def _watch_host(self, source: ByteReader) -> None:
        """A host's end is not read while its server reads nothing: it ends all the same."""
        await source.wait_closed()
        while True:
            came = self._rpc.arrived
            await anyio.sleep(DRAIN)
            if self._rpc.is_held and came == self._rpc.arrived:
                self._rpc.close()

    async def _end_without_server(self) -> None:
        """A server that cannot be started, or ends at once, ends the bridge too."""
        await self._gives_up.wait()
        with anyio.move_on_after(DRAIN):
            await self._front.wait_idle()
            await self._rpc.sent()
        self._rpc.close()

    @cached_property
    def _pending(self) -> ToolCalls:
        """The calls of a stateless host, which waits for them again and again."""
        from abp_bridge.mcp.tool_calls import ToolCalls, ToolTimeout  # once needed

        return ToolCalls(
            self._tasks,
            limit=self._policy.pending_timeout,
            timeout_of=lambda request: ToolTimeout(float("inf")),
            on_progress=lambda request, progress: None,
            has_wait=False,
        )

    def _find_pending(self, calls: Sequence[str]) -> PendingCall | None:
        return self._pending.find_pending(calls) if self._host.client.modern else None

    async def _wait_quiet(self) -> None:
        """Wait until the server has written nothing for `QUIET` seconds, by the wire's clock."""
        with anyio.move_on_after(QUIET_LIMIT):
            while (left := self._link.last_message + QUIET - now()) > 0:  # noqa: ASYNC110
                await anyio.sleep(left)

    # --- the host: HostHandler ---

    def _on_message(self, message: Request | Notification) -> None:
        if isinstance(message, Notification) and message.method != "notifications/cancelled":
            # After the requests that came before it, which are tasks.
            self._call_in_order(self._front.on_message, message)
        else:
            self._front.on_message(message)

    def _call_in_order(self, take: Callable[[Unpack[Given]], object], *given: *Given) -> None:
        """Call after what was read before: a call of a stateless host has one task more."""
        loop = asyncio.get_running_loop()
        if self._host.client.modern:
            loop.call_soon(loop.call_soon, take, *given)
        else:
            loop.call_soon(take, *given)

    def reply(self, request: HostRequest) -> JsonObject | None:
        """Answer a ping; note what a retry goes on with (`HostHandler.reply`)."""
        if request.method == "ping" and not request.client.modern:
            if self._link.is_lost and not self._link.hello:
                self._gives_up.set()
                raise RpcError(INTERNAL_ERROR, f"abp-bridge: {self._link.ending}")
            return {}
        if request.method in CAN_ASK and request.client.modern:
            self._pending.identify_retry(request, request.params.get("requestState"))
        return None

    async def handle(self, request: HostRequest) -> JsonObject | None:
        """Answer a request of the host (`HostHandler.handle`)."""
        method, client = request.method, request.client
        if method == "initialize" and not client.modern:
            return await self._initialize(request)
        if client.modern:
            self._introduce(client, {})
        elif not self._front.handshaken:
            raise RpcError(INTERNAL_ERROR, _NOT_BEGUN)
        elif self._obstacle:
            raise RpcError(INTERNAL_ERROR, self._obstacle)
        if client.modern and method in CAN_ASK and "requestState" in request.params:
            return await self._attach(request)  # its call goes on, whatever became of the server
        await self._connect()
        kinds = {"client_modern": client.modern, "server_modern": self._link.modern}
        match revisions.crossing(method, **kinds):
            case Crossing.REFUSED:
                raise RpcError(
                    METHOD_NOT_FOUND,
                    f"{method[:100]}: the server speaks MCP {self._link.version}, which has no"
                    " such request",
                )
            case Crossing.HERE:
                return await _ANSWERED[method](self, request)
        if client.modern and not self._link.modern and client.level is not None:
            await self._lower_level(client.level)
        try:
            if client.modern and method in CAN_ASK:
                return await self._attach(request)
            result = await self._carry(self._calls.begin(request), request)
        except RemoteError as problem:
            error = revisions.error_for(method, problem.error, **kinds)
            raise RemoteError(error, problem.seconds) from None
        return self._result_for(request, result)

    def notify(self, method: str, params: JsonObject | None) -> None:
        """Pass a notification on; the link has told the server that it is initialized."""
        if method == "notifications/initialized":
            self._subscriptions.initialized = True
            self._link.listen()
        elif method in revisions.REQUESTS:  # it would pass without approval
            logger.error("a notification of the host is dropped: %s is a request", method)
        else:
            self._link.notify(method, params)

    async def _initialize(self, request: HostRequest) -> JsonObject:
        params = request.params
        version = as_text(params.get("protocolVersion"), LEGACY[0])
        self._front.introduce(version, params)
        own = ("protocolVersion", "capabilities", "clientInfo")
        self._link.hello_id = request.id
        if self._link.is_ready and self._link.client.modern:  # it asked who is there before
            self._link.client = self._declare(self._host.client)
        self._introduce(
            self._host.client, {word: each for word, each in params.items() if word not in own}
        )
        await self._connect()
        hello, shown = self._link.hello, self._link.client
        if self._link.modern and shown.level is None and "logging" in self._link.capabilities:
            self._link.client = replace(shown, level=DEFAULT_LEVEL)
        result = revisions.to_initialized(hello, version) if self._link.modern else hello
        self._front.introduce(as_text(result.get("protocolVersion"), version), params)
        return result

    def _introduce(self, client: McpClientInfo, params: JsonObject) -> None:
        """Say to the server who its host is, with the host's first request.

        Raises RpcError where nobody can be asked.
        """
        if self._obstacle is None or client.modern != self._link.client.modern:
            shows = decode_capabilities(client.capabilities, client.version)
            why = self._policy.obstacle(client.name, shows.form or shows.url)
            self._obstacle = _describe_obstacle(why) if why else ""
            if self._obstacle:
                logger.error("%s", self._obstacle)
            if not self._link.is_ready:
                self._link.client, self._link.hello_params = self._declare(client), params
                only = self._policy.era
                is_modern_first = client.modern or self._policy.modern_first
                own, other = ERAS[::-1] if is_modern_first else ERAS
                self._link.eras = (own, other) if only is None else (only,)
        if self._obstacle:
            raise RpcError(INTERNAL_ERROR, self._obstacle)

    async def _connect(self) -> None:
        is_first = not self._link.hello
        try:
            await self._link.connect()
            if is_first:  # a handshake takes no longer for it
                self._tasks.start_soon(anyio.to_thread.run_sync, load_fast_codec)
        except RpcError:
            if not self._link.hello:
                self._gives_up.set()
            raise

    def _declare(self, client: McpClientInfo) -> McpClientInfo:
        """The host as the server is to see it: it can be asked, whatever it shows itself."""
        given = as_object(client.capabilities)
        declared = {**given, "elicitation": {**as_object(given.get("elicitation")), **ELICITS}}
        if self._policy.roots and not isinstance(given.get("roots"), dict):
            declared["roots"] = {}
        if self._policy.can_sample and not isinstance(given.get("sampling"), dict):
            declared["sampling"] = {}
        tasks = as_object(given.get("tasks"))
        requests = as_object(tasks.get("requests"))
        if "elicitation" in requests:  # what is asked is answered, never a task to come back to
            rest = {kind: each for kind, each in requests.items() if kind != "elicitation"}
            declared["tasks"] = {**tasks, "requests": rest}
        return replace(client, capabilities=declared)

    # --- requests that pass ---

    async def _carry(self, call: ProxyCall, request: HostRequest) -> JsonValue:
        """Pass a request on, after the user's approval if it needs that; return the result.

        Raises RemoteError, RpcError.
        """
        method, params = request.method, request.params
        is_tool = method == "tools/call"
        cancelled = True
        try:
            if method == "tasks/update" and "inputResponses" in params:
                params = self._take_task_answers(params)
            elif request.client.modern or self._link.modern:  # an answer to what nobody asked
                params = revisions.without_retry(params)
            if is_tool and self._approval.is_on:
                await self._list_tools()
                if refused := await self._approval.find_refusal(call, params):
                    cancelled = False
                    return self._fail(refused)
            result = await self._link.request(
                method,
                params,
                client=self._declare(request.client) if request.client.modern else None,
                call=call.id,
                id=request.id if request.client.modern == self._link.modern else None,
                reason=call.describe_cancellation,
            )
            cancelled = False
        except RpcError as problem:
            cancelled = False
            if is_tool and problem.code == INVALID_REQUEST:  # words for the model
                return self._fail(" ".join([str(problem), *call.notes]))
            raise
        except RemoteError as problem:
            cancelled = False
            if revisions.urls_required(problem.error) and not self._shows_links(request.client):
                words = " ".join([_WENT, *call.notes])
                if is_tool:
                    return self._fail(words)
                raise RpcError(INVALID_REQUEST, words) from None
            if call.notes:
                said = " ".join([as_text(problem.error.get("message")), *call.notes])
                raise RemoteError({**problem.error, "message": said}, 0.0) from None
            raise
        finally:
            self._calls.end(call, cancelled=cancelled)
            self._questions.end_call(call)
        return self._edit_result(call, request, result)

    def _take_task_answers(self, params: JsonObject) -> JsonObject:
        """Return a `tasks/update` with the answers to questions that the host was shown.

        Raises RpcError for any other answer.
        """
        task, answers = as_text(params.get("taskId")), as_object(params.get("inputResponses"))
        shown = self._task_questions.get(task, set())
        if not answers.keys() <= shown:
            raise RpcError(INVALID_PARAMS, "this task asks no such question, or not any more")
        shown.difference_update(answers)
        kept = {key: _without_account(each) for key, each in answers.items()}
        return {**params, "inputResponses": kept}

    def _fail(self, words: str) -> JsonObject:
        """Return a failed result of a tool, as one of the server."""
        from abp_bridge.protocols.mcp.results import encode_text  # once needed

        result = encode_text(words, error=True)
        is_modern = self._link.modern
        return revisions.complete_result(result, self._link.info) if is_modern else result

    def _edit_result(self, call: ProxyCall, request: HostRequest, result: JsonValue) -> JsonValue:
        """Learn the tools of a list; add to a call's result what its user should know."""
        if request.method == "tools/list":
            given = as_object(result)
            if self._profile(request).reads_structured:
                result = given = make_room(given)
            self._calls.learn(given)
        elif call.notes and call.tool:
            schema = self._calls.tool(call.tool).output_schema
            return add_notes(as_object(result), call.notes, self._profile(request), schema)
        elif request.method == "logging/setLevel":
            level = as_text(request.params.get("level"))
            self._link.client = replace(self._link.client, level=level)
        elif request.method in ("resources/subscribe", "resources/unsubscribe"):
            wanted = request.method == "resources/subscribe"
            self._link.note_subscription(as_text(request.params.get("uri")), wanted=wanted)
        return result

    def _result_for(self, request: HostRequest, result: JsonValue) -> JsonObject:
        found = revisions.result_for(
            request.method,
            result,
            self._link.info,
            client_modern=request.client.modern,
            server_modern=self._link.modern,
        )
        if not isinstance(found, dict):
            raise RpcError(INTERNAL_ERROR, "the server answered with a result that is no object")
        return found

    def _profile(self, request: HostRequest) -> Profile:
        from abp_bridge.session.profiles import profile  # once needed

        return profile(request.client.info.get("name"), request.client.capabilities)

    async def _list_tools(self) -> None:
        """Learn the server's tools, if the host has not listed them all."""
        params: JsonObject = {}
        with anyio.move_on_after(LIST_LIMIT):
            while not self._calls.is_listed:
                page = as_object(await self._link.request("tools/list", params or None))
                self._calls.learn(page)
                params = {"cursor": page.get("nextCursor")}

    async def _attach(self, request: HostRequest) -> JsonObject | None:
        """Attach a stateless host's request to its call, by its retry to a running one."""
        from abp_bridge.session.host import SessionError  # once needed

        given = revisions.without_retry(request.params)
        request.tool = request.method
        request.arguments = {name: each for name, each in given.items() if name != "_meta"}
        state, answers = revisions.decode_retry(request.params)
        if state is None:
            start = partial(self._start_call, request)
            encode = self._encode_ended
            try:
                result = await self._pending.begin(request, start, encode)
            except SessionError as problem:
                raise RpcError(INTERNAL_ERROR, str(problem)) from None
        else:
            named = request.state.call if request.state is not None else None
            for call in self._calls.of(named) if named is not None else ():
                call.request = request
            result = await self._pending.resume(request, state, answers)
        if result.get("resultType") != "complete" and "requestState" in result:
            for call in self._calls.open.values():
                if call.request is request:  # no request waits for it now
                    call.request = None
            result = {**result, "_meta": {revisions.SERVER: self._link.info}}
        return result

    def _encode_ended(self, ended: _Ended, request: HostRequest) -> JsonObject:
        if isinstance(ended, AbpBridgeError):
            raise ended
        return self._result_for(request, ended)

    async def _start_call(
        self,
        request: HostRequest,
        on_progress: Callable[[Progress], None],
        on_end: Callable[[_Ended], None],
    ) -> ProxyCall:
        call = self._calls.begin(request)
        self._tasks.start_soon(self._run_call, call, request, on_end)
        return call

    async def _run_call(
        self, call: ProxyCall, request: HostRequest, on_end: Callable[[_Ended], None]
    ) -> None:
        with call.scope:
            try:
                on_end(await self._carry(call, request))
            except (RemoteError, RpcError) as problem:
                on_end(problem)
            except Exception as bug:  # a bug ends its own call, not the bridge
                logger.exception("a call failed")
                on_end(RpcError(INTERNAL_ERROR, describe_bug(bug)))

    # --- requests that are answered here, between two kinds ---

    async def _discover(self, request: HostRequest) -> JsonObject:
        return revisions.to_discovered(self._link.hello)

    async def _listen(self, request: HostRequest) -> None:
        """Hold a stream for a stateless host, and subscribe to its resources at the server."""
        wanted = revisions.decode_filter(request.params, _LISTS)
        uris = [as_text(uri) for uri in as_list(wanted.get(UPDATES))]
        try:
            for uri in uris:
                if not self._subscriptions.watches(uri):
                    await self._link.subscribe(uri, wanted=True)
            await self._front.hold_stream(request, _LISTS)
        finally:
            self._tasks.start_soon(self._unsubscribe, uris)

    async def _unsubscribe(self, uris: Sequence[str]) -> None:
        for uri in uris:
            if not self._subscriptions.watches(uri):
                try:
                    await self._link.subscribe(uri, wanted=False)
                except (RemoteError, RpcError) as problem:
                    logger.warning(
                        "the server was not told to stop telling of %s: %s", uri, problem
                    )

    async def _set_level(self, request: HostRequest) -> JsonObject:
        level = request.params.get("level")
        if not isinstance(level, str) or level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"the level must be one of {', '.join(LOG_LEVELS)}")
        await self._link.set_level(level)
        return {}

    async def _subscribe(self, request: HostRequest) -> JsonObject:
        uri = request.params.get("uri")
        if not isinstance(uri, str):
            raise RpcError(INVALID_PARAMS, "a resource needs a uri")
        await self._link.subscribe(uri, wanted=request.method == "resources/subscribe")
        return {}

    async def _lower_level(self, level: str) -> None:
        """A stateful server tells from one level on: from the lowest that any request wants."""
        lowest = self._level
        known = level in LOG_LEVELS and "logging" in self._link.capabilities
        if known and (lowest is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(lowest)):
            self._level = level
            try:
                await self._link.set_level(level)
            except RemoteError as problem:  # then it tells what it likes
                logger.info("the server refused a log level: %s", problem)

    # --- the server: LinkListener ---

    async def answer(
        self, method: str, params: JsonObject, call: str | None, id: Id | None = None
    ) -> JsonValue:
        """Answer what the server asks (`LinkListener.answer`)."""
        calls = self._calls.of(call)
        if method == ELICITATION:
            return await self._questions.ask(method, params, calls, id)
        client = self._client_of(calls)
        if not revisions.can_be_asked(client, method, params):
            if method == SAMPLING and self._policy.can_sample:
                return await self._questions.ask(method, params, calls)
            if method == "roots/list" and self._policy.roots:
                return {
                    "roots": [
                        {"uri": root.as_uri(), "name": root.name} for root in self._policy.roots
                    ]
                }
            if client.modern or self._link.modern:
                raise RpcError(METHOD_NOT_FOUND, f"{method[:100]}: {_NOT_ASKED}")
        return await self._ask_host(method, params, calls, id)

    def _client_of(self, calls: Sequence[ProxyCall]) -> McpClientInfo:
        """The host, as it declared itself with the request that waits."""
        waiting = next((each.request for each in calls if each.request is not None), None)
        return self._host.client if waiting is None else waiting.client

    async def _ask_host(
        self, method: str, params: JsonObject, calls: Sequence[ProxyCall], id: Id | None
    ) -> JsonValue:
        """Have the host answer a request of the server itself."""
        if not self._host.client.modern:
            try:
                given, reason = params or None, "it is no longer asked"
                reply = await self._rpc.exchange(method, given, reason=reason, id=id)
            except ConnectionClosedError:
                raise RpcError(INTERNAL_ERROR, "the host has left") from None
            return _without_account(reply.result)
        from abp_bridge.session.surface import HostTimeoutError, RouteChangedError  # once needed

        pending = self._find_pending([each.id for each in calls])
        if pending is None:
            raise RpcError(INVALID_REQUEST, f"{method}: {_NOT_ASKED}")
        asked = as_object(revisions.to_modern_question(params))
        try:
            reply = await pending.wait_for_round(method, asked, _NEEDS[method])
        except (HostTimeoutError, RouteChangedError) as problem:
            raise RpcError(INVALID_REQUEST, f"{method}: {problem or _NOT_ASKED}") from None
        return _without_account(reply.result)

    def passes(self, method: str, result: JsonObject, call: str | None) -> bool:
        """Whether the host answers a task's questions itself, by `tasks/update`."""
        client, questions = self._client_of(self._calls.of(call)), revisions.questions_in(result)
        task = as_text(result.get("taskId"))
        is_task = result.get("status") == "input_required" and bool(task) and client.modern
        if not is_task or not all(
            revisions.can_be_asked(client, *each) for each in questions.values()
        ):
            return False
        if len(self._task_questions) >= MAX_TASKS:
            del self._task_questions[next(iter(self._task_questions))]
        self._task_questions.setdefault(task, set()).update(questions)
        return True

    async def visit(
        self, error: RemoteError, links: Sequence[JsonObject], call: str | None
    ) -> None:
        """Send the user to a server's addresses (`LinkListener.visit`)."""
        calls = self._calls.of(call)
        if self._shows_links(self._client_of(calls)):
            raise error
        await self._questions.visit(links, calls)

    def _shows_links(self, client: McpClientInfo) -> bool:
        """Whether the host handles an error -32042 itself: only a stateful one knows it."""
        shows = decode_capabilities(client.capabilities, client.version)
        return shows.url and not client.modern

    def on_notification(self, method: str, params: JsonObject | None) -> None:
        """Pass on what the server tells, as far as the host hears such (`LinkListener`)."""
        given, is_modern = as_object(params), self._host.client.modern
        if method == "notifications/cancelled":
            if is_id(request := given.get("requestId")):
                self._questions.note_withdrawal(request, as_text(given.get("reason")))
            return
        if method == "notifications/elicitation/complete":
            self._questions.complete(as_text(given.get("elicitationId")))
        if method == "notifications/tools/list_changed":
            self._calls.is_listed = False
        if method == "notifications/progress":
            self._on_progress(given)
        elif not is_modern or revisions.SUBSCRIPTION in as_object(given.get("_meta")):
            self._tell_host(method, params)
        elif method == "notifications/message":
            if self._subscriptions.wants_log(as_text(given.get("level"))):
                self._tell_host(method, params)
        elif method in LISTENED:
            asyncio.get_running_loop().call_soon(self._subscriptions.notify, method, given)
        elif method not in revisions.LEGACY_NOTIFICATIONS:
            self._tell_host(method, params)

    def _on_progress(self, params: JsonObject) -> None:
        call = self._calls.with_token(params.get("progressToken"))
        if call is not None:
            call.learn(params)
        if call is None or not self._host.client.modern:
            self._tell_host("notifications/progress", params)
        elif call.request is not None and call.request.token is not None:
            told = {**params, "progressToken": call.request.token}
            self._tell_host("notifications/progress", told)

    def _tell_host(self, method: str, params: JsonObject | None) -> None:
        if self._host.client.modern:  # a result that was read before takes a turn more
            asyncio.get_running_loop().call_soon(self._rpc.forward_notification, method, params)
        else:
            self._rpc.forward_notification(method, params)

    def on_malformed(self, reason: str, line: bytes) -> None:
        """Show what the server printed for the user's eyes."""
        if line.strip():
            self._policy.overhear(line.rstrip(b"\r\n") + b"\n")
        logger.info("the server wrote a line that is no message: %s", reason)

    def on_end(self) -> None:
        """The next request starts the server again; one that never answered ends the bridge."""
        if not self._link.hello:
            self._tasks.start_soon(self._give_up_soon)
        elif not self._link.is_closed:
            logger.warning("%s The next request starts it again.", self._link.ending)

    async def _give_up_soon(self) -> None:
        await anyio.sleep(FIRST_WORDS)
        if self._link.is_lost and not self._link.hello:
            self._gives_up.set()


def _without_account(answer: JsonValue) -> JsonValue:
    """A host's answer, which does not say that a bridge asked its user."""
    from abp_bridge.protocols.host_words import without_account  # once needed

    return without_account(answer)


def _describe_obstacle(why: str) -> str:
    """Return the error for a host whose user cannot be asked."""
    return (
        f"no one can answer this server's questions: {why}. The server might act without consent."
        " Start abp-bridge mcp with --tty DEVICE or --questions-api PORT; --without-person answers"
        " every question with 'cancel'."
    )


def _log_protocol_error(event: UnmatchedResponse | InvalidMessage) -> None:
    if isinstance(event, InvalidMessage):
        logger.error("a line of the host is refused: %s", event.reason)
    else:
        logger.warning("a response of the host is dropped: no request is open for it")


_LISTS = tuple(word for word in LISTENED.values() if word != UPDATES)
_NEEDS = {SAMPLING: "sampling", "roots/list": "roots"}
_ANSWERED: dict[str, Callable[[Proxy, HostRequest], Awaitable[JsonObject | None]]] = {
    "server/discover": Proxy._discover,
    "subscriptions/listen": Proxy._listen,
    "logging/setLevel": Proxy._set_level,
    "resources/subscribe": Proxy._subscribe,
    "resources/unsubscribe": Proxy._subscribe,
}
