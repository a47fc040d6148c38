"""An ABP agent as the bridge sees it: how its person is asked, what it is told, and its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count

from abp_bridge import VERSION
from abp_bridge.core.capability import Capability
from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text
from abp_bridge.core.matrix import Surface, SurfaceVariant
from abp_bridge.core.notice import Notice, NoticeKind, Progress
from abp_bridge.core.question import Outcome, Question
from abp_bridge.core.sanitize import label
from abp_bridge.hosts.profiles import profile
from abp_bridge.interfaces.host import AppCapability, Call, Host, SessionApi, SessionError
from abp_bridge.interfaces.surface import (
    HostDisconnectedError,
    HostTimeoutError,
    PageLink,
    SurfaceResponse,
    SurfaceUnsupportedError,
)
from abp_bridge.protocols.abp import PREFIX, PROGRESS, agent
from abp_bridge.protocols.mcp.model_messages import encode_address
from abp_bridge.rpc.connection import ConnectionClosedError, JsonRpcConnection, RemoteError, Reply
from abp_bridge.rpc.protocol import METHOD_NOT_FOUND

_CHANGED = PREFIX + NoticeKind.CAPABILITIES_CHANGED.value


class AbpSession:
    """The session of one agent.

    Args:
        connection: Where it is asked and told.
        info: The agent as it shows itself.
        make_api: Makes what its calls go to.
    """

    def __init__(
        self,
        connection: JsonRpcConnection,
        info: agent.AgentInfo,
        make_api: Callable[[Host], SessionApi],
    ) -> None:
        self._connection = connection
        self._info = info
        self._calls: dict[str, Call] = {}  # that run, by the agent's ids
        self._agents_ids: dict[str, str] = {}  # the same, by ours
        self._unknown: set[str] = set()  # methods that it turned out not to have
        self._listed: dict[str, Capability] | None = None  # as the agent knows them
        self._serial = 0
        self.lost_notifications = connection.lost_notifications
        self._api = make_api(self)

    # --- Host: what the bridge asks of the agent ---

    @property
    def name(self) -> str:
        """The agent as it calls itself (`Host.name`)."""
        return self._info.name

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """ABP's own methods, where it has them, whatever the calls (`Host.variants`)."""
        row = profile(self.name)
        asks = SurfaceVariant(Surface.ABP, interactive=row.interactive)
        return [asks] if self._info.asks else []

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """Ask by the closest of ABP's methods (`Host.ask`)."""
        method, params = agent.encode_request(question, problem)
        reply = await self._request(question, method, params)
        answer = agent.decode_response(reply.result, question)
        if answer.outcome is Outcome.TIMED_OUT:
            raise HostTimeoutError("nobody answered the agent in time")
        return SurfaceResponse(
            answer.outcome, answer.content, reply.seconds, answered_by=answer.answered_by
        )

    async def send_link(self, question: Question, link: PageLink) -> SurfaceResponse:
        """Have its person sent to the address, by a confirm; nothing of the link: an agent's model
        may read it (`Host.send_link`).
        """
        if not self._info.asks:
            raise SurfaceUnsupportedError("this agent cannot ask its person", lasting=True)
        if not (place := await link.show_code()):
            raise SurfaceUnsupportedError(
                "an agent is given no link to the page: set up a browser to be opened (--page"
                " open), or where to show the page's code (--tty DEVICE, --notify)",
                lasting=False,
            )
        words = encode_address(question, link.address, place)
        reply = await self._request(question, "elicitation/confirm", {"message": words})
        confirmed = as_object(as_object(reply.result).get("data")).get("confirmed")
        outcome = Outcome.ACCEPTED if confirmed is True else Outcome.DECLINED
        return SurfaceResponse(outcome, {}, reply.seconds)

    async def _request(
        self, question: Question, method: str, params: Mapping[str, JsonValue]
    ) -> Reply:
        """What the agent answers, and its own time for it."""
        if method in self._unknown or not self._info.may_be_asked(method):
            raise SurfaceUnsupportedError(f"the agent takes no {method}", lasting=False)
        calls = [self._agents_ids[each] for each in question.calls if each in self._agents_ids]
        named = {"operationId": calls[0]} if len(calls) == 1 else {}
        try:
            return await self._connection.exchange(
                method, {**params, **named}, reason="the question is no longer open"
            )
        except ConnectionClosedError:
            raise HostDisconnectedError from None
        except RemoteError as error:
            if error.code == METHOD_NOT_FOUND:
                self._unknown.add(method)
            words = f"the agent answered: {label(error, 300)}"
            raise SurfaceUnsupportedError(words, lasting=False) from None

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """ABP has no words for folders: none are granted (`Host.roots`)."""
        return ()

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """Tell the agent in ABP's own words (`Host.on_notice`); of capabilities, by
        `on_capabilities_changed`.
        """
        if not self._info.notices or notice.kind is NoticeKind.CAPABILITIES_CHANGED:
            return
        field = notice.data.get("field") if notice.kind is NoticeKind.STATE_CHANGED else None
        self._connection.notify(
            notice.name,
            agent.encode_notice(notice, self._agents_ids),
            key=None if field is None else ("state", app, str(field)),
            topic=notice.name,
        )

    def on_capabilities_changed(self) -> None:
        """Tell the agent which capabilities came, went and changed since it heard of them
        (`Host.on_capabilities_changed`).
        """
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
        """Connect the apps named at the start: the result of `initialize`, for the session `id`.

        Raises:
            SessionError: None of them can be connected.
        """
        apps = await self._api.connect(None)
        about = as_object(self._api.status()["apps"])
        name = as_text(as_object(about.get(apps[0])).get("name")) if len(apps) == 1 else ""
        app: JsonObject = {
            "id": apps[0] if name else "abp-bridge",
            "name": name or "ABP bridge",
            "version": VERSION,
        }
        return agent.encode_opened(id, app, self.list())

    def list(self) -> list[JsonObject]:
        """What the connected apps can do, as `capabilities/list` has it."""
        self._listed = self._find_capabilities()
        return [agent.encode_capability(name, each) for name, each in self._listed.items()]

    async def call(self, params: JsonObject) -> JsonValue:
        """Call a capability: its ABPResponse.

        Raises:
            RemoteProtocolError: The parameters are none of a call's.
            SessionError: It cannot be called.
        """
        request = agent.decode_call(params)
        if request.id in self._calls:
            raise SessionError("INVALID_PARAMS", "a call with this callId is running")
        self._serial += 1
        agents_id = request.id or f"abp-call-{self._serial}"

        def on_progress(progress: Progress) -> None:
            if self._info.progress:
                told = agent.encode_progress(progress, agents_id, request.token)
                self._connection.notify(PROGRESS, told, key=("progress", agents_id))

        offer = self._offers().get(request.capability)
        call = await self._api.start(
            request.capability if offer is None else offer.capability.name,
            request.params,
            app=None if offer is None else offer.app,
            timeout=request.timeout,
            on_progress=on_progress,
        )
        self._calls[agents_id], self._agents_ids[call.id] = call, agents_id
        try:
            ended = await call.wait()
        finally:
            del self._calls[agents_id], self._agents_ids[call.id]
        return agent.encode_result(ended.result, () if self._info.notices else ended.summary)

    def cancel(self, params: JsonObject) -> JsonValue:
        """Cancel a call: what `capabilities/cancel` returns."""
        named = as_text(params.get("callId"))
        call = self._calls.get(named)
        if call is not None:
            call.cancel(label(params.get("reason") or "the agent cancelled it", 200))
        return {"callId": named, "cancelled": call is not None}

    async def close(self) -> None:
        """The agent ends the session: its apps go too."""
        await self._api.close("the agent ended the session")

    def _find_capabilities(self) -> dict[str, Capability]:
        return {name: offer.capability for name, offer in self._offers().items()}

    def _offers(self) -> dict[str, AppCapability]:
        """What the apps can do, by the name that the agent calls it by: one that is taken has the
        app's id before it.
        """
        found: dict[str, AppCapability] = {}
        for each in self._api.capabilities():
            name = each.capability.name
            others = (f"{each.app}.{name}{number}" for number in chain([""], count(2)))
            found[next(free for free in chain([name], others) if free not in found)] = each
        return found
