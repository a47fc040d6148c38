"""A server's tools and the host's open calls, with the notes for their results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_number,
    as_object,
    as_text,
    json_equal,
    parse_json,
    to_text,
)
from abp_bridge.core.ledger import Progress
from abp_bridge.mcp.connection import RunningCall

if TYPE_CHECKING:
    from abp_bridge.mcp.connection import HostRequest
    from abp_bridge.session.profiles import Profile

MAX_NOTES = 10  # different ones of one call
MAX_TOOLS = 10_000  # tools of one server that are remembered: it may list without an end
WAITS = "abp-bridge: waiting for the user's answer"
_MORE = "abp-bridge: and more of the kind, see its log."
_ROOM: JsonObject = {"type": "object", "description": "What abp-bridge says beside the result."}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as its server describes it; `harmless` if it declares that it destroys nothing."""

    name: str
    description: str = ""
    harmless: bool = False
    output_schema: JsonObject = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ProxyCall(RunningCall):
    """A request of the host that has no result yet; of a stateless host it outlives its requests.

    Attributes:
        token: The `progressToken` that the server knows.
        request: The host's request that waits for it now.
        progress: The last report.
        notes: Added to its result.
        wait_quiet: Waits until the server has written nothing for a while.
    """

    id: str
    tool: str
    harmless: bool
    token: JsonValue
    request: HostRequest | None
    wait_quiet: Callable[[], Awaitable[None]]
    progress: Progress = field(default_factory=lambda: Progress(None, 0, status=WAITS))
    notes: list[str] = field(default_factory=list)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    cancel_reason: str = ""

    async def wait_idle(self) -> None:
        """Wait until questions asked at the same time have arrived (`RunningCall.wait_idle`)."""
        await self.wait_quiet()

    def cancel(self, reason: str) -> None:
        self.cancel_reason = reason
        self.scope.cancel()

    def describe_cancellation(self) -> str:
        """Return why it was cancelled, in the host's words if it gave any."""
        said = "" if self.request is None else self.request.cancel_reason
        return said or self.cancel_reason or "the host cancelled the call"

    def learn(self, params: JsonObject) -> None:
        """Continue from a report of the server: progress must rise."""
        value = as_number(params.get("progress"))
        if value is not None and value > self.progress.value:
            total = as_number(params.get("total"))
            self.progress = replace(self.progress, value=value, total=total)


class Calls:
    """One server's tools by name, and the host's open calls by our id, the newest last.

    Attributes:
        is_listed: Whether all pages of the server's tools are known.
        gave_up: Whether a possibly destructive call was cancelled: its server may still ask.
    """

    def __init__(self, wait_quiet: Callable[[], Awaitable[None]]) -> None:
        self.tools: dict[str, Tool] = {}
        self.open: dict[str, ProxyCall] = {}
        self.is_listed = False
        self.gave_up = False
        self._wait_quiet = wait_quiet
        self._serial = count(1)

    def learn(self, result: JsonObject) -> None:
        """Remember a page of `tools/list`."""
        for each in as_list(result.get("tools")):
            tool = as_object(each)
            name = as_text(tool.get("name"))
            known = self.tools.get(name)
            if name and (known or len(self.tools) < MAX_TOOLS):
                listed = _decode_tool(name, tool)
                # What destroyed something once is not harmless because its server says so later.
                harmless = listed.harmless and (known is None or known.harmless)
                self.tools[name] = replace(listed, harmless=harmless)
        self.is_listed |= result.get("nextCursor") is None

    def begin(self, request: HostRequest) -> ProxyCall:
        """Note an open call. A tool that was never listed counts as destructive."""
        name = as_text(request.params.get("name")) if request.method == "tools/call" else ""
        harmless = self.tool(name).harmless if name else True
        id = f"call-{next(self._serial)}"
        call = ProxyCall(id, name, harmless, request.token, request, self._wait_quiet)
        self.open[id] = call
        return call

    def end(self, call: ProxyCall, *, cancelled: bool) -> None:
        """Forget a call that has its result, or was cancelled."""
        del self.open[call.id]
        self.gave_up |= cancelled and not call.harmless

    def tool(self, name: str) -> Tool:
        return self.tools.get(name) or Tool(name)

    def of(self, call: str | None) -> list[ProxyCall]:
        """The calls that a question may belong to, the newest first."""
        if call is not None:
            return [self.open[call]] if call in self.open else []
        return [*reversed(self.open.values())]

    def are_harmless(self, calls: Sequence[ProxyCall]) -> bool:
        """Whether these call tools, and neither they nor a cancelled call may be destructive."""
        tools = [call for call in calls if call.tool]
        return bool(tools and not self.gave_up) and all(call.harmless for call in tools)

    def with_token(self, token: JsonValue) -> ProxyCall | None:
        """Return the call that the server reports progress of."""
        if token is None:
            return None
        return next((each for each in self.open.values() if each.token == token), None)


def note(calls: Iterable[ProxyCall], words: str) -> None:
    """Add this to the result of each of these calls."""
    for call in calls:
        if words not in call.notes and len(call.notes) < MAX_NOTES:
            call.notes.append(words if len(call.notes) < MAX_NOTES - 1 else _MORE)


def _decode_tool(name: str, tool: JsonObject) -> Tool:
    """Decode a tool. A missing or invalid hint counts as destructive, as in MCP."""
    hints = as_object(tool.get("annotations"))
    harmless = hints.get("readOnlyHint") is True or hints.get("destructiveHint") is False
    return Tool(
        name, as_text(tool.get("description")), harmless, as_object(tool.get("outputSchema"))
    )


def make_room(result: JsonObject) -> JsonObject:
    """Return a `tools/list` result whose closed output schemas allow the notes."""
    from abp_bridge.protocols.mcp.results import MEMBER, wants_room  # once needed

    def open_schema(each: JsonValue) -> JsonValue:
        tool = as_object(each)
        schema = as_object(tool.get("outputSchema"))
        if not wants_room(schema):
            return each
        properties = {**as_object(schema.get("properties")), MEMBER: _ROOM}
        return {**tool, "outputSchema": {**schema, "properties": properties}}

    tools = result.get("tools")
    if not isinstance(tools, list):
        return result
    return {**result, "tools": [open_schema(each) for each in tools]}


def add_notes(
    result: JsonObject, notes: Sequence[str], host: Profile, schema: JsonObject
) -> JsonObject:
    """Return a tool's result with `notes` added.

    Args:
        schema: The tool's `outputSchema` as the host has it; empty if there is none.
    """
    if host.reads_structured and result.get("structuredContent") is not None:
        result, notes = _note_structured(result, notes, schema)
    texts: list[JsonValue] = [
        {"type": "text", "text": f"\n{words}" if host.joins_texts else words} for words in notes
    ]
    return {**result, "content": [*as_list(result.get("content")), *texts]}


def _note_structured(
    result: JsonObject, notes: Sequence[str], schema: JsonObject
) -> tuple[JsonObject, Sequence[str]]:
    """Add the notes to the structured content, or turn that into text if no schema needs it."""
    from abp_bridge.protocols.mcp.results import MEMBER, has_room  # once needed

    structured = result.get("structuredContent")
    if has_room(structured, schema):
        said: JsonObject = {"message": "\n".join(notes)}
        return {**result, "structuredContent": {**as_object(structured), MEMBER: said}}, notes
    if schema:
        return result, notes
    kept = {name: value for name, value in result.items() if name != "structuredContent"}
    if _is_said(structured, as_list(result.get("content"))):
        return kept, notes
    return kept, [to_text(structured), *notes]


def _is_said(structured: JsonValue, content: Sequence[JsonValue]) -> bool:
    """Whether a text of the content is the structured one as JSON."""
    for each in content:
        try:
            said = parse_json(as_text(as_object(each).get("text")))
        except ValueError:
            continue
        if json_equal(said, structured):
            return True
    return False
