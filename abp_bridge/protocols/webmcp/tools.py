"""A page's tools, as the browser lists them -> capabilities, and how their calls end."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from abp_bridge.core import sanitize
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult, Capability, CapabilityList, Failure, failed
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_text,
    as_texts,
    map_texts,
    member_names,
)
from abp_bridge.core.outcome import ANSWERERS, SAID_NO, AnsweredBy, Outcome
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.core.redact.names import declared_secret
from abp_bridge.core.sanitize import label
from abp_bridge.core.schema import parts
from abp_bridge.core.surface import MAX_LISTED
from abp_bridge.protocols.abp import decode_capabilities
from abp_bridge.protocols.mcp import server
from abp_bridge.protocols.webmcp.form import Form

Key = tuple[str, str]  # the frame's id, and the tool's name: two frames may share one

WAITS = "Its form waits for its person, who may change what is filled in, and sends it or does not."
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9-]*")  # a format; anything else there is a pattern
_NOTHING: JsonObject = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool or a form that a page registered.

    Attributes:
        frame: Its frame's id.
        name: The page's name for it.
        description: The page's description.
        schema: Its input schema.
        node: The browser's id of its form; None for a function.
        autosubmit: Whether its form is sent as soon as it is filled in.
        read_only: Whether the page says it changes nothing.
        consequential: Whether the page wants each call approved.
        untrusted: Whether the page says its results hold others' text.
    """

    frame: str
    name: str
    description: str = ""
    schema: JsonObject = field(default_factory=dict)
    node: int | None = None
    autosubmit: bool = False
    read_only: bool = False
    consequential: bool = False
    untrusted: bool = False

    @property
    def key(self) -> Key:
        """What no other tool of the page has."""
        return self.frame, self.name

    @property
    def waits(self) -> bool:
        """Whether it is a form that its person has to send."""
        return self.node is not None and not self.autosubmit

    @property
    def needs_approval(self) -> bool:
        """Whether each call needs approval; a form that waits asks the user itself."""
        return not self.read_only and (self.consequential or self.autosubmit)


def decode_tools(raw: JsonValue) -> list[Tool]:
    """The tools of a `toolsAdded`; what is none is left out."""
    listed = map(as_object, as_list(as_object(raw).get("tools")))
    return [_decode_tool(each) for each in listed if as_text(each.get("name"))]


def _decode_tool(given: JsonObject) -> Tool:
    hints = as_object(given.get("annotations"))
    return Tool(
        frame=as_text(given.get("frameId")),
        name=as_text(given.get("name")),
        description=as_text(given.get("description")),
        schema=as_object(given.get("inputSchema")),
        node=as_integer(given.get("backendNodeId")),
        autosubmit=hints.get("autosubmit") is True,
        read_only=hints.get("readOnly") is True,
        consequential=hints.get("consequential") is True,
        untrusted=hints.get("untrustedContent") is True,
    )


def decode_keys(raw: JsonValue) -> list[Key]:
    """The tools that a `toolsRemoved` names."""
    listed = map(as_object, as_list(as_object(raw).get("tools")))
    return [(as_text(each.get("frameId")), as_text(each.get("name"))) for each in listed]


def name_tools(
    tools: Iterable[Tool], taken: Collection[str], known: Mapping[Key, str], frames: Sequence[str]
) -> dict[Key, str]:
    """Return each tool's name: the page's, unless it is taken.

    Args:
        tools: The tools.
        taken: Other tools' names.
        known: Names in use, which do not change.
        frames: The page's frame ids, in order.
    """
    names = {each.key: known[each.key] for each in tools if each.key in known}
    names = {key: name for key, name in names.items() if name not in taken}
    used = {*taken, *names.values()}
    for each in tools:
        if each.key in names:
            continue
        number = frames.index(each.frame) + 1 if each.frame in frames else 0
        name = each.name
        if name in used:
            name = f"frame{number}.{each.name}" if number > 1 else f"webmcp.{each.name}"
        while name in used:
            name = f"{name}_"
        names[each.key] = name
        used.add(name)
    return names


def describe_tools(tools: Sequence[tuple[Tool, str, Mapping[str, bool]]]) -> CapabilityList:
    """Return a page's tools as capabilities; `problems` names those that cannot be called.

    Args:
        tools: Each with its name and the parameters a model may not give, those with whether the
            user is asked for them.
    """
    listed = decode_capabilities([_entry(*each) for each in tools])
    by_name = {name: (tool, withheld) for tool, name, withheld in tools}
    described = (_add_hints(each, *by_name[each.name]) for each in listed)
    return CapabilityList(described, listed.problems)


def _entry(tool: Tool, name: str, withheld: Collection[str]) -> JsonObject:
    schema = clean_schema(tool.schema or _NOTHING, withheld)
    if tool.waits:  # what the model does not know is the person's to fill in
        schema = {word: value for word, value in schema.items() if word != "required"}
    description = _describe_tool(tool.description, WAITS if tool.waits else "")
    hints: dict[str, JsonValue] = {"readOnlyHint": True} if tool.read_only else {}
    hints |= {"openWorldHint": True} if tool.untrusted else {}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": hints}


def _describe_tool(words: str, more: str) -> str:
    """What a page says, ended as a sentence where there is more."""
    end = "." if more and words[-1:].isalnum() else ""
    return f"{words}{end} {more}".strip()


def _add_hints(capability: Capability, tool: Tool, withheld: Mapping[str, bool]) -> Capability:
    """Add a tool's hints: a function without hints may do anything, a form that waits nothing."""
    destructive = not tool.read_only and not tool.waits
    asked = [name for name, is_asked in withheld.items() if is_asked]
    needed = as_texts(tool.schema.get("required")) if tool.waits else []
    return replace(
        capability,
        destructive=destructive,
        presumed=destructive and not tool.consequential,
        harmless=tool.read_only,
        needs_approval=tool.needs_approval,
        asked_of_person=(*(each for each in needed if each not in withheld), *asked),
    )


def withheld_names(schema: JsonObject) -> set[str]:
    """The parameters of a function that its schema declares to be secrets."""
    named = as_object(schema.get("properties")).items()
    return {name for name, part in named if declared_secret(as_object(part))}


def clean_schema(schema: JsonObject, withheld: Collection[str]) -> dict[str, JsonValue]:
    """Return a schema without withheld parameters; a pattern in `format` moves to `pattern`."""
    properties = as_object(schema.get("properties"))
    kept = {name: _clean(part) for name, part in properties.items() if name not in withheld}
    made: dict[str, JsonValue] = {**schema, "type": "object", "properties": kept}
    if "required" in schema:
        made["required"] = [each for each in as_texts(schema["required"]) if each not in withheld]
    return made


def _clean(part: JsonValue) -> JsonValue:
    """The schema of a parameter, and of the entries of a list, with each thing in its place."""
    if not isinstance(part, Mapping):
        return part
    cleaned = dict(part)
    if isinstance(cleaned.get("items"), Mapping):
        cleaned["items"] = _clean(cleaned["items"])
    said = as_text(cleaned.get("format"))
    if said and _WORD.fullmatch(said) is None:
        del cleaned["format"]
        cleaned.setdefault("pattern", said)
    if cleaned.get("type") == "number" and cleaned.get("multipleOf") == 1:
        cleaned["type"] = "integer"
        del cleaned["multipleOf"]
    return cleaned


def secret_properties(schema: JsonObject) -> JsonObject:
    """The withheld parameters of a function, as an object schema to ask them by."""
    withheld = withheld_names(schema)
    properties = as_object(schema.get("properties"))
    named = {name: {**as_object(properties[name]), "format": "password"} for name in withheld}
    ordered = {name: named[name] for name in properties if name in named}
    required = [each for each in as_texts(schema.get("required")) if each in named]
    return {"type": "object", "properties": ordered, "required": required}


def has_nested_secret(schema: JsonObject) -> bool:
    """Whether a secret is nested inside a parameter, where it cannot be asked for alone."""
    own = [as_object(each) for each in as_object(schema.get("properties")).values()]
    inner = (part for each in own for _, part in parts(each)[1:])
    return any(declared_secret(each) for each in inner)


def clean_tool(tool: Tool, hide: Callable[[str], str]) -> Tool | None:
    """Return a tool without secrets in its words; None where one is in a name it is called by."""
    named = [tool.name, *member_names(tool.schema)]
    if any(hide(each) != each for each in named):
        return None
    schema = as_object(map_texts(tool.schema, hide))
    return replace(tool, description=hide(tool.description), schema=schema)


UNKNOWN = "OUTCOME_UNKNOWN"

# What an error of the browser's begins with, and the code it is told with.
_CODES = {
    "Form validation failed": "INVALID_PARAMS",
    "Invalid ": "INVALID_PARAMS",
    "Tool not found": "UNKNOWN_CAPABILITY",
}
# The page's script stopped the sending and did not say what it did in its place.
_SILENT = "preventDefault"
LOOK = "Do not call it again before you know: it may be done twice."


def decode_response(raw: JsonValue) -> CallResult:
    """Decode a `WebMCP.toolResponded` event; a page's own error list is data."""
    said = as_object(raw)
    status = as_text(said.get("status"))
    if status == "Completed":
        return _completed(said.get("output"))
    words = label(_first_line(said) or "the page gave no reason", 1_000)
    if was_ended(said):
        return failed("CANCELLED", f"The page ended the call: {words}", cancelled=True)
    if _SILENT in words:
        return unknown_outcome(f"the page did not say what became of it ({words})", {})
    code = next((code for start, code in _CODES.items() if words.startswith(start)), "")
    return failed(code or "OPERATION_FAILED", words)


def was_ended(raw: JsonObject) -> bool:
    """Whether a `WebMCP.toolResponded` event says that the page ended the call, or its form did."""
    return raw.get("status") == "Canceled"


def _completed(output: JsonValue) -> CallResult:
    """The data as they are; what has MCP's shape is read as that."""
    blocks = as_list(as_object(output).get("content"))
    if blocks and all(isinstance(as_object(each).get("type"), str) for each in blocks):
        return server.decode_result(output)
    return CallResult(output)


def _first_line(said: JsonObject) -> str:
    """Why it failed; a script's error without its stack."""
    thrown = as_object(said.get("exception"))
    words = as_text(said.get("errorText")) or as_text(thrown.get("description"))
    return (words or as_text(thrown.get("value"))).strip().split("\n", 1)[0]


def unknown_outcome(why: str, sent: Mapping[str, JsonValue]) -> CallResult:
    """Return the result of a call that may have had an effect.

    Args:
        why: Why it is unknown, as the rest of a sentence.
        sent: What was sent, without secrets.
    """
    words = f"It was sent, and what came of it is not known: {why}. {LOOK}"
    return CallResult(failure=Failure(UNKNOWN, words, details={"sent": dict(sent)}))


def left_by_itself() -> CallResult:
    """Return the result if the page navigated before the bridge sent the form."""
    words = "The page went on to another by itself, before its form was sent from here"
    return CallResult(failure=Failure(UNKNOWN, f"{words}: what came of it is not known. {LOOK}"))


def beforeunload_result() -> CallResult:
    """Return the result if the page's "leave?" dialog stopped the form."""
    words = "The browser did not send the form: its page asked whether it may be left, and was not"
    more = "What a script of the page's own did with it is not known."
    return CallResult(failure=Failure(UNKNOWN, f"{words}. {more} {LOOK}"))


def refusal_result(answer: Answer) -> CallResult:
    """How a call ends whose question was not accepted, or was answered with a no."""
    row = SAID_NO if answer.outcome is Outcome.ACCEPTED else answer.outcome.row
    code, cancelled = row.code, row.cancelled
    why = row.why.format(who=ANSWERERS[answer.answered_by])
    if answer.answered_by is AnsweredBy.HOST_POLICY:
        code, why, cancelled = "PERMISSION_REQUIRED", "no person answered", False
    reason = f" {answer.reason}" if answer.reason else ""
    words = f"Nothing was sent: {why}.{reason}"
    return failed(code, words, retryable=row.retryable, cancelled=cancelled)


def unsent_result(
    why: str, code: str = "OPERATION_FAILED", *, retryable: bool = False
) -> CallResult:
    """How a call ends that the page or the bridge ended before anything was sent."""
    return failed(code, f"Nothing was sent: {why}.", retryable=retryable)


DONE = "done"


def find_need(form: Form) -> str:
    """Return why only the user can finish a form, as the rest of a sentence; else ""."""
    if form.stuck:
        return f"its page made {_listed(form.stuck)} itself, which cannot be filled in from here"
    return describe_frames(form.frames)


def describe_frames(origins: tuple[str, ...]) -> str:
    """Whose frames are shown, which nobody else can read, as the rest of a sentence."""
    if not origins:
        return ""
    named = _listed([origin or "no origin" for origin in dict.fromkeys(origins)])
    return f"a frame of {named} is in it, which nobody else can read or fill in"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{', '.join(sanitize.label(each, 80) for each in names[:MAX_LISTED])}{more}"


def make_hand_question(
    *, id: str, origin: str, description: str, why: str, wanted: str
) -> Question:
    """Return the question shown while the user works in the page; yes means done.

    Args:
        id: The question's id.
        origin: Of the tool's frame.
        description: The page's description of the tool.
        why: Why the user is needed, as the rest of a sentence.
        wanted: What to do there, as sentences.
    """
    note = (
        f"Only a hand in the page can go on: {why}. Its window is in front now. {wanted} Then say"
        " yes here. A no drops it."
    )
    return Question(
        id,
        Kind.CONFIRM,
        sanitize.message(description) or "Please do this in the page.",
        (Field(DONE, FieldType.BOOLEAN, {"type": "boolean"}, title="It is done"),),
        origin,
        wrapped=False,
        destructive=True,
        presumed=True,
        note=note,
    )


def says_done(answer: Answer) -> bool:
    """Whether its person said that it is done."""
    return answer.outcome is Outcome.ACCEPTED and answer.content.get(DONE) is True


def reached_nobody(answer: Answer) -> bool:
    """Whether no person had anything in hand, as none was asked."""
    return answer.outcome is Outcome.UNSUPPORTED or answer.answered_by is AnsweredBy.HOST_POLICY


def end_hand(answer: Answer) -> CallResult:
    """Return the result of a call whose page did not respond and whose user did not say done."""
    if reached_nobody(answer) or answer.outcome is Outcome.WITHDRAWN:
        return refusal_result(answer)
    if answer.outcome in (Outcome.TIMED_OUT, Outcome.INVALID):
        return unknown_after_hand("nobody said within the time whether it is done")
    words = "It was dropped; what the page or its person had done by then is done."
    return failed("USER_CANCELLED", words, cancelled=True)


def unknown_after_hand(why: str) -> CallResult:
    """How a call ends that was in its person's hands, and of which nobody knows what came."""
    words = f"Its person had the page in hand, and what came of it is not known: {why}. {LOOK}"
    return CallResult(failure=Failure(UNKNOWN, words))


def needs_window(why: str, next_step: str) -> CallResult:
    """How a call ends that only a hand could finish, where no window is."""
    words = f"Nothing was sent: only a hand in the page can go on, as {why}. {next_step}."
    return failed("NOT_SUPPORTED", words)
