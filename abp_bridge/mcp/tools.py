"""What the MCP tools do: the bridge's own, and one per capability of each connected app."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from abp_bridge.core.capability import CallResult
from abp_bridge.core.json_value import JsonObject, as_list, as_number, as_object, as_text, as_texts
from abp_bridge.core.ledger import Progress
from abp_bridge.core.question import Kind
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import nearest_first
from abp_bridge.errors import AbpBridgeError, RemoteProtocolError
from abp_bridge.mcp.connection import HostRequest
from abp_bridge.mcp.tool_calls import ToolCalls, encode_outcome
from abp_bridge.mcp.tool_list import ANSWER, KINDS, OWN, ToolList
from abp_bridge.protocols.mcp.elicitation import decode_answered
from abp_bridge.protocols.mcp.results import encode_result, encode_text
from abp_bridge.protocols.mcp.tools import ROOM, describe_capabilities, describe_capability
from abp_bridge.session.host import AppCapability, CallOutcome, SessionError
from abp_bridge.session.profiles import Profile, profile

if TYPE_CHECKING:
    from abp_bridge.session.bridge import Bridge
    from abp_bridge.session.call import Call

_EACH_A_TOOL = "Its capabilities, each also a tool of its own:"
_BY_CALL = "Its capabilities, to be called by abp_call (this host does not list tools again):"
MAX_CALL = 86_400  # seconds, a day, that a host may give an app for one call


class UnknownToolError(AbpBridgeError):
    """A tool that this session does not have."""


class McpTools:
    """The tools of one session."""

    def __init__(self, api: Bridge, calls: ToolCalls, tools: ToolList) -> None:
        self._api = api
        self._calls = calls
        self._tools = tools

    def list(self, version: str) -> list[JsonObject]:
        offers, expected = self._api.capabilities(), self._api.expected()
        return self._tools.list_all(version, offers, expected, renders=self._api.renders)

    def is_as_shown(self) -> bool:
        """Whether the host was shown these tools before an app was connected."""
        offers, expected = self._api.capabilities(), self._api.expected()
        return self._tools.is_as_shown(offers, expected, renders=self._api.renders)

    def _update(self) -> Sequence[AppCapability]:
        return self._tools.update(self._api.capabilities(), self._api.expected())

    async def call_tool(self, request: HostRequest) -> JsonObject:
        """Answer `tools/call`; a failure inside a tool is a result.

        Raises UnknownToolError, or RpcError if a stateless client did not declare what it needs.
        """
        name = request.tool
        try:
            is_there = name != ANSWER["name"] or self._tools.asks_via_model
            if (own := _OWN.get(name)) is not None and is_there:
                _check_arguments(request)
                return await own(self, request)
            if self._tools.find_capability(name) is None:
                self._update()
            if (key := self._tools.find_capability(name)) is not None:
                start = partial(self._start_call, *key, request.arguments)
                return await self._calls.begin(request, start, encode_outcome)
        except SessionError as problem:
            words = f"{problem.code}: {problem}"
            about = self._describe_parameters(request, problem.about)
            return encode_text("\n".join([words, *about]), error=True)
        raise UnknownToolError(
            f"Unknown tool {name[:100]!r}. abp_connect connects the apps, and lists what there is."
        )

    async def _start_call(
        self,
        target: str,
        capability: str,
        params: JsonObject,
        on_progress: Callable[[Progress], None],
        on_end: Callable[[CallOutcome], None],
    ) -> Call:
        """Start a call, after connecting its app."""
        app = self._api.find_app(target) or next(iter(await self._api.connect(target)))
        return await self._api.start(
            capability, params, app=app, on_progress=on_progress, on_end=on_end
        )

    def _tool_of(self, request: HostRequest, offer: AppCapability) -> str:
        """Return the tool of a capability; empty if the host will never list it."""
        tool = self._tools.name_of(offer)
        is_late = profile_of(request).lists_once and not self._tools.has_listed(tool)
        return "" if is_late else tool

    def _describe_parameters(
        self, request: HostRequest, about: Sequence[AppCapability]
    ) -> Sequence[str]:
        """Describe the parameters of capabilities that the host was never told."""
        if not about:
            return ()
        self._update()
        described = describe_capabilities(
            (self._tool_of(request, offer), offer.capability) for offer in about
        )
        return (f"What there is to call, with its parameters:\n{described}",)

    async def _connect(self, request: HostRequest) -> JsonObject:
        target = _text(request, "target")
        apps = await self._api.connect(target)
        return self._describe_apps(request, apps, alone=target is not None)

    async def _disconnect(self, request: HostRequest) -> JsonObject:
        apps = await self._api.disconnect(_text(request, "app"))
        return encode_text(f"Disconnected: {', '.join(apps)}." if apps else "No app was connected.")

    async def _status(self, request: HostRequest) -> JsonObject:
        if wanted := _text(request, "capability"):
            return self._describe_one(request, wanted)
        return encode_text(json.dumps(self._api.status(), ensure_ascii=False, indent=1))

    def _describe_one(self, request: HostRequest, wanted: str) -> JsonObject:
        """Describe one capability in full, of each app that has it."""
        offers = self._update()
        found = [
            {
                **({"app": offer.app} if offer.app else {"notConnected": offer.origin}),
                **describe_capability(self._tool_of(request, offer), offer.capability),
            }
            for offer in offers
            if wanted in (offer.capability.name, self._tools.name_of(offer))
        ]
        if not found:
            names = [offer.capability.name for offer in offers]
            raise SessionError(
                "UNKNOWN_CAPABILITY",
                f"There is no capability {label(wanted)!r}. There are:"
                f" {', '.join(nearest_first(wanted, names)) or 'none, before abp_connect'}.",
            )
        return encode_text("\n".join(json.dumps(each, ensure_ascii=False) for each in found))

    async def _call_capability(self, request: HostRequest) -> JsonObject:
        capability = _required(
            request, "capability", "the name of a capability; abp_connect lists them"
        )
        params, timeout = request.arguments.get("params"), request.arguments.get("timeout")
        if params is not None and not isinstance(params, Mapping):
            raise SessionError("INVALID_TYPE", "params must be an object.")
        seconds = as_number(timeout)
        if timeout is not None and (seconds is None or not 0 < seconds <= MAX_CALL):
            raise SessionError(
                "INVALID_PARAMS", "timeout must be a number of seconds, at most a day."
            )
        app = _text(request, "app")
        return await self._calls.begin(
            request,
            lambda on_progress, on_end: self._api.start(
                capability,
                params or {},
                app=app,
                timeout=seconds,
                on_progress=on_progress,
                on_end=on_end,
            ),
            encode_outcome,
        )

    async def _ask(self, request: HostRequest) -> JsonObject:
        method = KINDS.get(_required(request, "kind", f"a kind: {', '.join(KINDS)}"))
        if method is None:
            raise SessionError("INVALID_PARAMS", f"kind must be one of {', '.join(KINDS)}.")
        kind = Kind(method)
        message = _required(request, "message", "the message that your user reads")
        more = {
            name: value
            for name, value in request.arguments.items()
            if name not in ("kind", "message")
        }
        said = "task" if kind is Kind.SAMPLING else "prompt"
        params: JsonObject = {said: message, **more}
        return await self._calls.begin(
            request,
            lambda on_progress, on_end: self._api.start_question(
                kind, params, on_progress=on_progress, on_end=on_end
            ),
            encode_outcome,
        )

    async def _wait(self, request: HostRequest) -> JsonObject:
        call = _required(
            request, "call", "the call to come back to; the result that asked for it names it"
        )
        return await self._calls.wait(request, call)

    async def _answer_question(self, request: HostRequest) -> JsonObject:
        question = _required(
            request, "question", "the question that is answered; the result that asked it names it"
        )
        try:
            decode_answered(request.arguments)
        except RemoteProtocolError as problem:
            raise SessionError("INVALID_PARAMS", f"This is no answer: {problem}.") from None
        return await self._calls.answer_question(request, question)

    async def _render(self, request: HostRequest) -> JsonObject:
        if not self._api.renders and self._api.expected().renders:
            await self._api.connect(None)
        file = await self._api.render_pdf(_text(request, "app"))
        printed = CallResult(f"The page was printed to {file.path} ({file.size} bytes).")
        return encode_result(printed, files=[file], version=request.client.version)

    def _describe_apps(
        self, request: HostRequest, apps: Sequence[str], *, alone: bool
    ) -> JsonObject:
        self._update()
        status = self._api.status()
        known = as_object(status["apps"])
        lines = []
        for app in apps:
            details = as_object(known[app])
            lines.append(f"Connected {app}: {details['name']} ({details['origin']}).")
            lines.extend(f"Warning: {warning}." for warning in as_texts(details["warnings"]))
            if instructions := as_text(details.get("instructions")):
                lines.append(f"It says of itself: {json.dumps(instructions, ensure_ascii=False)}")
            offers = [offer for offer in self._api.capabilities() if offer.app == app]
            tools = [(self._tool_of(request, offer), offer.capability) for offer in offers]
            if tools:
                lines.append(_EACH_A_TOOL if all(tool for tool, _ in tools) else _BY_CALL)
                lines.append(describe_capabilities(tools, ROOM // len(apps)))
            else:
                lines.append("It names no capabilities.")
        lines.extend(f"Warning: {warning}" for warning in as_texts(status.get("warnings")))
        missing = map(as_object, as_list(status["notConnected"]) if not alone else ())
        lines.extend(f"Could not connect {each['app']}: {each['problem']}" for each in missing)
        return encode_text("\n".join(lines))


def profile_of(request: HostRequest) -> Profile:
    """Return the profile of the requesting host."""
    return profile(request.client.info.get("name"), request.client.capabilities)


_OWN: dict[str, Callable[[McpTools, HostRequest], Awaitable[JsonObject]]] = {
    "abp_connect": McpTools._connect,
    "abp_disconnect": McpTools._disconnect,
    "abp_status": McpTools._status,
    "abp_call": McpTools._call_capability,
    "abp_wait": McpTools._wait,
    "abp_ask": McpTools._ask,
    "abp_answer": McpTools._answer_question,
    "abp_render_to_pdf": McpTools._render,
}


_ARGUMENTS = {
    name: list(as_object(as_object(tool["inputSchema"])["properties"]))
    for name, tool in OWN.items()
}


def _check_arguments(request: HostRequest) -> None:
    """Raise SessionError for an unknown argument."""
    known = _ARGUMENTS[request.tool]
    for argument in request.arguments:
        if argument not in known:
            raise SessionError(
                "INVALID_PARAMS",
                f"{request.tool} has no argument {argument[:80]!r};"
                f" it takes {', '.join(known) or 'none'}.",
            )


def _text(request: HostRequest, name: str) -> str | None:
    value = request.arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise SessionError("INVALID_TYPE", f"{name} must be a string.")
    return value


def _required(request: HostRequest, name: str, what: str) -> str:
    if not (value := _text(request, name)):
        raise SessionError("MISSING_PARAM", f"{request.tool} needs {what}.")
    return value
