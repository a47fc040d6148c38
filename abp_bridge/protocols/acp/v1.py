"""The Agent Client Protocol, version 1, for this process as the agent.

Forms use the subset that strict clients read: no own `format`, all options titled. The answer is
still validated against the app's schema. A client without forms is asked in the conversation:
`decode_reply` classifies the user's next prompt by structure alone (the kinds of its blocks, a
command at its start, or one of two words by itself); anything else is the answer.
"""

from __future__ import annotations

import base64
import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from abp_bridge.core import sanitize
from abp_bridge.core.capability import Capability, SavedFile
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    as_texts,
    is_number,
    to_text,
)
from abp_bridge.core.ledger import Notice, NoticeKind, Progress, describe_notice
from abp_bridge.core.menu import Option, Step
from abp_bridge.core.options import DONE, SKIP, field_limits, is_default
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import MISSING, Field, FieldType, Question, message_of, quote
from abp_bridge.core.sanitize import label, message
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.mcp import elicitation as mcp
from abp_bridge.protocols.mcp.client import V2025_11_25

VERSION = 1
REQUEST_CANCELLED = -32800
RESOURCE_NOT_FOUND = -32002
CANCEL_REQUEST = "$/cancel_request"


@dataclass(frozen=True, slots=True)
class ClientCapabilities:
    """A client's declared capabilities. Unlike in MCP, `elicitation: {}` declares no mode."""

    form: bool = False
    url: bool = False
    notices: bool = False


def encode_cancel(id: JsonValue, reason: str) -> tuple[str, JsonValue]:
    """How a request is taken back: (method, params). There is no room for a reason."""
    return CANCEL_REQUEST, {"requestId": id}


def decode_capabilities(declared: JsonValue) -> ClientCapabilities:
    """The `clientCapabilities` of `initialize`. Anything that is not an object declares nothing."""
    capabilities = as_object(declared)
    elicitation, session = (
        as_object(capabilities.get(word)) for word in ("elicitation", "session")
    )
    return ClientCapabilities(
        form=isinstance(elicitation.get("form"), Mapping),
        url=isinstance(elicitation.get("url"), Mapping),
        notices=isinstance(session.get("notices"), Mapping),
    )


def encode_form(
    question: Question, session: str, call: str, problem: str = "", *, plain: bool = False
) -> dict[str, JsonValue]:
    """Return the parameters of a form-mode `elicitation/create`, tied to a tool call.

    `plain` and `problem` are as in MCP's `encode_form`.
    """
    form = mcp.encode_form(question, V2025_11_25, plain=plain, problem=problem)
    schema = as_object(form["requestedSchema"])
    properties = {
        name: _strict(as_object(part)) for name, part in as_object(schema["properties"]).items()
    }
    return {
        "sessionId": session,
        "toolCallId": call,
        **form,
        "requestedSchema": {**schema, "properties": properties},
    }


def encode_url(
    question: Question, session: str, call: str, url: str, elicitation: str
) -> dict[str, JsonValue]:
    """The parameters of a url-mode `elicitation/create`, tied to a tool call."""
    return {"sessionId": session, "toolCallId": call, **mcp.encode_url(question, url, elicitation)}


_DONE, _SKIP = Option("done", DONE), Option("skip", SKIP, rejects=True)


def link_step(question: Question, url: str) -> Step:
    """Return a step that sends the user to `url`, a page of the bridge."""
    title = f"{sanitize.label(question.message, 120)} Answer at {url}"
    note = f"\n\n{question.note}" if question.note else ""
    about = (
        f"{question.quoted}{note}\n\nThis is answered on a page of abp-bridge's own. Open this"
        f" link, answer there, then press Done:\n{url}"
    )
    return Step(title, about, (_DONE, _SKIP))


def decode_link_outcome(chosen: str | None) -> Outcome:
    """Decode the option chosen on a `link_step`; None is a cancel.

    Raises:
        RemoteProtocolError: An unknown option.
    """
    if chosen is None:
        return Outcome.CANCELLED
    if chosen not in (_DONE.id, _SKIP.id):
        raise RemoteProtocolError(
            f"the client chose {sanitize.label(chosen, 60)!r}, which it was not offered"
        )
    return Outcome.ACCEPTED if chosen == _DONE.id else Outcome.DECLINED


def encode_permission(
    question: Question, step: Step, session: str, call: str
) -> dict[str, JsonValue]:
    """Return the parameters of `session/request_permission` for one menu step.

    Never offers "always": some clients store it.
    """
    title = f"{question.asker} asks: {step.title}"
    shown = (
        step.text if question.quoted in step.text else f"{question.quoted}\n\n{step.text}"
    )  # titles are short, and may be cut
    options = [
        {
            "optionId": option.id,
            "name": option.label,
            "kind": "reject_once" if option.rejects else "allow_once",
        }
        for option in step.options
    ]
    tool_call = {**_tool_call(call, title, "pending"), "content": [_encode_content(shown)]}
    return {"sessionId": session, "toolCall": tool_call, "options": options}


def decode_outcome(result: JsonValue) -> str | None:
    """Return the chosen option of a permission request, or None if it was cancelled.

    Raises:
        RemoteProtocolError: An unknown outcome.
    """
    outcome = as_object(as_object(result).get("outcome"))
    if outcome.get("outcome") == "cancelled":
        return None
    option = outcome.get("optionId")
    if outcome.get("outcome") == "selected" and isinstance(option, str):
        return option
    raise RemoteProtocolError(
        f"the client answered the permission with {sanitize.label(outcome.get('outcome'), 80)!r}"
    )


def encode_call(call: str, capability: str, params: JsonObject) -> dict[str, JsonValue]:
    """The update that a call has begun."""
    card = _tool_call(call, capability, "in_progress")
    return {"sessionUpdate": "tool_call", **card, "rawInput": dict(params)}


def encode_question_card(call: str, question: Question) -> dict[str, JsonValue]:
    """Return a question's tool call: clients show a permission only on one they know."""
    title = sanitize.label(f"{question.asker} asks: {question.message}")
    return {"sessionUpdate": "tool_call", **_tool_call(call, title, "pending")}


def _tool_call(call: str, title: str, status: str) -> dict[str, JsonValue]:
    return {"toolCallId": call, "title": title, "kind": "other", "status": status}


def encode_progress(call: str, progress: Progress) -> dict[str, JsonValue]:
    """Encode progress of a call; Goose reads and writes `_meta.toolNotification`."""
    params: dict[str, JsonValue] = {"progressToken": call, "progress": progress.value}
    if progress.total is not None:
        params["total"] = progress.total
    if progress.message:
        params["message"] = progress.message
    share = f"{progress.value / progress.total:.0%}" if progress.total else f"{progress.value:g}"
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call,
        "status": "in_progress",
        "content": [
            _encode_content(" · ".join(part for part in (share, progress.message) if part))
        ],
        "_meta": {"toolNotification": {"type": "progress", "params": params}},
    }


def encode_ended(
    call: str, lines: Sequence[str], files: Sequence[SavedFile], *, failed: bool
) -> dict[str, JsonValue]:
    """The update that a call has ended, with its result and links to its files."""
    links: list[JsonValue] = [
        {"type": "content", "content": _encode_file(file)}
        for file in files
        if file.path or file.content is not None
    ]
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call,
        "status": "failed" if failed else "completed",
        "content": [*(_encode_content(line) for line in lines if line), *links],
    }


def _encode_file(file: SavedFile) -> dict[str, JsonValue]:
    if not file.path:
        blob = base64.b64encode(file.content or b"").decode()
        resource: JsonValue = {"uri": file.uri, "mimeType": file.mime_type, "blob": blob}
        return {"type": "resource", "resource": resource}
    return {
        "type": "resource_link",
        "uri": Path(file.path).as_uri(),
        "name": file.name,
        "mimeType": file.mime_type,
        "size": file.size,
    }


def encode_operation(card: str, notice: Notice) -> dict[str, JsonValue]:
    """An operation that an app told of as a card of its own: begun, or ended."""
    if notice.kind is NoticeKind.STARTED:
        title = sanitize.label(notice.data.get("capability", notice.operation))
        return {"sessionUpdate": "tool_call", **_tool_call(card, title, "in_progress")}
    return encode_ended(card, [describe_notice(notice)], [], failed=notice.failed)


def encode_message(words: str) -> dict[str, JsonValue]:
    """What the agent says."""
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": words}}


def encode_notice(notice: Notice) -> dict[str, JsonValue]:
    """An app's notice for a client that declared `session.notices`."""
    return {
        "sessionUpdate": "notice",
        "severity": "error" if notice.failed else "info",
        "title": sanitize.label(describe_notice(notice)),
    }


def encode_commands(
    commands: Sequence[tuple[str, Capability]], typed: Sequence[tuple[str, Capability]] = ()
) -> dict[str, JsonValue]:
    """The slash commands: (name, capability) each; those that are `typed` take words, not JSON."""
    hints = (("JSON parameters, if it takes any", commands), ("words, if it takes any", typed))
    listed: list[JsonValue] = [
        {
            "name": name,
            "description": sanitize.label(capability.description or capability.name),
            "input": {"hint": hint},
        }
        for hint, those in hints
        for name, capability in those
    ]
    return {"sessionUpdate": "available_commands_update", "availableCommands": listed}


_LINK = "resource_link"  # which each agent must take


def prompt_text(prompt: JsonValue) -> str:
    """The words of a prompt, a link to a resource being its address; other blocks have none."""
    words, was_link = "", False
    for block in map(as_object, as_list(prompt)):
        is_link = block.get("type") == _LINK
        if not (piece := as_text(block.get("uri" if is_link else "text"))):
            continue
        if words and not (is_link or was_link):
            words += "\n"
        elif words and (
            (is_link or piece[0].isalnum()) and (was_link or words[-1].isalnum())
        ):  # no word of the text runs into the address
            words += " "
        words, was_link = words + piece, is_link
    return words.strip()


def unread_blocks(prompt: JsonValue) -> Sequence[str]:
    """The types of the blocks of a prompt that `prompt_text` has nothing of, each once."""
    blocks = map(as_object, as_list(prompt))
    unread = [each for each in blocks if not (each.get("type") == "text" or _is_link(each))]
    types = [sanitize.label(as_text(each.get("type")) or "unknown", 40) for each in unread]
    return list(dict.fromkeys(types))


def _is_link(block: JsonObject) -> bool:
    return block.get("type") == _LINK and bool(as_text(block.get("uri")))


_INT64 = (-(2**63), 2**63 - 1)
_DOUBLE = (-1.7976931348623157e308, 1.7976931348623157e308)
_COUNT = (0, 2**32 - 1)

# What strict clients can hold: (type, word) -> the least and the most.
_BOUNDS: dict[tuple[str, str], tuple[float, float]] = {
    **{("integer", word): _INT64 for word in ("minimum", "maximum", "default")},
    **{("number", word): _DOUBLE for word in ("minimum", "maximum", "default")},
    **{("string", word): _COUNT for word in ("minLength", "maxLength")},
    **{("array", word): _COUNT for word in ("minItems", "maxItems")},
}
_WHOLE: dict[str, Callable[[float], int]] = {
    "minimum": math.ceil,
    "maximum": math.floor,
    "default": int,
}


def _strict(part: JsonObject) -> dict[str, JsonValue]:
    """Return a property as strict clients read it: no fractional or too large bounds."""
    kind = as_text(part["type"])
    made = {
        word: _WHOLE[word](value)
        if kind == "integer" and word in _WHOLE and is_number(value)
        else value
        for word, value in part.items()
    }
    return {word: value for word, value in made.items() if _is_held(kind, word, value)}


def _is_held(kind: str, word: str, value: JsonValue) -> bool:
    least, most = _BOUNDS.get((kind, word), (-math.inf, math.inf))
    return not is_number(value) or least <= value <= most


def _encode_content(words: str) -> dict[str, JsonValue]:
    return {"type": "content", "content": {"type": "text", "text": words}}


NO_ANSWER = "no answer"  # in any case, alone in a prompt: some clients send no command of ours


class Meaning(enum.Enum):
    """What a prompt is while a question is open."""

    ANSWER = "answer"
    EMPTY = "skip"
    DECLINED = "decline"
    CANCELLED = "cancel"
    COMMAND = "command"  # of another kind: no answer
    UNREADABLE = "unreadable"  # no answer either: it has to be given again


_COMMANDS: Mapping[str, Meaning] = {
    f"/{each.value}": each for each in (Meaning.EMPTY, Meaning.DECLINED, Meaning.CANCELLED)
}

# What can be typed while a question is open, beside the answer itself.
COMMANDS = {
    "answer": Capability("answer", "Answer with what follows, as it stands"),
    "skip": Capability("skip", "Leave this empty, where it may be"),
    "decline": Capability("decline", "Give no answer"),
    "cancel": Capability("cancel", "Dismiss the question"),
}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A prompt, read as the reply to a question.

    `text` is the answer, another command's line, or why the prompt cannot be read.
    """

    meaning: Meaning
    text: str = ""


_NOT_TEXT = "an answer here is text alone, without files, links or images"
_NOTHING = "there was nothing in it"


def decode_reply(prompt: JsonValue) -> ChatReply:
    """What the content blocks of a prompt mean while a question is open."""
    blocks = [as_object(block) for block in as_list(prompt)]
    text = "\n".join(as_texts([block.get("text") for block in blocks]))
    reply = _decode_text(text)
    if reply.meaning is not Meaning.COMMAND and any(each.get("type") != "text" for each in blocks):
        return ChatReply(Meaning.UNREADABLE, _NOT_TEXT)
    return reply


def _decode_text(text: str) -> ChatReply:
    line = text.strip()
    if not line:
        return ChatReply(Meaning.UNREADABLE, _NOTHING)
    if line.casefold() == NO_ANSWER:
        return ChatReply(Meaning.DECLINED)
    if not line.startswith("/"):
        return ChatReply(Meaning.ANSWER, text)
    name, *rest = line.split(maxsplit=1)
    if name == "/answer":  # and one blank
        return ChatReply(Meaning.ANSWER, text.lstrip().removeprefix(name)[1:])
    if name in _COMMANDS and not rest:
        return ChatReply(_COMMANDS[name])
    return ChatReply(Meaning.COMMAND, line)


def encode_question(question: Question, number: int, problem: str = "") -> str:
    """Return the message that asks for one field of a question.

    Args:
        question: The question.
        number: Which of its fields, from 1.
        problem: What was wrong with the previous answer.
    """
    asked, several = question.fields[number - 1], len(question.fields) > 1
    if problem:
        parts = [f"That is no answer: {message(problem)}. Please answer again."]
    else:
        parts = [message_of(question)] if number == 1 else []
    if several:
        counted = f"({number} of {len(question.fields)})"
        parts.append(f"{question.asker} asks {counted}: {asked.label}")
    elif not question.wrapped:
        parts.append(_contain(asked.label))
    parts += [_contain(asked.description), _choices(asked), _limits(asked), _proposal(asked)]
    parts.append(_ways(asked, in_full=number == 1 and not problem))
    return "\n\n".join(filter(None, parts))


def _contain(words: str) -> str:
    """Keep an app's Markdown in a block, so that it cannot hide the bridge's lines."""
    return words if words[:1].isalnum() and "\n" not in words else quote(words) if words else ""


def _choices(asked: Field) -> str:
    """What there is to choose from, each as it has to be typed."""
    if asked.type is FieldType.BOOLEAN:
        return "Yes or no."
    labels = [each.label for each in asked.choices]
    lines = [
        f"- {each.label if labels.count(each.label) == 1 else each.key}"
        + (f": {label(each.description, 1_000)}" if each.description else "")
        + (" (proposed)" if is_default(asked, each) else "")
        for each in asked.choices
    ]
    if asked.type is FieldType.CHOICES:
        lines.append("\nSeveral go with commas between them.")
    return "\n".join(lines)


def find_ambiguity(asked: Field, typed: str) -> str:
    """Say why typed text may mean two options, as `1` for the option `1 (0)`; else ""."""
    several = asked.type is FieldType.CHOICES
    for words in map(str.strip, typed.split(",") if several else [typed]):
        meant = [
            each.label
            for each in asked.choices
            if each.key == words != each.label or each.label.startswith(f"{words} (")
        ]
        if len(meant) > 1 and words not in (each.label for each in asked.choices):
            return f"{words} may be {' or '.join(meant)}: write it as it stands there"
    return ""


def _limits(asked: Field) -> str:
    limits = field_limits(asked)
    return f"{limits}." if limits else ""


def _proposal(asked: Field) -> str:
    if asked.default is MISSING or asked.choices:
        return ""
    return f"Proposed by who asks: {label(to_text(asked.default), 1_000)}"


def _ways(asked: Field, *, in_full: bool) -> str:
    """What can be typed instead of an answer."""
    empty = "" if asked.required else "`/skip` leaves this empty. "
    ways = (
        f"Your next message is the answer, as it stands. {empty}`/decline`, or “{NO_ANSWER}”,"
        " gives none, `/cancel` dismisses the question. What begins with a slash is a command:"
        " such an answer goes after `/answer`."
    )
    words = (ways if in_full else empty).strip()
    return f"*{words}*" if words else ""
