"""What `abp-bridge check` holds an app to: a table of rules, each with where it is written and what
cures it, and how each is judged from what was gathered. Pure.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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
from abp_bridge.core.normal_schema import normalize
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import MISSING, Missing
from abp_bridge.core.question import Kind as QuestionKind
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import MISSPELT, nearest
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.abp.members import find_misspelt, find_near
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
    """What there is to do until an app is connected, in its order; a program has the first and the
    last of it.
    """

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
    """What was gathered of an app. `MISSING` is what nobody could see.

    Attributes:
        kind: What it is.
        problem: Why it could not be connected; empty where it could.
        step: Which step that ended; `DONE` where it was connected.
        absence: What was not there, where it was that.
        manifest: What the page's link leads to, where that is a manifest.
        initialize, listed, unknown, called, shutdown: What it answered, as it came; `unknown` is of
            a capability that it cannot have.
        thrown: Which of those it threw instead.
        failures: Why a call failed, in the bridge's words: of what was thrown, where too.
        unanswered: Which calls it did not answer, and the seconds that it had for each.
        asked: What it asked during the call, as it came.
        questions: What of that was a question.
        capabilities: What the bridge makes of its lists.
        console: What its page's console had.
        written: What its page wrote of WebMCP's tools: `tools` that it registered, and `forms`; how
            many of each were `unread`, or `why` all of it was.
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


Problems = Iterator[str]
# The problems; or None where it cannot be seen.
Judge = Callable[[Facts], Problems | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: what is checked, where it is written, and what to do where it fails.

    Attributes:
        name: What it is called.
        says: What must be so.
        reference: Where it is written: a page of ABP's documents, a row of docs/abp.md.
        cure: What to do; empty where the problem says it.
        judge: What is wrong.
        kinds: The apps that it is for.
        must: Whether the protocol demands it; else it is a warning.
        cures: What to do instead where something is not there, by what that is.
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
    """Every rule of the table, in its order."""
    return [_find(rule, facts) for rule in RULES]


def _find(rule: Rule, facts: Facts) -> Finding:
    judged = rule.judge(facts) if facts.kind in rule.kinds else None
    if judged is None:
        return Finding(rule, Status.NOT_CHECKED)
    problems = [label(each, 1_000) for each in judged]
    if not problems:
        return Finding(rule, Status.PASSED)
    more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    status = Status.FAILED if rule.must else Status.WARNING
    cure = rule.cures.get(facts.absence, rule.cure)
    return Finding(rule, status, (*problems[:SHOWN], *more), cure)


# --- being found ----------------------------------------------------------------------------------


def _reaches(step: Step) -> Judge:
    def judge(facts: Facts) -> Problems | None:
        if facts.step < step:
            return None
        return iter([facts.problem] if facts.step is step else [])

    return judge


def _manifest_fields(facts: Facts) -> Problems | None:
    if facts.manifest is None:
        return None
    app = as_object(facts.manifest.get("app"))
    missing = [f"app.{name}" for name in ("id", "name", "version") if not as_text(app.get(name))]
    if not isinstance(facts.manifest.get("abp"), str):
        missing.append("abp")
    return (f"{name} is missing, or no text" for name in missing)


def _manifest_capabilities(facts: Facts) -> Problems | None:
    listed = _names(facts.listed, facts.initialize)
    if facts.manifest is None or listed is None:
        return None
    return _named_problems(list(map(_name_of, _list(facts.manifest))), listed)


def _named_problems(named: Sequence[str], listed: Sequence[str]) -> Problems:
    for number, name in enumerate(named, 1):
        if not name:
            yield f"capability {number} of the manifest has no name"
        elif name not in listed:
            yield f"the manifest names {name}, which the page does not list"


def _list(raw: JsonValue | Missing) -> Sequence[JsonValue]:
    """The capabilities of an answer or of a list, bare or wrapped."""
    if raw is MISSING:
        return []
    body = as_object(raw).get("data", raw) if "success" in as_object(raw) else raw
    return as_list(as_object(body).get("capabilities") if is_object(body) else body)


def _name_of(entry: JsonValue) -> str:
    """What a capability is called, in a list where it may stand as its name alone."""
    return entry if isinstance(entry, str) else as_text(as_object(entry).get("name"))


def _names(*sources: JsonValue | Missing) -> list[str] | None:
    for each in sources:
        if listed := _list(each):
            return list(map(_name_of, listed))
    return None


# --- the session ----------------------------------------------------------------------------------


def _body(facts: Facts) -> JsonObject | None:
    """What `initialize` answered, bare or wrapped; None where it did not, or refused."""
    if facts.initialize is MISSING or "initialize" in facts.thrown:
        return None
    wrapped = as_object(facts.initialize)
    if isinstance(wrapped.get("success"), bool):
        return as_object(wrapped.get("data")) if wrapped["success"] else None
    return wrapped


def _initialize(facts: Facts) -> Problems | None:
    if (body := _body(facts)) is None:
        return None
    return _initialize_problems(body)


def _initialize_problems(body: JsonObject) -> Problems:
    app = as_object(body.get("app"))
    if not as_text(body.get("sessionId")):
        yield "sessionId is missing, or no text"
    for name in ("id", "name", "version"):
        if not as_text(app.get(name)):
            yield f"app.{name} is missing, or no text"
    if not isinstance(body.get("capabilities"), list):
        yield "capabilities is no list"


def _version(facts: Facts) -> Problems | None:
    if (body := _body(facts)) is None:
        return None
    said = body.get("protocolVersion")
    known = isinstance(said, str) and said.partition(".")[0] in ("0", "1")
    return iter([] if known else [f"protocolVersion is {to_text(said)}, and not such as '0.1'"])


_FEATURES = ("notifications", "progress", "elicitation", "dynamicCapabilities")


def _features(facts: Facts) -> Problems | None:
    if (body := _body(facts)) is None:
        return None
    said = as_object(body.get("features"))
    return (
        f"features.{name} is neither true nor false"
        for name in _FEATURES
        if not isinstance(said.get(name), bool)
    )


def _listed(facts: Facts) -> Problems | None:
    if "listed" in facts.thrown:
        return iter(["it threw"])
    if facts.listed is MISSING:
        return None
    return _listed_problems(_list(facts.listed), _names(facts.listed) or [])


def _listed_problems(listed: Sequence[JsonValue], names: Sequence[str]) -> Problems:
    if not listed:
        yield "it lists none"
    for number, name in enumerate(names, 1):
        if not name:
            yield f"capability {number} has no name"
        elif name in names[: number - 1]:
            yield f"{name} is listed twice"


def _descriptions(facts: Facts) -> Problems | None:
    if not facts.capabilities:
        return None
    return (f"{each.name} has none" for each in facts.capabilities if not each.description)


def _schemas(facts: Facts) -> Problems | None:
    as_it_came = list(map(_list, (facts.manifest, facts.initialize, facts.listed)))
    if not facts.capabilities and not any(as_it_came):
        return None
    return _all_schema_problems(facts.capabilities, chain(*as_it_came))


def _all_schema_problems(
    capabilities: Sequence[Capability], as_it_came: Iterable[JsonValue]
) -> Problems:
    # what is no object the bridge has taken for no schema at all
    schemas = ((_name_of(each), as_object(each).get("inputSchema")) for each in as_it_came)
    yield from dict.fromkeys(
        f"{name or '(no name)'}: inputSchema is {label(to_text(schema), 80)}, and no object"
        for name, schema in schemas
        if not (schema is None or is_object(schema))
    )
    for capability in capabilities:
        for problem in schema_problems(capability.input_schema):
            yield f"{capability.name}: {problem}"


def schema_problems(schema: JsonObject) -> Problems:
    """What keeps the parameters of a capability from being a JSON Schema of an object."""
    if schema and "type" in schema and schema["type"] != "object":
        yield f"inputSchema is of type {to_text(schema['type'])}, and not of object"
    yield from _keyword_problems(schema, "inputSchema", 0)
    try:
        normalize(schema)
    except RemoteProtocolError as problem:
        yield str(problem)


def _keyword_problems(schema: JsonObject, path: str, depth: int) -> Problems:
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
        if is_object(part) and depth < 20:
            yield from _keyword_problems(part, f"{path}.properties.{label(name, 60)}", depth + 1)
        elif not is_object(part) and not isinstance(part, bool):
            yield f"{path}.properties.{label(name, 60)} is no schema"


# --- calls ----------------------------------------------------------------------------------------


def _response_problems(raw: JsonValue, thrown: str | None) -> Problems:
    """What is wrong with the answer to a call, which threw what `thrown` says."""
    said = as_object(raw)
    if thrown is not None:
        yield f"it threw {thrown}, where ABP has {{success: false, error}}"
    elif not isinstance(said.get("success"), bool):
        yield f"it answered {label(to_text(raw), 80)}, which has no success that is true or false"
    elif said["success"] is False:
        error = as_object(said.get("error"))
        for name in ("code", "message"):
            if not as_text(error.get(name)):
                yield f"error.{name} is missing, or no text"
        if not isinstance(error.get("retryable"), bool):
            yield "error.retryable is neither true nor false"


def _response_of(name: str) -> Judge:
    def judge(facts: Facts) -> Problems | None:
        if name in facts.unanswered:
            return iter([f"it did not answer within {facts.unanswered[name]:g} s"])
        raw: JsonValue | Missing = getattr(facts, name)
        why = facts.failures.get(name)
        if raw is MISSING:
            return None if why is None else iter([f"it was not answered: {why}"])
        thrown = (why or "an error") if name in facts.thrown else None
        return _response_problems(raw, thrown)

    return judge


def _unknown_code(facts: Facts) -> Problems | None:
    if facts.unknown is MISSING or "unknown" in facts.thrown:
        return None
    said = as_object(facts.unknown)
    code = as_text(as_object(said.get("error")).get("code"))
    fits = said.get("success") is False and code == "UNKNOWN_CAPABILITY"
    return iter([] if fits else [f"it answered {label(to_text(facts.unknown), 120)}"])


def _codes(facts: Facts) -> Problems | None:
    answers = [each for each in (facts.unknown, facts.called) if each is not MISSING]
    codes = [as_text(as_object(as_object(each).get("error")).get("code")) for each in answers]
    used = [code for code in codes if code]
    return (f"{code!r} is none" for code in used if not _CODE.fullmatch(code)) if used else None


def _questions(facts: Facts) -> Problems | None:
    if facts.called is MISSING or not facts.asked:
        return None
    return _question_problems(facts.asked)


def _question_problems(asked: Sequence[JsonValue]) -> Problems:
    for raw in asked:
        try:
            decode_question(raw, id="question", origin="the app")
        except RemoteProtocolError as problem:
            yield f"{label(to_text(as_object(raw).get('method')), 80)}: {problem}"


def _members(facts: Facts) -> Problems | None:
    if facts.called is MISSING or not facts.asked:
        return None
    return (
        f"{kind.value}: {problem}"
        for raw in map(as_object, facts.asked)
        for kind in QuestionKind
        if raw.get("method") == kind.value
        for problem in find_misspelt(kind, as_object(raw.get("params")))
    )


def _shutdown(facts: Facts) -> Problems | None:
    if facts.shutdown is MISSING:
        return None
    return iter(["it threw"] if "shutdown" in facts.thrown else [])


def _console(facts: Facts) -> Problems | None:
    return iter(facts.console) if facts.manifest is not None else None


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


def _written(facts: Facts) -> tuple[list[JsonObject], list[JsonObject]] | None:
    """What was registered, and the forms that are tools, or nearly; None where nothing is."""
    said = facts.written or {}
    tools, forms = (list(map(as_object, as_list(said.get(name)))) for name in ("tools", "forms"))
    forms = [each for each in forms if _is_meant(each)]
    return (tools, forms) if tools or forms else None


def _is_meant(form: JsonObject) -> bool:
    """Whether somebody made it a tool, or wanted to."""
    attributes = as_texts(form.get("attributes"))
    return bool({*_ATTRIBUTES} & {*attributes}) or any(find_near("", attributes, _ATTRIBUTES))


def _name(tool: JsonObject) -> str:
    return label(as_text(tool.get("name")) or "a tool without a name", 80)


def _tools(facts: Facts) -> Problems | None:
    if (written := _written(facts)) is None:
        return None
    return _tool_problems(*written)


def _tool_problems(tools: Sequence[JsonObject], forms: Sequence[JsonObject]) -> Problems:
    for each in tools:
        if problem := as_text(each.get("problem")):
            yield f"{_name(each)}: the browser did not take it: {problem}"
    names = [as_text(each.get("name")) for each in forms]
    for name, count in Counter(names).items():
        if name and count > 1:
            yield f"{label(name, 80)}: {count} forms have this toolname"
    for each in forms:
        for attribute, instead in _missing(each).items():
            written = f", but {label(instead, 60)!r}" if instead else ""
            yield f"{_name(each)}: its form has no {attribute}{written}, and is no tool without"


def _missing(form: JsonObject) -> dict[str, str]:
    """The attributes without which it is no tool, and what is written in place of each."""
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


def _fields(facts: Facts) -> Problems | None:
    if (written := _written(facts)) is None:
        return None
    return (
        f"{_name(form)}: {label(as_text(each.get('words')), 80)!r} has no name"
        for form in written[1]
        for each in map(as_object, as_list(form.get("fields")))
        if each.get("asked") is True and not as_text(each.get("name"))
    )


def _words(facts: Facts) -> Problems | None:
    if (written := _written(facts)) is None:
        return None
    return _word_problems(*written)


def _word_problems(tools: Sequence[JsonObject], forms: Sequence[JsonObject]) -> Problems:
    for each in tools:
        yield from find_near(f"{_name(each)} has", as_texts(each.get("members")), _MEMBERS)
        hints = [hint for hint in as_texts(each.get("annotations")) if hint not in _HINTS]
        for hint in hints:
            meant = nearest(hint, _HINTS, MISSPELT)
            right = f"{meant!r} is" if meant else f"there are {', '.join(_HINTS)}"
            where = f"{_name(each)} has the annotation"
            yield f"{where} {label(hint, 60)!r}, which is nothing; {right}"
    for form in forms:
        for each in (form, *map(as_object, as_list(form.get("fields")))):
            said = _missing(form).values() if each is form else ()  # by another rule
            attributes = [one for one in as_texts(each.get("attributes")) if one not in said]
            where = f"{_name(form)}: {'its form' if each is form else 'a field'} has"
            yield from find_near(where, attributes, _ATTRIBUTES)


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
        "concepts/discovery; D8",
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
        _manifest_fields,
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
        _initialize,
    ),
    Rule(
        "version",
        "protocolVersion is one that this bridge knows",
        "concepts/versioning; X16",
        'Answer protocolVersion: "0.1".',
        _version,
        must=False,
    ),
    Rule(
        "features",
        "each of the four features is true or false",
        "reference/api",
        "Return features: {notifications, progress, elicitation, dynamicCapabilities}.",
        _features,
        must=False,
    ),
    Rule(
        "capabilities",
        "listCapabilities answers with a list, each capability once and with a name",
        "reference/api; X12",
        "Return [{name, description, inputSchema, available: true}, ...].",
        _listed,
        must=False,
    ),
    Rule(
        "manifest's capabilities",
        "what the manifest names is what the app lists",
        "concepts/security; D3",
        "List it, or take it out of the manifest: only what the app lists can be called.",
        _manifest_capabilities,
        (Kind.PAGE,),
        must=False,
    ),
    Rule(
        "descriptions",
        "each capability has a description, by which a model chooses",
        "concepts/capabilities",
        "Say in a sentence what it does.",
        _descriptions,
        tuple(Kind),
        must=False,
    ),
    Rule(
        "schemas",
        "each inputSchema is a JSON Schema of an object",
        "reference/api",
        'Write {"type": "object", "properties": {...}, "required": [...]}.',
        _schemas,
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
        _unknown_code,
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
        _questions,
    ),
    Rule(
        "members",
        "what the call asks has no member that is misspelt",
        "docs/abp.md",
        "Write it as ABP has it: a name that is none is passed over, and another question asked.",
        _members,
        must=False,
    ),
    Rule(
        "error codes",
        "error codes are words such as OPERATION_FAILED",
        "reference/error-handling",
        "Write codes in capitals with underscores: ABP's own where one fits.",
        _codes,
        must=False,
    ),
    Rule(
        "shutdown",
        "shutdown() is there, and does not throw",
        "reference/conformance; S2",
        "Add shutdown() to window.abp; it may do nothing.",
        _shutdown,
    ),
    Rule(
        "console",
        "the page's console has no errors",
        "a page that works has none",
        "See the file and the line that it names.",
        _console,
        (Kind.PAGE,),
        must=False,
    ),
    Rule(
        "tools",
        "each tool of the page is one to the browser, under a name of its own",
        "docs/webmcp.md",
        "Await what registerTool() returns; give each form a toolname of its own, and a"
        " tooldescription.",
        _tools,
        (Kind.PAGE, Kind.TOOLS),
    ),
    Rule(
        "tool fields",
        "each field of a form that is a tool has a name",
        "docs/webmcp.md",
        "Give it a name: without one it is no parameter of the tool, and is not sent.",
        _fields,
        (Kind.PAGE, Kind.TOOLS),
        must=False,
    ),
    Rule(
        "tool words",
        "no attribute, member or annotation of a tool is misspelt",
        "docs/webmcp.md",
        "Write it as WebMCP has it: a name that is none is passed over.",
        _words,
        (Kind.PAGE, Kind.TOOLS),
        must=False,
    ),
)
