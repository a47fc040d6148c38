"""An ABP agent as a host: its questions, its notifications and its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import TYPE_CHECKING

import anyio

from abp_bridge import VERSION
from abp_bridge.core.capability import Capability
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object
from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import WAYS, Surface, describe_unasked
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import (
    ConnectionClosedError,
    JsonRpcConnection,
    RemoteError,
    Reply,
)
from abp_bridge.jsonrpc.protocol import METHOD_NOT_FOUND
from abp_bridge.protocols.abp import PREFIX, PROGRESS, agent
from abp_bridge.protocols.abp.agent import decode_response, encode_request
from abp_bridge.protocols.host_words import MAX_HOST_WORDS
from abp_bridge.protocols.mcp.elicitation import encode_address
from abp_bridge.session.context import AskContext
from abp_bridge.session.host import AppCapability, Host, SessionError
from abp_bridge.session.profiles import profile
from abp_bridge.session.surface import (
    HostDisconnectedError,
    HostTimeoutError,
    PageLink,
    SurfaceResponse,
    SurfaceUnsupportedError,
)

if TYPE_CHECKING:
    from abp_bridge.session.bridge import Bridge
    from abp_bridge.session.call import Call

_CHANGED = PREFIX + NoticeKind.CAPABILITIES_CHANGED.value


class AbpSession:
    """The session of one agent, as a `Host`.

    Args:
        connection: The agent's connection.
        info: The agent's `initialize`.
        make_api: Makes the bridge that its calls use.
    """

    def __init__(
        self,
        connection: JsonRpcConnection,
        info: agent.AgentInfo,
        make_api: Callable[[Host], Bridge],
    ) -> None:
        self._connection = connection
        self._info = info
        self._variant = SurfaceVariant(Surface.ABP, interactive=profile(info.name).interactive)
        self._running: dict[str, _Running] = {}  # its calls, by its own ids
        self._agents_ids: dict[str, str] = {}  # those, by ours
        self._unknown: set[str] = set()  # methods that it turned out not to have
        self._listed: dict[str, Capability] | None = None  # as the agent knows them
        self.lost_notifications = connection.lost_notifications
        self._api = make_api(self)

    # --- Host: what the bridge asks of the agent ---

    @property
    def name(self) -> str:
        return self._info.name

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """Return ABP's own methods, if the agent has them."""
        return [self._variant] if self._info.asks else []

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        method, params = encode_request(
            question,
            call=self._agents_ids.get(context.call or "", ""),
            timeout=context.timeout,
            problem=problem,
            named=len({each.app for each in self._api.capabilities()}) > 1,
        )
        return await self._exchange(question, method, params)

    async def send_link(
        self, question: Question, context: AskContext, link: PageLink
    ) -> SurfaceResponse:
        """Send the user to the address by a confirm, without the link: a model may read it."""
        if not self._info.asks:
            raise SurfaceUnsupportedError("this agent cannot ask its person", lasting=True)
        if not (place := await link.show_code()):
            raise SurfaceUnsupportedError(
                "an agent is given no link to the page: set up a browser to be opened"
                f" ({WAYS[Surface.PAGE].give}), or where to show the page's code"
                f" ({WAYS[Surface.TERMINAL].give}, --notify)",
                lasting=False,
            )
        words = encode_address(question, link.address, place)
        method = Kind.CONFIRM.value
        response = await self._exchange(question, method, {"message": words})
        if response.outcome in (Outcome.DECLINED, Outcome.CANCELLED):
            return replace(response, variant=self._variant)
        if response.outcome is not Outcome.ACCEPTED:
            why = f"the agent did not show the page's address: {response.outcome.value}"
            raise SurfaceUnsupportedError(why, lasting=False)
        said = next(iter(response.content.values()), None)
        if not isinstance(said, bool):
            raise RemoteProtocolError("the agent's answer does not say confirmed: true or false")
        outcome = Outcome.ACCEPTED if said else Outcome.DECLINED
        return replace(response, outcome=outcome, content={}, variant=self._variant)

    async def _exchange(
        self, question: Question, method: str, params: JsonObject
    ) -> SurfaceResponse:
        """Return the agent's answer. Raises what `InputProvider.prompt` does."""
        reply = await self._request(method, params)
        answer = decode_response(reply.result, question, method)
        reason = f"the agent answered: {answer.reason or answer.outcome.value}"
        if answer.outcome is Outcome.UNSUPPORTED:
            raise SurfaceUnsupportedError(reason, lasting=False)
        if answer.outcome is Outcome.TIMED_OUT:
            raise HostTimeoutError(reason)
        if answer.outcome is Outcome.WITHDRAWN:
            raise HostDisconnectedError(reason)
        return SurfaceResponse(
            answer.outcome,
            answer.content,
            reply.seconds,
            answered_by=answer.answered_by,
            host_words=label(answer.reason, MAX_HOST_WORDS),
        )

    async def _request(self, method: str, params: JsonObject) -> Reply:
        """Return the agent's reply and its own time."""
        if method in self._unknown or not self._info.may_be_asked(method):
            raise SurfaceUnsupportedError(f"the agent takes no {method}", lasting=False)
        try:
            return await self._connection.exchange(
                method, params, reason="the question is no longer open"
            )
        except ConnectionClosedError:
            raise HostDisconnectedError from None
        except RemoteError as error:
            if error.code == METHOD_NOT_FOUND:
                self._unknown.add(method)
            words = f"the agent answered: {label(error, 300)}"
            raise SurfaceUnsupportedError(words, lasting=False) from None

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """Grant no folders: ABP has no roots."""
        return ()

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """Notify the agent in ABP's terms (`Host.on_notice`)."""
        if not self._info.notices or notice.kind is NoticeKind.CAPABILITIES_CHANGED:
            return
        state = notice.data.get("field") if notice.kind is NoticeKind.STATE_CHANGED else None
        self._connection.notify(
            notice.name,
            agent.encode_notice(notice, self._agents_ids),
            key=None if state is None else ("state", app, str(state)),
            topic=notice.name,
        )

    def on_capabilities_changed(self) -> None:
        """Notify the agent of new, removed and changed capabilities."""
        if (before := self._listed) is None:  # it hears of all of them first
            return
        now = self._find_capabilities()
        changes: dict[str, JsonValue] = {
            "added": [name for name in now if name not in before],
            "removed": [name for name in before if name not in now],
            "changed": [
                name for name, each in now.items() if name in before and each != before[name]
            ],
        }
        self._listed = now
        if self._info.notices and any(changes.values()):
            self._connection.notify(_CHANGED, changes)

    def on_resources_changed(self) -> None:
        """ABP has no resources: state is told, and files are named in results."""

    # --- what the agent asks of the bridge ---

    async def open(self, id: str) -> JsonValue:
        """Connect the apps named at the start, and return the result of `initialize`.

        One app is introduced with its instructions and warnings; several, with their errors.

        Raises:
            SessionError: None can be connected.
        """
        apps = await self._api.connect(None)
        status = self._api.status()
        for each in map(as_object, as_list(status["notConnected"])):
            told: JsonObject = {"code": "TRANSPORT_ERROR", "message": each["problem"]}
            self._connection.notify(f"{PREFIX}{NoticeKind.ERROR.value}", told)
        known = as_object(status["apps"])
        lone = as_object(known.get(apps[0])) if len(known) == 1 else {}
        app: JsonObject = {"id": "abp-bridge", "name": "ABP bridge", "version": VERSION}
        if lone.get("name"):
            said = {word: lone[word] for word in ("instructions", "warnings") if lone.get(word)}
            app = {"id": apps[0], "name": lone["name"], **said}
        return agent.encode_opened(id, app, self.list())

    def list(self) -> list[JsonObject]:
        """What the connected apps can do, as `capabilities/list` has it."""
        self._listed = self._find_capabilities()
        return [agent.encode_capability(name, each) for name, each in self._listed.items()]

    async def call(self, id: str, params: JsonObject) -> JsonValue:
        """Call a capability and return its ABPResponse; `id` is used if `params` have none.

        Raises:
            RemoteProtocolError: The parameters are invalid.
            SessionError: It cannot be called.
        """
        request = agent.decode_call(params)
        if request.id in self._running:
            raise SessionError("INVALID_PARAMS", "a call with this callId is running")
        others = (f"{id}.{number}" for number in count(2))
        name = request.id or next(each for each in chain([id], others) if each not in self._running)
        self._running[name] = running = _Running()
        lost = self.lost_notifications()
        try:
            call = await self._start(name, request)
            self._agents_ids[call.id], running.call = name, call
            if running.cancelled:
                call.cancel(running.cancelled)
            ended = await call.wait()
            del self._agents_ids[call.id]
        finally:
            del self._running[name]
            running.ended.set()
        heard = self._info.notices and lost == self.lost_notifications()
        unasked = describe_unasked(ended.unasked)
        return agent.encode_result(ended.result, [*(() if heard else ended.summary), *unasked])

    async def _start(self, name: str, request: agent.CallRequest) -> Call:
        def on_progress(progress: Progress) -> None:
            if self._info.progress:
                told = agent.encode_progress(progress, name, request.token)
                self._connection.notify(PROGRESS, told, key=("progress", name))

        if request.capability not in self._offers():  # its app may not be there, or no longer
            await self._api.connect(None)
        if (offer := self._offers().get(request.capability)) is None:
            raise SessionError(
                "UNKNOWN_CAPABILITY",
                f"There is no capability {label(request.capability)!r}; capabilities/list names"
                " those there are.",
            )
        return await self._api.start(
            offer.capability.name,
            request.params,
            app=offer.app,
            timeout=request.timeout,
            on_progress=on_progress,
            inline=True,
        )

    def cancel(self, params: JsonObject) -> JsonValue:
        """Cancel a call: what `capabilities/cancel` returns."""
        name = agent.decode_call_id(params.get("callId"))
        if (running := self._running.get(name)) is None:
            return {"callId": name, "cancelled": False, "reason": "no such call is running"}
        running.cancelled = label(params.get("reason") or "the agent cancelled it", 200)
        if running.call is not None:
            running.call.cancel(running.cancelled)
        return {"callId": name, "cancelled": True}

    async def close(self) -> None:
        """End the session: its apps and calls, except one whose app is still being connected."""
        self._listed = None  # it hears of no more changes
        await self._api.close("the agent ended the session")
        for running in list(self._running.values()):
            if running.call is not None:
                await running.ended.wait()

    def _find_capabilities(self) -> dict[str, Capability]:
        return {name: offer.capability for name, offer in self._offers().items()}

    def _offers(self) -> dict[str, AppCapability]:
        """Return each capability by its name for the agent; an ambiguous one has the app's id as
        prefix.
        """
        offers = self._api.capabilities()
        counts = Counter(each.capability.name for each in offers)
        found: dict[str, AppCapability] = {}
        for each in offers:
            name = each.capability.name
            name = name if counts[name] == 1 else f"{each.app}.{name}"
            while name in found:
                name += "'"
            found[name] = each
        return found


@dataclass(slots=True)
class _Running:
    """An agent's call: `call` once it has begun, `cancelled` why it must end."""

    call: Call | None = None
    cancelled: str = ""
    ended: anyio.Event = field(default_factory=anyio.Event)
