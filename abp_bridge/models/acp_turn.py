"""Decode what an ACP agent sends: its capabilities, its modes, and the updates and result of a
turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
    to_text,
)
from abp_bridge.core.sanitize import label
from abp_bridge.models.turn import (
    MAX_ANSWER,
    MAX_CALLS,
    MAX_MESSAGES,
    SHORT,
    AgentError,
    AgentErrorCode,
    AgentResponse,
    Chunk,
    ChunkKind,
    Cost,
    EndlessTurnError,
    ToolCall,
    ToolsNeededError,
    Usage,
)
from abp_bridge.protocols.acp.agent import AUTH_REQUIRED, ENDED_CALL, STOPS
from abp_bridge.protocols.acp.permission import encode_refusal

LOAD, RESUME = "session/load", "session/resume"
# The modes in which agents use no tool without asking, by their ids, as ACP has no word for what a
# mode permits. In its plan mode Claude asks a classifier instead, so that comes last.
CAUTIOUS = ("read-only", "approve", "ask", "default", "chat", "plan")
_CURRENCY = re.compile("[A-Z]{3}")  # ISO 4217
_HARMLESS = ("think", "switch_mode")  # kinds of tool calls that neither do nor disclose anything


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode of a session; `option` is the config option that holds it, empty for an ACP session
    mode.
    """

    id: str
    option: str = ""


def decode_resume(about: JsonObject) -> str:
    """Return the method that continues a session, preferring the one without replay; empty for
    none.
    """
    declared = as_object(about.get("agentCapabilities"))
    if isinstance(as_object(declared.get("sessionCapabilities")).get("resume"), dict):
        return RESUME
    return LOAD if declared.get("loadSession") is True else ""


def takes_images(about: JsonObject) -> bool:
    """Return whether an agent with this `initialize` result accepts images in prompts."""
    declared = as_object(about.get("agentCapabilities"))
    return as_object(declared.get("promptCapabilities")).get("image") is True


def decode_mode(opened: JsonObject) -> Mode | None:
    """Return the most cautious known mode of a new session; None if there is none or it is set
    already.
    """
    for option in _options(opened, "mode"):
        values = [as_text(each.get("value")) for each in _values(option)]
        return _most_cautious(values, option.get("currentValue"), as_text(option.get("id")))
    modes = as_object(opened.get("modes"))
    listed = map(as_object, as_list(modes.get("availableModes")))
    return _most_cautious([as_text(each.get("id")) for each in listed], modes.get("currentModeId"))


def decode_model(opened: JsonObject) -> str:
    """Return the name of a new session's model; empty if unknown."""
    names = (as_text(each.get("currentValue")) for each in _options(opened, "model"))
    return label(next(names, ""), 120)


def _options(opened: JsonObject, category: str) -> Iterator[JsonObject]:
    options = map(as_object, as_list(opened.get("configOptions")))
    return (each for each in options if each.get("category") == category)


def _values(option: JsonObject) -> Iterator[JsonObject]:
    """List an option's values, grouped ones too."""
    for each in map(as_object, as_list(option.get("options"))):
        yield from map(as_object, as_list(each.get("options"))) if "options" in each else (each,)


def _most_cautious(ids: list[str], current: JsonValue, option: str = "") -> Mode | None:
    named = {id.casefold().replace("_", "-"): id for id in ids}
    found = next((named[word] for word in CAUTIOUS if word in named), None)
    return None if found is None or found == current else Mode(found, option)


def decode_failure(code: int, message: str, data: JsonValue, sign_in: str) -> AgentError:
    """Turn a JSON-RPC error into an AgentError; `sign_in` tells the user how to sign in."""
    if code == AUTH_REQUIRED:
        return AgentError(AgentErrorCode.AUTH_REQUIRED, sign_in)
    details = "" if data is None else f": {label(to_text(data), SHORT)}"
    words = f"{label(message, SHORT) or 'it gave no reason'} ({code}){details}"
    return AgentError(AgentErrorCode.FAILED, words)


class ModelTurn:
    """One turn, from its prompt to its result.

    Args:
        tools: Whether the agent may use its own tools. If not, a tool used without asking fails the
            turn, as its answer may contain the tool's output.

    Attributes:
        failure: Why the turn fails, known before its end.
    """

    def __init__(self, *, tools: bool) -> None:
        self.failure: AgentError | None = None
        self._tools = tools
        # Messages by their ids; agents that have ids send warnings without one.
        self._messages: dict[str, list[str]] = {}
        self._unnamed: dict[int, list[str]] = {}
        self._calls: dict[str, ToolCall] = {}
        self._kinds: dict[str, str] = {}  # of those
        self._refused: set[str] = set()
        self._cost: Cost | None = None
        self._used: int | None = None  # tokens of its context, as it said last
        self._is_in_error = False  # Codex's word for a turn that it ends well all the same
        self._size = 0

    def add(self, update: JsonObject) -> Iterator[Chunk]:
        """Add an update of the session and yield what is new in it."""
        kind = as_text(update.get("sessionUpdate"))
        if kind == "agent_message_chunk":
            yield from self._say(update)
        elif kind == "agent_thought_chunk":
            yield Chunk(ChunkKind.THOUGHT, as_text(as_object(update.get("content")).get("text")))
        elif kind in ("tool_call", "tool_call_update"):
            yield from self._follow(kind, update)
        elif kind == "notice":
            words = (as_text(update.get(name)) for name in ("title", "description"))
            yield Chunk(ChunkKind.NOTICE, ": ".join(filter(None, words)), update)
        else:
            if kind == "usage_update":
                self._cost = _cost(as_object(update.get("cost"))) or self._cost
                self._used = as_count(update.get("used"))
            elif kind == "session_info_update" and (status := _thread_status(update)):
                self._is_in_error = status == "systemError"
            yield Chunk(kind or "unknown", data=update)

    def refuse(self, params: JsonObject) -> JsonObject:
        """Return the result that refuses a `session/request_permission`."""
        if len(self._refused) < MAX_CALLS:
            self._refused.add(as_text(as_object(params.get("toolCall")).get("toolCallId")))
        return encode_refusal(params)

    def end(self, raw: JsonObject) -> AgentResponse:
        """Return the answer for the result of the prompt. Raises AgentError."""
        if self.failure is not None:
            raise self.failure
        reason = raw.get("stopReason")
        if reason != "end_turn":
            raise _stop(reason)
        warnings, messages = ["".join(each) for each in self._unnamed.values()], self._messages
        said = ["".join(each) for each in messages.values()] or warnings
        if said and self._is_its_own(raw):
            words = f"no model has answered; it says itself: {label(said[-1].strip(), SHORT)}"
            raise AgentError(AgentErrorCode.FAILED, words)
        if self._is_in_error:
            words = label("".join(warnings).strip(), SHORT) or "it says that it failed, and not why"
            raise AgentError(AgentErrorCode.FAILED, words)
        earlier = [*(warnings if messages else ()), *said[:-1]]
        return AgentResponse(
            said[-1] if said else None,
            tuple(self._calls.values()),
            _usage(as_object(raw.get("usage")), self._cost),
            "end_turn",
            metadata={"earlierMessages": earlier} if earlier else {},
        )

    def _is_its_own(self, raw: JsonObject) -> bool:
        """Whether the text is the program's own: some report an unreachable model as the answer of
        a
        successful turn, and count no tokens then.
        """
        if as_object(raw.get("usage")):
            return False
        return self._used == 0 or ("usage" in raw and not self._messages)

    # --- updates ---

    def _say(self, update: JsonObject) -> Iterator[Chunk]:
        block = as_object(update.get("content"))
        text = block.get("text") if block.get("type") == "text" else None
        self._size += len(text) if isinstance(text, str) else len(json.dumps(block))
        if self._size > MAX_ANSWER:
            self._fail(EndlessTurnError("says", MAX_ANSWER, "characters"))
        elif not isinstance(text, str):
            yield Chunk(as_text(block.get("type")) or "unknown", data=block)
        elif text:
            if id := as_text(update.get("messageId")):
                self._messages.setdefault(id, []).append(text)
            else:  # a tool call ends a message that has no id
                self._unnamed.setdefault(len(self._calls), []).append(text)
            if len(self._messages) > MAX_MESSAGES:
                self._fail(EndlessTurnError("says", MAX_MESSAGES, "messages"))
            yield Chunk(ChunkKind.TEXT, text)

    def _follow(self, kind: str, update: JsonObject) -> Iterator[Chunk]:
        id = as_text(update.get("toolCallId"))
        is_new = id not in self._calls
        if is_new and len(self._calls) >= MAX_CALLS:
            self._fail(EndlessTurnError("calls", MAX_CALLS, "tools"))
            return
        call = self._calls[id] = self._read_call(id, update)
        self._kinds[id] = as_text(update.get("kind")) or self._kinds.get(id, "")
        if is_new:
            yield Chunk(ChunkKind.TOOL_START, call.name, {"id": id, "arguments": call.arguments})
        if update.get("status") in ENDED_CALL:
            self._judge(call)
            yield Chunk(ChunkKind.TOOL_END, data={**update, "id": id})
        elif not is_new:
            yield Chunk(kind, data=update)

    def _read_call(self, id: str, update: JsonObject) -> ToolCall:
        known = self._calls.get(id) or ToolCall(id, "")
        name = known.name or as_text(update.get("name")) or as_text(update.get("title"))
        return ToolCall(id, name, as_object(update.get("rawInput")) or known.arguments)

    def _judge(self, call: ToolCall) -> None:
        """Fail the turn if an ended tool call, failed or not, was neither allowed nor refused."""
        if self._tools or call.id in self._refused or self._kinds[call.id] in _HARMLESS:
            return
        words = f"it has used a tool without asking, and may use none: {label(call.name, 120)}"
        self._fail(ToolsNeededError(AgentErrorCode.FAILED, words))

    def _fail(self, failure: AgentError) -> None:
        self.failure = self.failure or failure


def _stop(reason: JsonValue) -> AgentError:
    known = STOPS.get(reason) if isinstance(reason, str) else None
    if known is None:
        words = f"ACP has no stop reason {label(reason, 80)!r}"
        return AgentError(AgentErrorCode.PROTOCOL, words)
    return AgentError(AgentErrorCode(known.code), known.message)


def _thread_status(update: JsonObject) -> str:
    """Return the status of Codex's thread; empty if the update has none."""
    codex = as_object(as_object(update.get("_meta")).get("codex"))
    return as_text(as_object(codex.get("threadStatus")).get("type"))


def _cost(cost: JsonObject) -> Cost | None:
    amount, unit = as_number(cost.get("amount")), as_text(cost.get("currency"))
    if amount is None or amount < 0 or not _CURRENCY.fullmatch(unit):
        return None
    return Cost(amount, unit, "session")


def _usage(tokens: JsonObject, cost: Cost | None) -> Usage | None:
    """Return the tokens of a turn. Cached tokens are input too: some agents include them in it,
    others
    do not, as the total shows.
    """
    if not tokens and cost is None:
        return None
    into, out = as_count(tokens.get("inputTokens")), as_count(tokens.get("outputTokens"))
    names = ("cachedReadTokens", "cachedWriteTokens")
    cached = sum(filter(None, (as_count(tokens.get(name)) for name in names)))
    known = (into or 0) + (out or 0) + cached
    if into is not None and known <= (as_count(tokens.get("totalTokens")) or 0):
        into += cached
    return Usage("turn", into, out, cost)
