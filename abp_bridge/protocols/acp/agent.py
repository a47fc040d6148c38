"""An ACP agent as an app: its capability, updates, results and permission requests.

A permission's choice goes back by option id. Anything but a choice is a cancel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from io import StringIO

from abp_bridge.core import sanitize
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import (
    AppInfo,
    CallResult,
    Capability,
    CapabilityList,
    Failure,
    describe_parameters,
    failed,
)
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text, to_text
from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, Kind, Missing, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import PREFIX, decode_capabilities
from abp_bridge.protocols.host_words import encode_account
from abp_bridge.protocols.mcp.server import decode_block, decode_error
from abp_bridge.protocols.schema_fields import decode_field

PROMPT = "agent.prompt"
COMMAND = "agent.command."  # before the name of each of the agent's own
WORDS = "prompt"  # the parameter that holds the text of a prompt
INPUT = "input"  # that of a command

MAX_SAID = 16 * 2**20  # characters of one turn: what a person or a model reads is far less
MAX_CALLS = 1_000  # tool calls of one turn whose titles are remembered
SHOWN = 120  # characters of what was said last, in a report of progress
AUTH_REQUIRED = -32000

_PROMPT = Capability(
    PROMPT,
    "Prompts the agent, waits until it has done its work, and returns what it said, why it stopped,"
    " and the tokens of the turn. It remembers what was said before; one prompt runs at a time.",
    {
        "type": "object",
        "properties": {WORDS: {"type": "string", "minLength": 1}},
        "required": [WORDS],
    },
    destructive=True,
    presumed=True,
)


def decode_info(raw: JsonObject) -> AppInfo:
    """The result of `initialize` -> AppInfo, whose only capability is the prompt."""
    about = as_object(raw.get("agentInfo"))
    name = as_text(about.get("name"))
    return AppInfo(
        id=sanitize.label(name or "agent", 80),
        name=sanitize.label(as_text(about.get("title")) or name or "an unnamed agent", 120),
        session="",
        version=f"ACP {raw.get('protocolVersion')}",
        capabilities=CapabilityList([_PROMPT]),
    )


def takes_directories(raw: JsonObject) -> bool:
    """Whether the agent of this result of `initialize` takes more folders than one."""
    declared = as_object(as_object(raw.get("agentCapabilities")).get("sessionCapabilities"))
    return isinstance(declared.get("additionalDirectories"), Mapping)


def decode_sign_in(raw: JsonObject, origin: str) -> str:
    """Say how to sign in to an agent.

    Args:
        raw: Its result of `initialize`.
        origin: Its command.
    """
    methods = [as_object(each) for each in as_list(raw.get("authMethods"))]
    names = [as_text(each.get("name")) or as_text(each.get("id")) for each in methods]
    offers = f" It offers: {sanitize.label(', '.join(filter(None, names)))}." if any(names) else ""
    return f"{origin} wants its user signed in first: run it by itself once, and sign in.{offers}"


def list_commands(update: JsonObject) -> list[JsonValue]:
    """An `available_commands_update` -> the commands as entries of a list of capabilities."""
    return [_entry(as_object(each)) for each in as_list(update.get("availableCommands"))]


def _entry(command: JsonObject) -> JsonObject:
    name = as_text(command.get("name"))
    about: JsonObject = {"name": f"{COMMAND}{name}" if name else ""}
    about = {**about, "description": as_text(command.get("description"))}
    taken = as_object(command.get("input"))
    if not taken:
        return {**about, "inputSchema": {"type": "object", "properties": {}}}
    part = {"type": "string", "description": as_text(taken.get("hint"))}
    return {**about, "inputSchema": {"type": "object", "properties": {INPUT: part}}}


def decode_commands(entries: list[JsonValue]) -> CapabilityList:
    """What an agent offers: to be prompted, and its commands, as `list_commands` has them."""
    listed = decode_capabilities(entries)
    commands = (
        replace(each, title=f"/{each.name.removeprefix(COMMAND)}", destructive=True, presumed=True)
        for each in listed
    )
    return CapabilityList([_PROMPT, *commands], listed.problems)


def encode_prompt(capability: str, params: JsonObject) -> str:
    """The text that calls a capability."""
    if capability == PROMPT:
        return as_text(params.get(WORDS))
    return f"/{capability.removeprefix(COMMAND)} {as_text(params.get(INPUT))}".rstrip()


# --- a turn ---------------------------------------------------------------------------------------


class TurnDecoder:
    """Decodes the updates of one turn.

    Args:
        call: The call of the turn; empty between turns.
    """

    def __init__(self, call: str = "") -> None:
        self.call = call
        self._text = StringIO()
        self._last = ""  # the end of it
        self._blocks: list[JsonValue] = []
        self._said = 0  # characters of both
        self._speaker: JsonValue | Missing = MISSING  # whose message goes on
        self._titles: dict[str, str] = {}  # of its tool calls
        self._ended = 0
        self._plan: tuple[int, float] | None = None  # entries that are done, and all

    @property
    def full(self) -> bool:
        """Whether it has said more than is kept: it is to be ended."""
        return self._said > MAX_SAID

    def title(self, tool_call: JsonObject) -> str:
        """What a tool call is called, by itself or by what was told of it before."""
        named = as_text(tool_call.get("title"))
        known = self._titles.get(as_text(tool_call.get("toolCallId")), "")
        return sanitize.label(named) or known or "a tool call"

    def add(self, update: JsonObject) -> Iterator[Notice | Progress]:
        """Take an update of a session: what is to be told of it."""
        kind = as_text(update.get("sessionUpdate"))
        if kind not in _SAYING:
            self._speaker = MISSING
        decode = UPDATES.get(kind)
        if decode is None or (kind in _OF_TURNS and not self.call):
            return iter([_other(kind, update)])
        return decode(self, update)

    def _say(self, update: JsonObject) -> Iterator[Notice | Progress]:
        block = as_object(update.get("content"))
        text = block.get("text")
        plain = isinstance(text, str) and block.get("type") == "text"
        self._said += len(as_text(text)) if plain else len(json.dumps(block))
        if self.full:
            return
        if not plain:
            self._blocks.append(decode_block(block))
            return
        speaker = update.get("messageId")
        words = as_text(text)
        if words and self._last and speaker != self._speaker:
            words = f"\n\n{words}"
        self._speaker = speaker
        self._text.write(words)
        self._last = (self._last + words)[-SHOWN:]
        yield self._progress(self._last.strip().rpartition("\n")[2])

    def _think(self, update: JsonObject) -> Iterator[Notice | Progress]:
        yield self._progress("thinking")

    def _begin_call(self, update: JsonObject) -> Iterator[Notice | Progress]:
        """A tool call, whether it is told first by itself or by what came of it."""
        id = as_text(update.get("toolCallId"))
        if id not in self._titles:
            if len(self._titles) >= MAX_CALLS:
                del self._titles[next(iter(self._titles))]
            self._titles[id] = self.title(update)
            kind = NoticeKind.STARTED
            yield self._operation(kind, id, {"kind": as_text(update.get("kind"), "other")})
        self._titles[id] = self.title(update)
        status = update.get("status")
        if status in ENDED_CALL:
            self._ended += 1
            yield self._operation(NoticeKind.COMPLETED, id, {"success": status == "completed"})
        yield self._progress(self._titles[id])

    def _operation(self, kind: NoticeKind, id: str, more: JsonObject) -> Notice:
        name = sanitize.label(id, 120)
        data = {"operationId": name, "capability": self._titles[id], "progressToken": self.call}
        return Notice(kind, f"{PREFIX}{kind.value}", {**data, **more}, name)

    def _follow_plan(self, update: JsonObject) -> Iterator[Notice | Progress]:
        entries = [as_object(each) for each in as_list(update.get("entries"))]
        now = [each for each in entries if each.get("status") == "in_progress"]
        done = sum(each.get("status") == "completed" for each in entries)
        self._plan = (done, float(len(entries))) if entries else None
        yield self._progress(as_text(now[0].get("content")) if now else "its plan")

    def _progress(self, status: str) -> Progress:
        """How far it is: the entries of its plan, else the tool calls that have ended."""
        value, total = self._plan or (self._ended, None)
        return Progress(self.call, float(value), total, sanitize.label(status))

    @property
    def data(self) -> dict[str, JsonValue]:
        """Return the agent's text, with other content as members, where files are looked for."""
        blocks = {f"attachment{number}": each for number, each in enumerate(self._blocks, 1)}
        return {"text": self._text.getvalue(), **blocks}

    def result(self, raw: JsonObject) -> CallResult:
        """Decode the result of a prompt; a turn that did not end normally is a failure."""
        reason = raw.get("stopReason")
        data = {**self.data, "stopReason": reason}
        if usage := as_object(raw.get("usage")):
            data["usage"] = {"scope": "turn", **usage}
        if self.full:
            words = f"the agent said more than {MAX_SAID} characters in one turn, and was cancelled"
            return CallResult(data, Failure("TRUNCATED", words))
        if reason == "end_turn":
            return CallResult(data)
        failure = STOPS.get(reason) if isinstance(reason, str) else None
        shown = sanitize.label(reason, 80)
        failure = failure or Failure("TRANSPORT_ERROR", f"ACP has no stop reason {shown!r}")
        return CallResult(data, failure, cancelled=failure.code == "CANCELLED")

    def fail(self, code: int, message: str, data: JsonValue) -> CallResult:
        """A JSON-RPC error that answered the prompt -> CallResult, with what was said by then."""
        result = decode_error(code, message, data)
        if code == AUTH_REQUIRED:
            result = failed("PERMISSION_REQUIRED", "the agent wants its user signed in first")
        return replace(result, data=self.data if self._said else None)


STOPS = {
    "refusal": Failure("REFUSED", "the agent refused to go on"),
    "max_tokens": Failure("TRUNCATED", "the agent stopped at its most tokens"),
    "max_turn_requests": Failure("TRUNCATED", "the agent stopped at its most requests to a model"),
    "cancelled": Failure("CANCELLED", "the agent says that its turn was cancelled"),
}
ENDED_CALL = ("completed", "failed")
_SAYING = ("agent_message_chunk", "usage_update")  # a message goes on after these


def _other(kind: str, update: JsonObject) -> Notice:
    name = PREFIX + sanitize.label(kind or "session/update", 100)
    return Notice(NoticeKind.OTHER, name, _members(update))


def _members(update: JsonObject) -> dict[str, JsonValue]:
    return {word: each for word, each in update.items() if word != "sessionUpdate"}


def _change_state(
    field: str, member: str = ""
) -> Callable[[TurnDecoder, JsonObject], Iterator[Notice]]:
    """An update that is a new value of a state of the agent's: one member, or all there are."""

    def decode(turn: TurnDecoder, update: JsonObject) -> Iterator[Notice]:
        value = update.get(member) if member else _members(update)
        kind = NoticeKind.STATE_CHANGED
        yield Notice(kind, f"{PREFIX}{kind.value}", {"field": field, "newValue": value})

    return decode


def _notice(turn: TurnDecoder, update: JsonObject) -> Iterator[Notice]:
    if update.get("severity") != "error":
        yield _other("notice", update)
        return
    words = ": ".join(
        filter(None, (as_text(update.get(each)) for each in ("title", "description")))
    )
    data = {"code": "error", "message": words}
    yield Notice(NoticeKind.ERROR, f"{PREFIX}error", data)


UPDATES: Mapping[str, Callable[[TurnDecoder, JsonObject], Iterator[Notice | Progress]]] = {
    "agent_message_chunk": TurnDecoder._say,
    "agent_thought_chunk": TurnDecoder._think,
    "tool_call": TurnDecoder._begin_call,
    "tool_call_update": TurnDecoder._begin_call,
    "plan": TurnDecoder._follow_plan,
    "notice": _notice,
    "usage_update": _change_state("usage"),
    "current_mode_update": _change_state("mode", "currentModeId"),
    "config_option_update": _change_state("configOptions", "configOptions"),
    "session_info_update": _change_state("session"),
}
_OF_TURNS = ("agent_message_chunk", "agent_thought_chunk", "plan", "tool_call", "tool_call_update")


CANCELLED: JsonObject = {"outcome": {"outcome": "cancelled"}}
ANSWER = "answer"  # the name of the only field

_HARMLESS = ("read", "search", "think")  # kinds of tool calls that destroy nothing
_LASTING = {
    "allow_always": "The agent does not ask again.",
    "reject_always": "The agent does not ask again, and does not do it.",
}
_REJECTING = ("reject_once", "reject_always")  # the likelier to be meant first


def decode_permission(params: JsonObject, title: str, *, id: str, origin: str) -> Question:
    """Decode the parameters of `session/request_permission`.

    Args:
        params: The parameters.
        title: The title of the tool call.
        id: The question's id.
        origin: The agent, as the bridge knows it.

    Raises:
        RemoteProtocolError: There is no option to choose.
    """
    options = [each for each in map(as_object, as_list(params.get("options"))) if _id(each)]
    if not options:
        raise RemoteProtocolError("a permission needs at least one option with an id")
    tool_call = as_object(params.get("toolCall"))
    risky = tool_call.get("kind") not in _HARMLESS
    safe = [_id(each) for kind in _REJECTING for each in options if each.get("kind") == kind]
    schema: JsonObject = {
        "title": "Answer",
        "oneOf": [_describe_option(each) for each in options],
        **({"default": safe[0]} if risky and safe else {}),
    }
    whole = "\n\n".join([title, *_describe_call(tool_call, title)])
    shown = sanitize.message(whole)
    return Question(
        id=id,
        kind=Kind.SELECT,
        message=shown,
        fields=(decode_field(ANSWER, schema, required=True),),
        origin=origin,
        destructive=risky,
        presumed=True,
        uncut="" if shown == whole else whole,
    )


def _id(option: JsonObject) -> str:
    return as_text(option.get("optionId"))


def _describe_option(option: JsonObject) -> JsonObject:
    named = as_text(option.get("name")) or _id(option)
    lasting = _LASTING.get(as_text(option.get("kind")), "")
    return {"const": _id(option), "title": named, "description": lasting}


def _describe_call(tool_call: JsonObject, title: str) -> list[str]:
    """What the agent wants to do, a paragraph each: its title may leave out the half of it."""
    places = [as_object(each) for each in as_list(tool_call.get("locations"))]
    parts = [_show_content(as_object(each)) for each in as_list(tool_call.get("content"))]
    given = tool_call.get("rawInput")
    if given is not None:
        parts.append(describe_parameters(given if isinstance(given, dict) else {"input": given}))
    parts += [f"In {to_text(each.get('path'))}" for each in places]
    shown = (sanitize.reveal(each) for each in parts if each and each != title)
    return list(dict.fromkeys(shown))


def _show_content(content: JsonObject) -> str:
    if content.get("type") == "diff":
        old, new = (
            _mark(mark, content.get(word)) for mark, word in (("-", "oldText"), ("+", "newText"))
        )
        return "\n".join(filter(None, (f"{to_text(content.get('path'))}:", old, new)))
    block = as_object(content.get("content"))
    kind = as_text(content.get("type"), "something")
    return as_text(block.get("text")) or f"[{as_text(block.get('type')) or kind}]"


def _mark(mark: str, text: JsonValue) -> str:
    return "\n".join(f"{mark} {line}" for line in as_text(text).splitlines())


def encode_permission(question: Question, answer: Answer) -> JsonObject:
    """Encode the result of `session/request_permission`: the option's id and who chose it."""
    said = encode_account(answer.answerer)
    if answer.outcome is not Outcome.ACCEPTED or answer.answered_by is AnsweredBy.HOST_POLICY:
        return {**CANCELLED, **said}
    return {"outcome": {"outcome": "selected", "optionId": answer.content.get(ANSWER)}, **said}


def encode_refusal(params: JsonObject) -> JsonObject:
    """Return the result that refuses a permission once, or a cancel.

    A permanent rejection would be stored in the user's settings.
    """
    options = map(as_object, as_list(params.get("options")))
    once = (_id(each) for each in options if each.get("kind") == "reject_once" and _id(each))
    chosen = next(once, None)
    if chosen is None:
        return CANCELLED
    return {"outcome": {"outcome": "selected", "optionId": chosen}}
