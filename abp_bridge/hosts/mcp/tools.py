"""What the MCP tools do: the bridge's own, and one per capability of each connected app."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from abp_bridge.core.capability import CallResult
from abp_bridge.core.json_value import JsonObject, as_list, as_number, as_object, as_text, as_texts
from abp_bridge.core.question import Kind
from abp_bridge.errors import AbpBridgeError, RemoteProtocolError
from abp_bridge.hosts.mcp.tool_calls import ToolCalls, encode_outcome
from abp_bridge.hosts.mcp.tool_definitions import ANSWER, KINDS, OWN_TOOLS, RENDER
from abp_bridge.hosts.mcp.tool_request import ToolRequest
from abp_bridge.interfaces.host import AppCapability, SessionApi, SessionError
from abp_bridge.protocols.mcp.model_messages import decode_answered
from abp_bridge.protocols.mcp.results import encode_result, encode_text, encode_tool, tool_name

LONGEST_CALL = 86_400  # seconds, a day, that a host may give an app for one call


class UnknownToolError(AbpBridgeError):
    """A tool that this session does not have."""


class McpTools:
    """The tools of one session.

    Names of capability tools are made once per (app, capability) and stay while both do.

    Args:
        api: The session that the tools work at.
        calls: Where calls are begun, waited for and answered.
        asks_model: Whether there is a tool for what a model was to ask its user.
    """

    def __init__(
        self,
        api: SessionApi,
        calls: ToolCalls,
        *,
        asks_model: bool,
    ) -> None:
        self._api = api
        self._calls = calls
        self._asks_model = asks_model
        self._names: dict[tuple[str, str], str] = {}
        self._tools: dict[str, tuple[str, str]] = {}

    def list(self) -> list[JsonObject]:
        """`tools/list`: the bridge's own tools first, then one per capability in the app's
        order.
        """
        own = [
            *OWN_TOOLS,
            *([ANSWER] if self._asks_model else []),
            *([RENDER] if self._api.renders else []),
        ]
        offers = self._update_names()
        tools = (
            encode_tool(
                self._names[offer.app, offer.capability.name], offer.capability, offer.origin
            )
            for offer in offers
        )
        return [*own, *tools]

    def _update_names(self) -> Sequence[AppCapability]:
        """What the apps offer now, after each has got its name and no other has one."""
        offers = self._api.capabilities()
        live = {(offer.app, offer.capability.name) for offer in offers}
        self._names = {key: name for key, name in self._names.items() if key in live}
        taken = {*_OWN, *self._names.values()}
        for offer in offers:
            key = offer.app, offer.capability.name
            if key not in self._names:
                self._names[key] = tool_name(offer.capability.name, taken)
                taken.add(self._names[key])
        self._tools = {name: key for key, name in self._names.items()}
        return offers

    async def call(self, request: ToolRequest) -> JsonObject:
        """Answer `tools/call`: a CallToolResult, or what a modern host is asked first.

        What goes wrong inside a tool is a result that says so.

        Raises:
            UnknownToolError: There is no tool of this name.
            RpcError: A modern client did not declare what the call needs.
        """
        name = request.tool
        try:
            if (own := _OWN.get(name)) is not None and (name != ANSWER["name"] or self._asks_model):
                _check_arguments(request)
                return await own(self, request)
            if name not in self._tools:
                self._update_names()
            if name in self._tools:
                app, capability = self._tools[name]
                start = partial(self._api.start, capability, request.arguments, app=app)
                return await self._calls.begin(request, start, encode_outcome)
        except SessionError as problem:
            return encode_text(f"{problem.code}: {problem}", error=True)
        raise UnknownToolError(
            f"Unknown tool {name[:100]!r}. abp_connect connects the apps, and lists what there is."
        )

    async def _connect(self, request: ToolRequest) -> JsonObject:
        target = _text(request, "target")
        apps = await self._api.connect(target)
        return self._describe_apps(apps, alone=target is not None)

    async def _disconnect(self, request: ToolRequest) -> JsonObject:
        apps = await self._api.disconnect(_text(request, "app"))
        return encode_text(f"Disconnected: {', '.join(apps)}." if apps else "No app was connected.")

    async def _status(self, request: ToolRequest) -> JsonObject:
        return encode_text(json.dumps(self._api.status(), ensure_ascii=False, indent=1))

    async def _call(self, request: ToolRequest) -> JsonObject:
        capability = _required(
            request, "capability", "the name of a capability; abp_connect lists them"
        )
        params, timeout = request.arguments.get("params"), request.arguments.get("timeout")
        if params is not None and not isinstance(params, Mapping):
            raise SessionError("INVALID_TYPE", "params must be an object.")
        seconds = as_number(timeout)
        if timeout is not None and (seconds is None or not 0 < seconds <= LONGEST_CALL):
            raise SessionError(
                "INVALID_PARAMS", "timeout must be a number of seconds, at most a day."
            )
        app = _text(request, "app")
        start = partial(self._api.start, capability, params or {}, app=app, timeout=seconds)
        return await self._calls.begin(request, start, encode_outcome)

    async def _ask(self, request: ToolRequest) -> JsonObject:
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
        start = partial(self._api.start_question, kind, {said: message, **more})
        return await self._calls.begin(request, start, encode_outcome)

    async def _wait(self, request: ToolRequest) -> JsonObject:
        call = _required(
            request, "call", "the call to come back to; the result that asked for it names it"
        )
        return await self._calls.wait(request, call)

    async def _answer(self, request: ToolRequest) -> JsonObject:
        question = _required(
            request, "question", "the question that is answered; the result that asked it names it"
        )
        try:
            decode_answered(request.arguments)
        except RemoteProtocolError as problem:
            raise SessionError("INVALID_PARAMS", f"This is no answer: {problem}.") from None
        return await self._calls.answer(request, question)

    async def _render(self, request: ToolRequest) -> JsonObject:
        file = await self._api.render_pdf(_text(request, "app"))
        printed = CallResult(f"The page was printed to {file.path} ({file.size} bytes).")
        return encode_result(printed, files=[file], version=request.client.version)

    def _describe_apps(self, apps: Sequence[str], *, alone: bool) -> JsonObject:
        self._update_names()
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
            lines.append(
                "Its capabilities, each also a tool of its own:"
                if offers
                else "It names no capabilities."
            )
            for capability in (offer.capability for offer in offers):
                about = f": {capability.description}" if capability.description else ""
                lines.append(f"- {capability.name} ({self._names[app, capability.name]}){about}")
        lines.extend(f"Warning: {warning}" for warning in as_texts(status.get("warnings")))
        missing = map(as_object, as_list(status["notConnected"]) if not alone else ())
        lines.extend(f"Could not connect {each['app']}: {each['problem']}" for each in missing)
        return encode_text("\n".join(lines))


_OWN: dict[str, Callable[[McpTools, ToolRequest], Awaitable[JsonObject]]] = {
    "abp_connect": McpTools._connect,
    "abp_disconnect": McpTools._disconnect,
    "abp_status": McpTools._status,
    "abp_call": McpTools._call,
    "abp_wait": McpTools._wait,
    "abp_ask": McpTools._ask,
    "abp_answer": McpTools._answer,
    "abp_render_to_pdf": McpTools._render,
}


_ARGUMENTS = {
    tool["name"]: list(as_object(as_object(tool["inputSchema"])["properties"]))
    for tool in (*OWN_TOOLS, ANSWER, RENDER)
}


def _check_arguments(request: ToolRequest) -> None:
    """An argument that a tool does not have is a mistake to be reported, not to be dropped."""
    known = _ARGUMENTS[request.tool]
    for argument in request.arguments:
        if argument not in known:
            raise SessionError(
                "INVALID_PARAMS",
                f"{request.tool} has no argument {argument[:80]!r};"
                f" it takes {', '.join(known) or 'none'}.",
            )


def _text(request: ToolRequest, name: str) -> str | None:
    value = request.arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise SessionError("INVALID_TYPE", f"{name} must be a string.")
    return value


def _required(request: ToolRequest, name: str, what: str) -> str:
    if not (value := _text(request, name)):
        raise SessionError("MISSING_PARAM", f"{request.tool} needs {what}.")
    return value
