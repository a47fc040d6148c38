"""An ACP agent as a model: how its sessions are gone on with, the mode that it is put in, and one
turn of it, from what it tells meanwhile to its whole answer, or to why there is none.

Nobody is there to be asked: what it wants permission for is refused. Everything here is total.
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
    """A mode of a session: `option` is the config option that it is a value of, empty where it is a
    mode of ACP's older kind.
    """

    id: str
    option: str = ""


def decode_resume(about: JsonObject) -> str:
    """The result of `initialize` -> the method that goes on with a session, the one that replays
    nothing where there are both; empty where there is none.
    """
    declared = as_object(about.get("agentCapabilities"))
    if isinstance(as_object(declared.get("sessionCapabilities")).get("resume"), dict):
        return RESUME
    return LOAD if declared.get("loadSession") is True else ""


def takes_images(about: JsonObject) -> bool:
    """The result of `initialize` -> whether a prompt may have images."""
    declared = as_object(about.get("agentCapabilities"))
    return as_object(declared.get("promptCapabilities")).get("image") is True


def decode_mode(opened: JsonObject) -> Mode | None:
    """The result of `session/new`, or of what goes on with a session -> the most cautious mode that
    it has; None where it has none that is known, or is in it.
    """
    for option in _options(opened, "mode"):
        values = [as_text(each.get("value")) for each in _values(option)]
        return _most_cautious(values, option.get("currentValue"), as_text(option.get("id")))
    modes = as_object(opened.get("modes"))
    listed = map(as_object, as_list(modes.get("availableModes")))
    return _most_cautious([as_text(each.get("id")) for each in listed], modes.get("currentModeId"))


def decode_model(opened: JsonObject) -> str:
    """The same -> the agent's own name of its model; empty where it says none."""
    names = (as_text(each.get("currentValue")) for each in _options(opened, "model"))
    return label(next(names, ""), 120)


def _options(opened: JsonObject, category: str) -> Iterator[JsonObject]:
    options = map(as_object, as_list(opened.get("configOptions")))
    return (each for each in options if each.get("category") == category)


def _values(option: JsonObject) -> Iterator[JsonObject]:
    """Its values, those in groups too."""
    for each in map(as_object, as_list(option.get("options"))):
        yield from map(as_object, as_list(each.get("options"))) if "options" in each else (each,)


def _most_cautious(ids: list[str], current: JsonValue, option: str = "") -> Mode | None:
    named = {id.casefold().replace("_", "-"): id for id in ids}
    found = next((named[word] for word in CAUTIOUS if word in named), None)
    return None if found is None or found == current else Mode(found, option)


def decode_failure(code: int, message: str, data: JsonValue, sign_in: str) -> AgentError:
    """A JSON-RPC error -> why there is no answer.

    Args:
        code: Its code.
        message: Its message.
        data: What it says beside that.
        sign_in: What to do where the agent wants its user signed in.
    """
    if code == AUTH_REQUIRED:
        return AgentError(AgentErrorCode.AUTH_REQUIRED, sign_in)
    details = "" if data is None else f": {label(to_text(data), SHORT)}"
    words = f"{label(message, SHORT) or 'it gave no reason'} ({code}){details}"
    return AgentError(AgentErrorCode.FAILED, words)


class ModelTurn:
    """One prompt, from when it is sent.

    Args:
        tools: Whether the agent may use its own tools. One that it has used without, and without
            asking, is a failure: what it was told by that tool may stand in its answer.

    Attributes:
        failure: Why it will bring no answer, known before its end.
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
        """Take an update of its session: what is new in it."""
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
        """The parameters of `session/request_permission` -> its result: nobody allows it."""
        if len(self._refused) < MAX_CALLS:
            self._refused.add(as_text(as_object(params.get("toolCall")).get("toolCallId")))
        return encode_refusal(params)

    def end(self, raw: JsonObject) -> AgentResponse:
        """The result of the prompt -> the answer.

        Raises:
            AgentError: There is none, or not all of it came.
        """
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
        """Whether what was said is the program's own: some end a turn well in which their model
        could not be reached, and say that as if it were the answer. They count no tokens then.
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
        """A tool call, whether it is told first by itself or by what came of it."""
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
        """One that has ended, also where it failed, was used, unless it was refused."""
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
    """The status of Codex's thread in an update; empty where it says none."""
    codex = as_object(as_object(update.get("_meta")).get("codex"))
    return as_text(as_object(codex.get("threadStatus")).get("type"))


def _cost(cost: JsonObject) -> Cost | None:
    amount, unit = as_number(cost.get("amount")), as_text(cost.get("currency"))
    if amount is None or amount < 0 or not _CURRENCY.fullmatch(unit):
        return None
    return Cost(amount, unit, "session")


def _usage(tokens: JsonObject, cost: Cost | None) -> Usage | None:
    """What the turn took. What was read from a cache, or written to one, went in as well: some
    agents count it among what went in, some beside that, as the sum of all shows.
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
