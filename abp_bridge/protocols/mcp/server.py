"""An MCP server as an app: its capabilities, results and notices. Never raises on its input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from abp_bridge.core import sanitize
from abp_bridge.core.capability import (
    CallResult,
    Capability,
    CapabilityList,
    Failure,
    failed,
)
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    json_equal,
    parse_json,
)
from abp_bridge.core.ledger import Notice, NoticeKind
from abp_bridge.protocols.abp import PREFIX, decode_capabilities
from abp_bridge.protocols.mcp.revisions import SUBSCRIPTION as STREAM

# The data of the error in a server's place, where nothing answers at its address.
UNREACHED: JsonObject = {"reached": False}

# The lists of a server, and what names an entry there.
KEYS = {"tools": "name", "prompts": "name", "resources": "uri"}
CHANGES = {f"{PREFIX}{member}/list_changed": member for member in KEYS}

_URI: JsonObject = {
    "type": "object",
    "properties": {"uri": {"type": "string", "minLength": 1}},
    "required": ["uri"],
}
_PROMPT: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["name"],
}
_NOTHING: JsonObject = {"type": "object", "properties": {}}

# The bridge's own capabilities of a server, and the list or request behind each.
LISTS = {"resources.list": "resources", "prompts.list": "prompts"}
REQUESTS = {"resources.read": "resources/read", "prompts.get": "prompts/get"}
SUBSCRIPTIONS = {"resources.subscribe": True, "resources.unsubscribe": False}
OWN = {*LISTS, *REQUESTS, *SUBSCRIPTIONS}
# (name, what it is for, its schema, the members of the server's capabilities that it needs)
_OWN: tuple[tuple[str, str, JsonObject, tuple[str, ...]], ...] = (
    (
        "resources.list",
        "Lists the server's resources, and the templates of more.",
        _NOTHING,
        ("resources",),
    ),
    ("resources.read", "Reads a resource of the server's, by its uri.", _URI, ("resources",)),
    (
        "resources.subscribe",
        "Has the server tell when a resource changes.",
        _URI,
        ("resources", "subscribe"),
    ),
    (
        "resources.unsubscribe",
        "Has the server tell no more when a resource changes.",
        _URI,
        ("resources", "subscribe"),
    ),
    ("prompts.list", "Lists the server's prompts, and their arguments.", _NOTHING, ("prompts",)),
    ("prompts.get", "Gets a prompt of the server's, filled in.", _PROMPT, ("prompts",)),
)
NOT_CARRIED = {
    "completions": "completion of arguments (completion/complete)",
    "tasks": "tasks (tasks/get, tasks/list, tasks/cancel): its tools are called and waited for",
}

_ERRORS = ("error", "critical", "alert", "emergency")  # log levels
_CODES = {-32602: "INVALID_PARAMS", -32601: "NOT_SUPPORTED", -32002: "UNKNOWN_RESOURCE"}
MAX_NAMED = 200  # names in a notice of a list that changed: more nobody reads


def decode_tools(tools: Sequence[JsonValue], server: JsonObject) -> CapabilityList:
    """Return a server's tools, and tools for its prompts and resources.

    Args:
        tools: The entries of all pages of `tools/list`.
        server: The server's capabilities.

    Returns:
        The capabilities; `problems` names tools that cannot be called and unsupported features.
    """
    by_name = _by_key(tools, KEYS["tools"])
    listed = decode_capabilities([dict(as_object(each)) for each in tools])
    found = [_add_hints(each, as_object(by_name[each.name])) for each in listed]
    names = {each.name for each in found}
    problems = list(listed.problems)
    for name, words, schema, needs in _OWN:
        if not _has(server, needs):
            continue
        if name in names:
            problems.append(f"its tool {name} stands where the bridge's own way to them would")
            continue
        found.append(Capability(name, words, schema))
    problems += [f"not carried: {words}" for name, words in NOT_CARRIED.items() if name in server]
    return CapabilityList(found, problems)


def _has(server: JsonObject, needs: Sequence[str]) -> bool:
    value: JsonValue = server
    for name in needs:
        value = as_object(value).get(name)
    return value not in (None, False)


def _add_hints(capability: Capability, tool: JsonObject) -> Capability:
    """Add a tool's hints; a missing or invalid one means the worst, as in MCP."""
    hints = as_object(tool.get("annotations"))
    return replace(
        capability,
        title=capability.title or sanitize.label(as_text(hints.get("title"))),
        destructive=hints.get("readOnlyHint") is not True
        and hints.get("destructiveHint") is not False,
        presumed=hints.get("destructiveHint") is not True,
    )


# --- results --------------------------------------------------------------------------------------


def decode_result(raw: JsonValue) -> CallResult:
    """Decode a CallToolResult; several blocks become a list, with new structured content last."""
    result = as_object(raw)
    blocks = result.get("content", [] if "structuredContent" in result else None)
    if not isinstance(blocks, list):
        words = "the server returned no content, which a result of a tool has"
        return failed("TRANSPORT_ERROR", words)
    data = _join(list(map(decode_block, blocks)), result)
    if result.get("isError") is not True:
        structured = result.get("structuredContent")
        return CallResult(data, structured=structured if isinstance(structured, Mapping) else None)
    words = sanitize.message("\n".join(as_text(as_object(each).get("text")) for each in blocks))
    failure = Failure("OPERATION_FAILED", words or "The server gave no reason.")
    return CallResult(None if data == words else data, failure)


def decode_contents(raw: JsonValue) -> CallResult:
    """The result of `resources/read` -> CallResult: one text is itself."""
    contents = as_object(raw).get("contents")
    if not isinstance(contents, list):
        return failed(
            "TRANSPORT_ERROR", "the server returned no contents, which a resource that is read has"
        )
    if len(contents) == 1 and isinstance(text := as_object(contents[0]).get("text"), str):
        return CallResult(text)
    return CallResult([_as_file(as_object(each)) or each for each in contents])


def decode_prompt(raw: JsonValue) -> CallResult:
    """The result of `prompts/get` -> CallResult: the messages as they came."""
    result = {word: value for word, value in as_object(raw).items() if word != "resultType"}
    return CallResult(result)


def decode_error(code: int, message: str, data: JsonValue) -> CallResult:
    """A JSON-RPC error of a server's -> CallResult."""
    word = _CODES.get(code, "OPERATION_FAILED")
    said = sanitize.message(message) or "The server gave no reason."
    return CallResult(failure=Failure(word, f"{said} ({code})", details=data))


def decode_block(block: JsonValue) -> JsonValue:
    """Decode a content block; binary data takes ABP's shape and so becomes a file."""
    given = as_object(block)
    if isinstance(data := given.get("data"), str) and "mimeType" in given:
        return _file(given, data, "data")
    if given.get("type") == "resource" and (file := _as_file(as_object(given.get("resource")))):
        return {**{word: each for word, each in given.items() if word != "resource"}, **file}
    return block


def _as_file(resource: JsonObject) -> JsonObject:
    """A resource with binary data as ABP has it; empty where it has none."""
    blob = resource.get("blob")
    if not isinstance(blob, str):
        return {}
    return _file({"mimeType": "application/octet-stream", **resource}, blob, "blob")


def _file(given: JsonObject, content: str, member: str) -> JsonObject:
    kept = {word: each for word, each in given.items() if word != member}
    return {**kept, "encoding": "base64", "content": content}


def _join(blocks: Sequence[JsonValue], result: JsonObject) -> JsonValue:
    texts = [as_object(each)["text"] for each in blocks if set(as_object(each)) == _PLAIN]
    plain = len(texts) == len(blocks)
    if "structuredContent" not in result:
        return texts[0] if plain and len(texts) == 1 else list(blocks)
    structured = result["structuredContent"]
    inner = as_object(structured)["result"] if set(as_object(structured)) == {"result"} else None
    if plain and len(texts) == 1 and texts[0] == inner:
        return inner  # as the SDKs wrap what is no object
    said = texts if isinstance(inner, list) and len(texts) == len(inner) > 1 else texts[:1]
    meant = inner if said is texts else [structured]
    if plain and len(said) == len(texts) and all(map(_says, said, as_list(meant))):
        return structured
    return [*blocks, {"structuredContent": structured}]


_PLAIN = {"type", "text"}  # the members of a text that is nothing else


def _says(text: JsonValue, value: JsonValue) -> bool:
    """Whether `text` is `value` as JSON: what servers send for hosts that know no other."""
    try:
        return isinstance(text, str) and json_equal(parse_json(text), value)
    except ValueError:
        return False


# --- what it tells --------------------------------------------------------------------------------


def decode_notice(method: str, params: JsonObject) -> Notice:
    """A notification of a server's -> Notice; a log of an error is one."""
    meta = {word: each for word, each in as_object(params.get("_meta")).items() if word != STREAM}
    params = {word: each for word, each in params.items() if word != "_meta"}
    params |= {"_meta": meta} if meta else {}
    name = sanitize.label(method if method.startswith(PREFIX) else PREFIX + method, 120)
    if name == f"{PREFIX}message" and params.get("level") in _ERRORS:
        said = params.get("data")
        words = said if isinstance(said, str) else as_object(said).get("message", said)
        return Notice(NoticeKind.ERROR, name, {**params, "code": params["level"], "message": words})
    return Notice(NoticeKind.OTHER, name, params)


def decode_change(member: str, old: Sequence[JsonValue], new: Sequence[JsonValue]) -> Notice:
    """Return a notice of a server's changed list.

    Args:
        member: `tools`, `prompts` or `resources`.
        old: Its entries before.
        new: Its entries now.
    """
    before, now = _by_key(old, KEYS[member]), _by_key(new, KEYS[member])
    changes = {
        "added": [name for name in now if name not in before],
        "removed": [name for name in before if name not in now],
        "changed": [name for name in now if name in before and before[name] != now[name]],
    }
    data: dict[str, JsonValue] = {word: _named(names) for word, names in changes.items()}
    if member == "tools":
        kind = NoticeKind.CAPABILITIES_CHANGED
        return Notice(kind, f"{PREFIX}{kind.value}", data)
    return Notice(NoticeKind.OTHER, f"{PREFIX}{member}/list_changed", data)


def _by_key(entries: Iterable[JsonValue], key: str) -> dict[str, JsonValue]:
    return {as_text(as_object(each).get(key)): each for each in entries}


def _named(names: Sequence[str]) -> list[str]:
    shown = [sanitize.label(name, 120) for name in names[:MAX_NAMED]]
    return [*shown, *([f"and {len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else [])]
