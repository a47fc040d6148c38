"""The rules of `abp-bridge check`: a table with source, fix and judge of each. Pure."""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from abp_bridge.core.capability import Capability
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    as_texts,
    to_text,
)
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import MISSING, Missing
from abp_bridge.core.question import Kind as QuestionKind
from abp_bridge.core.sanitize import label
from abp_bridge.core.schema import normalize
from abp_bridge.core.words import MISSPELT, nearest
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.abp.questions import find_misspelt, find_near
from abp_bridge.session.app import Absence


def is_object(value: JsonValue) -> TypeGuard[JsonObject]:
    """Whether it is a JSON object."""
    return isinstance(value, Mapping)


SHOWN = 5  # problems of one rule that are named; the others are counted
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


class Status(enum.Enum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    NOT_CHECKED = "not checked"


class Kind(enum.Enum):
    """What kind of app it is: which rules can hold for it."""

    PAGE = "a page"
    TOOLS = "a page that offers tools by WebMCP"
    PIPE = "a program on a pipe"
    SOCKET = "an app at a WebSocket"
    OTHER = "an app that speaks no ABP itself"


ABP = (Kind.PAGE, Kind.PIPE, Kind.SOCKET)


class Step(enum.IntEnum):
    """The steps to a connected app, in order; a program has the first and the last."""

    REACHED = 0
    LINK = 1
    MANIFEST = 2
    CONTENT = 3
    BROWSER = 4
    SESSION = 5
    DONE = 6


class Asked(NamedTuple):
    """A question that the call asked: ABP's method, its message, safe to show, and how it ended."""

    method: str
    message: str
    outcome: Outcome


@dataclass(slots=True)
class Facts:
    """What was gathered of an app; `MISSING` is what was not seen.

    Attributes:
        problem, step, absence: Why and where connecting failed; `DONE` if connected.
        initialize, listed, unknown, called, shutdown: The answers as they came; `unknown` is that
            to a call of a nonexistent capability.
        thrown: The exceptions it threw instead.
        unanswered: The calls without an answer, with the seconds that each had.
        asked: What the app asked during the call; `questions` the valid ones.
        written: The page's WebMCP `tools` and `forms`; how many were `unread`, or `why` all were.
    """

    kind: Kind
    problem: str = ""
    step: Step = Step.DONE
    absence: Absence | None = None
    manifest: JsonObject | None = None
    initialize: JsonValue | Missing = MISSING
    listed: JsonValue | Missing = MISSING
    unknown: JsonValue | Missing = MISSING
    called: JsonValue | Missing = MISSING
    shutdown: JsonValue | Missing = MISSING
    thrown: set[str] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)
    unanswered: dict[str, float] = field(default_factory=dict)
    asked: list[JsonValue] = field(default_factory=list)
    questions: list[Asked] = field(default_factory=list)
    capabilities: Sequence[Capability] = ()
    console: list[str] = field(default_factory=list)
    written: JsonObject | None = None


class UnseenError(Exception):
    """The facts that a rule judges were not seen of this app: the rule is not checked."""


Problems = Iterator[str]
Judge = Callable[[Facts], Problems]  # raises UnseenError


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: what is checked, its source, and the fix.

    Attributes:
        reference: A page of ABP's documents, or a row of docs/abp.md.
        cure: The fix; "" if the problem says it.
        must: A failure is an error, not a warning.
        cures: The fixes by what is absent.
    """

    name: str
    says: str
    reference: str
    cure: str
    judge: Judge
    kinds: tuple[Kind, ...] = ABP
    must: bool = True
    cures: Mapping[Absence | None, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one rule; `cure` is what to do, empty where the problems say it."""

    rule: Rule
    status: Status
    problems: tuple[str, ...] = ()
    cure: str = ""


def check_all(facts: Facts) -> list[Finding]:
    """Check every rule of the table, in its order."""
    return [_check_rule(rule, facts) for rule in RULES]


def _check_rule(rule: Rule, facts: Facts) -> Finding:
    if facts.kind not in rule.kinds:
        return Finding(rule, Status.NOT_CHECKED)
    try:
        problems = [label(each, 1_000) for each in rule.judge(facts)]
    except UnseenError:
        return Finding(rule, Status.NOT_CHECKED)
    if not problems:
        return Finding(rule, Status.PASSED)
    more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    status = Status.FAILED if rule.must else Status.WARNING
    cure = rule.cures.get(facts.absence, rule.cure)
    return Finding(rule, status, (*problems[:SHOWN], *more), cure)


# --- being found ----------------------------------------------------------------------------------


def _reaches(step: Step) -> Judge:
    def judge(facts: Facts) -> Problems:
        if facts.step < step:
            raise UnseenError
        if facts.step is step:
            yield facts.problem

    return judge


def _manifest(facts: Facts) -> JsonObject:
    if facts.manifest is None:
        raise UnseenError
    return facts.manifest


def _judge_manifest_fields(facts: Facts) -> Problems:
    manifest = _manifest(facts)
    app = as_object(manifest.get("app"))
    missing = [f"app.{name}" for name in ("id", "name", "version") if not as_text(app.get(name))]
    if not isinstance(manifest.get("abp"), str):
        missing.append("abp")
    for name in missing:
        yield f"{name} is missing, or no text"


def _judge_manifest_capabilities(facts: Facts) -> Problems:
    manifest = _manifest(facts)
    listed = _names_of(facts.listed) or _names_of(facts.initialize)
    if not listed:
        raise UnseenError
    for number, name in enumerate(_names_of(manifest), 1):
        if not name:
            yield f"capability {number} of the manifest has no name"
        elif name not in listed:
            yield f"the manifest names {name}, which the page does not list"


def _listed(raw: JsonValue | Missing) -> Sequence[JsonValue]:
    """The capabilities in an answer or a list, bare or wrapped."""
    if raw is MISSING:
        return []
    body = as_object(raw).get("data", raw) if "success" in as_object(raw) else raw
    return as_list(as_object(body).get("capabilities") if is_object(body) else body)


def _name_of(entry: JsonValue) -> str:
    return entry if isinstance(entry, str) else as_text(as_object(entry).get("name"))


def _names_of(raw: JsonValue | Missing) -> list[str]:
    return list(map(_name_of, _listed(raw)))


# --- the session ----------------------------------------------------------------------------------


def _initialized(facts: Facts) -> JsonObject:
    if facts.initialize is MISSING or "initialize" in facts.thrown:
        raise UnseenError
    wrapped = as_object(facts.initialize)
    if isinstance(wrapped.get("success"), bool):
        if not wrapped["success"]:
            raise UnseenError
        return as_object(wrapped.get("data"))
    return wrapped


def _judge_initialize(facts: Facts) -> Problems:
    body = _initialized(facts)
    app = as_object(body.get("app"))
    if not as_text(body.get("sessionId")):
        yield "sessionId is missing, or no text"
    for name in ("id", "name", "version"):
        if not as_text(app.get(name)):
            yield f"app.{name} is missing, or no text"
    if not isinstance(body.get("capabilities"), list):
        yield "capabilities is no list"


def _judge_version(facts: Facts) -> Problems:
    said = _initialized(facts).get("protocolVersion")
    if not isinstance(said, str) or said.partition(".")[0] not in ("0", "1"):
        yield f"protocolVersion is {to_text(said)}, and not such as '0.1'"


def _judge_features(facts: Facts) -> Problems:
    said = as_object(_initialized(facts).get("features"))
    for name in ("notifications", "progress", "elicitation", "dynamicCapabilities"):
        if not isinstance(said.get(name), bool):
            yield f"features.{name} is neither true nor false"


def _judge_listed(facts: Facts) -> Problems:
    if "listed" in facts.thrown:
        yield "it threw"
        return
    if facts.listed is MISSING:
        raise UnseenError
    names = _names_of(facts.listed)
    if not names:
        yield "it lists none"
    for number, name in enumerate(names, 1):
        if not name:
            yield f"capability {number} has no name"
        elif name in names[: number - 1]:
            yield f"{name} is listed twice"


def _judge_descriptions(facts: Facts) -> Problems:
    if not facts.capabilities:
        raise UnseenError
    for each in facts.capabilities:
        if not each.description:
            yield f"{each.name} has none"


def _judge_schemas(facts: Facts) -> Problems:
    came = [
        each for raw in (facts.manifest, facts.initialize, facts.listed) for each in _listed(raw)
    ]
    if not facts.capabilities and not came:
        raise UnseenError
    # The bridge treats a schema that is not an object as no schema.
    schemas = ((_name_of(each), as_object(each).get("inputSchema")) for each in came)
    yield from dict.fromkeys(
        f"{name or '(no name)'}: inputSchema is {label(to_text(schema), 80)}, and no object"
        for name, schema in schemas
        if not (schema is None or is_object(schema))
    )
    for capability in facts.capabilities:
        for problem in find_schema_problems(capability.input_schema):
            yield f"{capability.name}: {problem}"


def find_schema_problems(schema: JsonObject) -> Problems:
    """Yield why the parameters of a capability are not a JSON Schema of an object."""
    if schema and "type" in schema and schema["type"] != "object":
        yield f"inputSchema is of type {to_text(schema['type'])}, and not of object"
    yield from _find_keyword_problems(schema, "inputSchema", 0)
    try:
        normalize(schema)
    except RemoteProtocolError as problem:
        yield str(problem)


def _find_keyword_problems(schema: JsonObject, path: str, depth: int) -> Problems:
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in _TYPES:
            yield f"{path}.type is {to_text(kind)}, which is none of JSON Schema's"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        yield f"{path}.required is no list of names"
    if not isinstance(schema.get("enum", []), list):
        yield f"{path}.enum is no list"
    properties = schema.get("properties", {})
    if not is_object(properties):
        yield f"{path}.properties is no object"
        return
    for name, part in properties.items():
        where = f"{path}.properties.{label(name, 60)}"
        if is_object(part) and depth < 20:
            yield from _find_keyword_problems(part, where, depth + 1)
        elif not is_object(part) and not isinstance(part, bool):
            yield f"{where} is no schema"


# --- calls ----------------------------------------------------------------------------------------


def _response_of(name: str) -> Judge:
    def judge(facts: Facts) -> Problems:
        raw: JsonValue | Missing = getattr(facts, name)
        why = facts.failures.get(name)
        said = as_object(raw) if raw is not MISSING else {}
        if name in facts.unanswered:
            yield f"it did not answer within {facts.unanswered[name]:g} s"
        elif raw is MISSING:
            if why is None:
                raise UnseenError
            yield f"it was not answered: {why}"
        elif name in facts.thrown:
            yield f"it threw {why or 'an error'}, where ABP has {{success: false, error}}"
        elif not isinstance(said.get("success"), bool):
            shown = label(to_text(raw), 80)
            yield f"it answered {shown}, which has no success that is true or false"
        elif said["success"] is False:
            error = as_object(said.get("error"))
            for member in ("code", "message"):
                if not as_text(error.get(member)):
                    yield f"error.{member} is missing, or no text"
            if not isinstance(error.get("retryable"), bool):
                yield "error.retryable is neither true nor false"

    return judge


def _error_code(answer: JsonValue | Missing) -> str:
    return (
        "" if answer is MISSING else as_text(as_object(as_object(answer).get("error")).get("code"))
    )


def _judge_unknown_code(facts: Facts) -> Problems:
    if facts.unknown is MISSING or "unknown" in facts.thrown:
        raise UnseenError
    said = as_object(facts.unknown)
    if said.get("success") is not False or _error_code(said) != "UNKNOWN_CAPABILITY":
        yield f"it answered {label(to_text(facts.unknown), 120)}"


def _judge_codes(facts: Facts) -> Problems:
    codes = [code for each in (facts.unknown, facts.called) if (code := _error_code(each))]
    if not codes:
        raise UnseenError
    for code in codes:
        if not _CODE.fullmatch(code):
            yield f"{code!r} is none"


def _asked(facts: Facts) -> Sequence[JsonValue]:
    if facts.called is MISSING or not facts.asked:
        raise UnseenError
    return facts.asked


def _judge_questions(facts: Facts) -> Problems:
    for raw in _asked(facts):
        try:
            decode_question(raw, id="question", origin="the app")
        except RemoteProtocolError as problem:
            yield f"{label(to_text(as_object(raw).get('method')), 80)}: {problem}"


def _judge_members(facts: Facts) -> Problems:
    for raw in map(as_object, _asked(facts)):
        for kind in QuestionKind:
            if raw.get("method") == kind.value:
                for problem in find_misspelt(kind, as_object(raw.get("params"))):
                    yield f"{kind.value}: {problem}"


def _judge_shutdown(facts: Facts) -> Problems:
    if facts.shutdown is MISSING:
        raise UnseenError
    if "shutdown" in facts.thrown:
        yield "it threw"


def _judge_console(facts: Facts) -> Problems:
    _manifest(facts)
    yield from facts.console


_SERVER_IS_THERE = "The server is there, and"
# what is not there -> what to do
_NOT_REACHED: Mapping[Absence | None, str] = {
    Absence.HOST: "Look at the address.",
    Absence.SERVER: "Start its server, or look at the host and the port.",
    Absence.DOCUMENT: f"{_SERVER_IS_THERE} has no such page: look at the path.",
    Absence.SIGN_IN: "abp-bridge login signs you in to it first (docs/signed-in.md).",
    Absence.ACCESS: f"{_SERVER_IS_THERE} does not give the page: see what it wants.",
    Absence.WORKING_SERVER: f"{_SERVER_IS_THERE} failed: see what it writes down of that.",
}

# --- WebMCP ---------------------------------------------------------------------------------------

_ATTRIBUTES = ("toolname", "tooldescription", "toolautosubmit", "toolparamdescription")
_MEMBERS = ("name", "title", "description", "inputSchema", "annotations", "execute")
_HINTS = ("readOnlyHint", "untrustedContentHint", "consequentialHint")


def _written(facts: Facts) -> tuple[list[JsonObject], list[JsonObject]]:
    """The tools that the page registered, and its forms that are tools, or nearly."""
    said = facts.written or {}
    tools, forms = (list(map(as_object, as_list(said.get(name)))) for name in ("tools", "forms"))
    forms = [each for each in forms if _is_meant(each)]
    if not tools and not forms:
        raise UnseenError
    return tools, forms


def _is_meant(form: JsonObject) -> bool:
    """Whether the form has an attribute of a tool, or a misspelt one."""
    attributes = as_texts(form.get("attributes"))
    return bool({*_ATTRIBUTES} & {*attributes}) or any(find_near("", attributes, _ATTRIBUTES))


def _tool_name(tool: JsonObject) -> str:
    return label(as_text(tool.get("name")) or "a tool without a name", 80)


def _judge_tools(facts: Facts) -> Problems:
    tools, forms = _written(facts)
    for each in tools:
        if problem := as_text(each.get("problem")):
            yield f"{_tool_name(each)}: the browser did not take it: {problem}"
    names = [as_text(each.get("name")) for each in forms]
    for name, count in Counter(names).items():
        if name and count > 1:
            yield f"{label(name, 80)}: {count} forms have this toolname"
    for each in forms:
        for attribute, instead in _missing_attributes(each).items():
            written = f", but {label(instead, 60)!r}" if instead else ""
            yield (
                f"{_tool_name(each)}: its form has no {attribute}{written}, and is no tool without"
            )


def _missing_attributes(form: JsonObject) -> dict[str, str]:
    """The attributes that a tool needs and the form lacks, each with its misspelt form."""
    misspelt = {
        nearest(each, _ATTRIBUTES, MISSPELT): each
        for each in as_texts(form.get("attributes"))
        if each not in _ATTRIBUTES
    }
    return {
        f"tool{word}": misspelt.get(f"tool{word}", "")
        for word in ("name", "description")
        if not as_text(form.get(word))
    }


def _judge_fields(facts: Facts) -> Problems:
    for form in _written(facts)[1]:
        for each in map(as_object, as_list(form.get("fields"))):
            if each.get("asked") is True and not as_text(each.get("name")):
                yield f"{_tool_name(form)}: {label(as_text(each.get('words')), 80)!r} has no name"


def _judge_words(facts: Facts) -> Problems:
    tools, forms = _written(facts)
    for each in tools:
        name = _tool_name(each)
        yield from find_near(f"{name} has", as_texts(each.get("members")), _MEMBERS)
        for hint in as_texts(each.get("annotations")):
            if hint not in _HINTS:
                meant = nearest(hint, _HINTS, MISSPELT)
                right = f"{meant!r} is" if meant else f"there are {', '.join(_HINTS)}"
                yield (f"{name} has the annotation {label(hint, 60)!r}, which is nothing; {right}")
    for form in forms:
        reported = _missing_attributes(form).values()  # by the rule "tools"
        attributes = [each for each in as_texts(form.get("attributes")) if each not in reported]
        yield from find_near(f"{_tool_name(form)}: its form has", attributes, _ATTRIBUTES)
        for each in map(as_object, as_list(form.get("fields"))):
            where = f"{_tool_name(form)}: a field has"
            yield from find_near(where, as_texts(each.get("attributes")), _ATTRIBUTES)


RULES: tuple[Rule, ...] = (
    Rule(
        "address",
        "the app is there, at its address or by its command",
        "concepts/discovery; docs/abp-on-a-pipe.md",
        "",
        _reaches(Step.REACHED),
        tuple(Kind),
        cures=_NOT_REACHED,
    ),
    Rule(
        "manifest link",
        "the page's head links to its manifest",
        "concepts/discovery; D1",
        'Put <link rel="abp-manifest" href="abp.json"> into the <head>, in the HTML itself. A page'
        " whose tools are WebMCP's needs none, but a tool (docs/webmcp.md).",
        _reaches(Step.LINK),
        (Kind.PAGE,),
    ),
    Rule(
        "manifest",
        "the manifest can be fetched",
        "concepts/discovery; D2, D7",
        "Serve it where the page's link leads, as application/json.",
        _reaches(Step.MANIFEST),
        (Kind.PAGE,),
    ),
    Rule(
        "manifest's content",
        "the manifest is JSON with abp and app",
        "concepts/discovery; D7",
        'Write {"abp": "0.1", "app": {...}, "capabilities": [...]} as JSON: names in double quotes,'
        " no comments, no comma before a closing bracket.",
        _reaches(Step.CONTENT),
        (Kind.PAGE,),
    ),
    Rule(
        "manifest fields",
        "the manifest says its version, and the app's id, name and version",
        "reference/conformance",
        'Write "abp": "0.1" and "app": {"id": "...", "name": "...", "version": "1.0.0"}.',
        _judge_manifest_fields,
        (Kind.PAGE,),
    ),
    Rule(
        "browser",
        "a browser can be started here",
        "docs/settings.md",
        "Do what it says: it is no fault of the page's.",
        _reaches(Step.BROWSER),
        (Kind.PAGE,),
    ),
    Rule(
        "session",
        "the app can be connected, and answers initialize()",
        "reference/conformance; S1",
        "Have window.abp there when the page has loaded, with initialize(), call() and shutdown().",
        _reaches(Step.SESSION),
        (Kind.PAGE,),
    ),
    Rule(
        "program",
        "the program can be connected, and answers its first request",
        "reference/conformance; S1",
        "Start it by hand and read what it says: it must go on running, and answer; one on a pipe"
        " on stdout, where it writes nothing else.",
        _reaches(Step.SESSION),
        (Kind.PIPE, Kind.SOCKET, Kind.OTHER),
    ),
    Rule(
        "initialize",
        "initialize answers with sessionId, app and capabilities",
        "reference/api",
        "Return {sessionId, protocolVersion, app: {id, name, version}, capabilities: [...],"
        " features}.",
        _judge_initialize,
    ),
    Rule(
        "version",
        "protocolVersion is one that this bridge knows",
        "concepts/versioning; X16",
        'Answer protocolVersion: "0.1".',
        _judge_version,
        must=False,
    ),
    Rule(
        "features",
        "each of the four features is true or false",
        "reference/api",
        "Return features: {notifications, progress, elicitation, dynamicCapabilities}.",
        _judge_features,
        must=False,
    ),
    Rule(
        "capabilities",
        "listCapabilities answers with a list, each capability once and with a name",
        "reference/api; X12",
        "Return [{name, description, inputSchema, available: true}, ...].",
        _judge_listed,
        must=False,
    ),
    Rule(
        "manifest's capabilities",
        "what the manifest names is what the app lists",
        "concepts/security; D3",
        "List it, or take it out of the manifest: only what the app lists can be called.",
        _judge_manifest_capabilities,
        (Kind.PAGE,),
        must=False,
    ),
    Rule(
        "descriptions",
        "each capability has a description, by which a model chooses",
        "concepts/capabilities",
        "Say in a sentence what it does.",
        _judge_descriptions,
        tuple(Kind),
        must=False,
    ),
    Rule(
        "schemas",
        "each inputSchema is a JSON Schema of an object",
        "reference/api",
        'Write {"type": "object", "properties": {...}, "required": [...]}.',
        _judge_schemas,
        tuple(Kind),
    ),
    Rule(
        "responses",
        "a call that cannot be made is answered with {success: false, error}",
        "reference/conformance; C1",
        "Return {success: false, error: {code, message, retryable}}, and do not throw.",
        _response_of("unknown"),
    ),
    Rule(
        "unknown capability",
        "a capability that is not there is UNKNOWN_CAPABILITY",
        "reference/error-handling",
        "Answer error.code UNKNOWN_CAPABILITY, retryable false, for a name that you do not list.",
        _judge_unknown_code,
        must=False,
    ),
    Rule(
        "call",
        "the call is answered with {success, data} or {success: false, error}",
        "reference/conformance; C1",
        "Return {success: true, data}, or {success: false, error: {code, message, retryable}}.",
        _response_of("called"),
        tuple(Kind),
    ),
    Rule(
        "questions",
        "what the call asks is a question that can be put to a person",
        "concepts/elicitation-and-progress; X10, X11",
        "docs/abp.md has the methods, and what schemas are understood.",
        _judge_questions,
    ),
    Rule(
        "members",
        "what the call asks has no member that is misspelt",
        "docs/abp.md",
        "Write it as ABP has it: a name that is none is passed over, and another question asked.",
        _judge_members,
        must=False,
    ),
    Rule(
        "error codes",
        "error codes are words such as OPERATION_FAILED",
        "reference/error-handling",
        "Write codes in capitals with underscores: ABP's own where one fits.",
        _judge_codes,
        must=False,
    ),
    Rule(
        "shutdown",
        "shutdown() is there, and does not throw",
        "reference/conformance; S2",
        "Add shutdown() to window.abp; it may do nothing.",
        _judge_shutdown,
    ),
    Rule(
        "console",
        "the page's console has no errors",
        "a page that works has none",
        "See the file and the line that it names.",
        _judge_console,
        (Kind.PAGE,),
        must=False,
    ),
    Rule(
        "tools",
        "each tool of the page is one to the browser, under a name of its own",
        "docs/webmcp.md",
        "Await what registerTool() returns; give each form a toolname of its own, and a"
        " tooldescription.",
        _judge_tools,
        (Kind.PAGE, Kind.TOOLS),
    ),
    Rule(
        "tool fields",
        "each field of a form that is a tool has a name",
        "docs/webmcp.md",
        "Give it a name: without one it is no parameter of the tool, and is not sent.",
        _judge_fields,
        (Kind.PAGE, Kind.TOOLS),
        must=False,
    ),
    Rule(
        "tool words",
        "no attribute, member or annotation of a tool is misspelt",
        "docs/webmcp.md",
        "Write it as WebMCP has it: a name that is none is passed over.",
        _judge_words,
        (Kind.PAGE, Kind.TOOLS),
        must=False,
    ),
)
