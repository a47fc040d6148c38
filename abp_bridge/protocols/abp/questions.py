"""ABP's elicitation requests -> `Question`, and `Answer` -> ABP's elicitation responses.

Accepts the shapes in rows X5 to X11 of docs/abp.md; raises only RemoteProtocolError. Warns of
misspelt members: ABP ignores unknown ones, so `optoins` would be lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NotRequired, TypedDict

from abp_bridge.core import file, sanitize
from abp_bridge.core.answer import Answer
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.options import decode_choices
from abp_bridge.core.outcome import AnsweredBy, Outcome, describe_outcome
from abp_bridge.core.question import MISSING, Field, FieldType, Kind, Missing, Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.schema import Schema, normalize
from abp_bridge.core.words import MISSPELT, nearest
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp.calls import decode_seconds
from abp_bridge.protocols.schema_fields import (
    ACKNOWLEDGE,
    asks_nothing,
    decode_field,
    decode_fields,
    fitting,
    kind_of,
    mark_secrets,
)

# The name of the only field of a question, which is also the member of `data` that the app reads.
VALUE, CONFIRMED, SELECTED, FILE = "value", "confirmed", "selected", "file"

_ALIASES = {"elicitation/text": Kind.INPUT, **{kind.value: kind for kind in Kind}}  # X10


def decode_question(raw: JsonValue, *, id: str, origin: str, overrules: bool = True) -> Question:
    """Decode an ABP elicitation request `{method, params?, timeout?}`.

    Args:
        raw: The request.
        id: The question's id.
        origin: The requester, as the bridge knows it.
        overrules: Whether the requester may declare that a field is not secret.

    Raises:
        RemoteProtocolError: `NOT_SUPPORTED` for an unknown method, `INVALID_PARAMS` for a request
            that cannot be shown.
    """
    request = _mapping(raw, "an elicitation request")
    method = request.get("method")
    kind = _ALIASES.get(method) if isinstance(method, str) else None
    if kind is None:
        words = "a request without a method"
        if method is not None:
            words = f"unknown elicitation method {sanitize.label(method, 80)!r}"
        raise RemoteProtocolError(
            f"{words}; known are {', '.join(_ALIASES)}",
            "NOT_SUPPORTED",
        )
    params = _mapping(
        {} if request.get("params") is None else request["params"], "the elicitation's params"
    )
    parts = _DECODERS[kind](params)
    if not overrules:
        parts["fields"] = mark_secrets(parts["fields"], (), parts["message"], overrules=False)
    kind = Kind.CONFIRM if parts["fields"] == (ACKNOWLEDGE,) else kind
    return Question(
        id=id,
        kind=kind,
        origin=sanitize.label(origin),
        request=params,
        **parts,
    )


def decode_asker(raw: JsonValue) -> tuple[tuple[str, ...], float | None]:
    """Return the call an elicitation request names (`params.operationId`) and its timeout in
    seconds.
    """
    request = as_object(raw)
    params = as_object(request.get("params"))
    named = params.get("operationId")
    calls = (named,) if isinstance(named, str) else ()
    return calls, decode_seconds(request.get("timeout", params.get("timeout")))


def encode_answer(question: Question, answer: Answer) -> dict[str, JsonValue]:
    """Encode the ABP elicitation response `{success, data?, error?, cancelled?, metadata}`."""
    if question.fields == (ACKNOWLEDGE,) and answer.content.get(CONFIRMED) is False:
        answer = replace(answer, outcome=Outcome.DECLINED)
    row = answer.outcome.row
    metadata: dict[str, JsonValue] = {
        "answeredBy": answer.answered_by.value,
        "route": answer.route,
        "latencyMs": round(answer.latency * 1000, 1),
        "outcome": answer.outcome.value,
    }
    if answer.unchecked:
        metadata["unchecked"] = list(answer.unchecked)
    if question.default is not MISSING and row.has_default:
        metadata |= {"answeredBy": AnsweredBy.DEFAULT.value, "reason": answer.reason}
        return {"success": True, "data": {VALUE: question.default}, "metadata": metadata}
    if answer.evidence:
        metadata["evidence"] = answer.evidence
    if answer.outcome is Outcome.ACCEPTED:
        data = _data(question, answer.content)
        return {"success": True, "data": data, "metadata": {**answer.metadata, **metadata}}
    reason = answer.reason or describe_outcome(answer.outcome, answer.answered_by)
    return {
        "success": False,
        **({"cancelled": True} if row.cancelled else {}),
        "error": _error(row.code, reason, row.retryable),
        "metadata": metadata,
    }


def encode_problem(problem: RemoteProtocolError) -> dict[str, JsonValue]:
    """A request that could not become a question -> the ABP elicitation response that says why."""
    return {
        "success": False,
        "error": _error(problem.code, str(problem)),
        "metadata": {"answeredBy": AnsweredBy.NOBODY.value, "route": "", "latencyMs": 0},
    }


def encode_withdrawn(reason: str) -> dict[str, JsonValue]:
    """The ABP elicitation response to a request that nobody is left to ask."""
    row = Outcome.WITHDRAWN.row
    return {
        "success": False,
        "cancelled": row.cancelled,
        "error": _error(row.code, reason, row.retryable),
        "metadata": {
            "answeredBy": AnsweredBy.NOBODY.value,
            "route": "",
            "latencyMs": 0,
            "outcome": Outcome.WITHDRAWN.value,
        },
    }


def _error(code: str, reason: str, retryable: bool = False) -> JsonObject:
    return {
        "code": code,
        "message": reason,
        "retryable": retryable,
        "details": {"reason": reason},
    }


def _data(question: Question, content: JsonObject) -> dict[str, JsonValue]:
    if question.fields == (ACKNOWLEDGE,):
        return {VALUE: {}}
    if question.kind in (Kind.INPUT, Kind.PREFERENCE):
        return {VALUE: content.get(VALUE) if question.wrapped else dict(content)}
    if question.kind is Kind.RESOURCE:
        return dict(as_object(content.get(FILE)))
    return dict(content)


def _mapping(value: JsonValue, what: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise RemoteProtocolError(
            f"{what} must be an object, not {sanitize.label(json.dumps(value, default=str), 80)}"
        )
    return value


class _Parts(TypedDict):
    """What the parameters of one method say of the question."""

    message: str
    fields: tuple[Field, ...]
    wrapped: NotRequired[bool]
    whole: NotRequired[Schema]
    default: NotRequired[JsonValue | Missing]
    destructive: NotRequired[bool]


def _prompt(params: JsonObject, fallback: str) -> str:
    names = ("prompt", "message", "question", "title")
    shown = (sanitize.message(as_text(params.get(name))) for name in names)
    return next(filter(None, shown), fallback)


def _input(params: JsonObject) -> _Parts:
    given = params.get("schema")
    schema = normalize(given) if isinstance(given, Mapping) else {"type": "string"}
    prompt = _prompt(params, "Please fill this in.")
    properties = schema.get("properties")
    if asks_nothing(schema):
        return {"message": prompt, "fields": (ACKNOWLEDGE,), "wrapped": False}
    if isinstance(properties, Mapping) and properties and kind_of(schema) in ("object", ""):
        fields = decode_fields(properties, schema.get("required"))
        # A field that is required and not there could never be filled in: that is the app's
        # mistake, and not the person's.
        whole = {word: value for word, value in schema.items() if word != "required"}
        return {
            "message": prompt,
            "fields": mark_secrets(fields, (schema, params), prompt),
            "wrapped": False,
            "whole": whole,
        }
    return {
        "message": prompt,
        "fields": mark_secrets((decode_field(VALUE, schema, required=True),), (params,), prompt),
    }


def _preference(params: JsonObject) -> _Parts:
    given = params.get("schema")
    schema: dict[str, JsonValue] = {"type": "string"}
    if isinstance(given, Mapping):
        schema = dict(normalize(given))
    default = params["default"] if "default" in params else schema.get("default", MISSING)  # X11
    if default is not MISSING:
        schema["default"] = default
    properties = schema.get("properties")
    if isinstance(default, Mapping) and isinstance(properties, Mapping):
        schema["properties"] = {
            name: (
                {**part, "default": default[name]}
                if isinstance(part, Mapping) and name in default
                else part
            )
            for name, part in properties.items()
        }
    return {**_input({**params, "schema": schema}), "default": default}


_YES_OR_NO = (Field(CONFIRMED, FieldType.BOOLEAN, {"type": "boolean"}, title="Confirm"),)


def _confirm(params: JsonObject) -> _Parts:
    prompt = _prompt(params, "Please confirm.")
    return {
        "message": prompt,
        "fields": mark_secrets(_YES_OR_NO, (params,), prompt),
        "destructive": params.get("destructive") is True,
    }


def _select(params: JsonObject) -> _Parts:
    options = params.get("options")
    if not isinstance(options, list) or not options:
        raise RemoteProtocolError("elicitation/select needs a list of at least one option")
    choices = decode_choices([_option(option) for option in options])
    values = [choice.value for choice in choices]
    several = params.get("multiple") is True
    schema: dict[str, JsonValue] = (
        {"type": "array", "items": {"enum": values}} if several else {"enum": values}
    )
    default = params.get("default", MISSING)
    if several and default is not MISSING and not isinstance(default, list):
        default = [default]
    kind = FieldType.CHOICES if several else FieldType.CHOICE
    field = Field(
        SELECTED, kind, schema, title="Choice", choices=choices, default=fitting(default, schema)
    )
    prompt = _prompt(params, "Please choose.")
    return {"message": prompt, "fields": mark_secrets((field,), (params,), prompt)}


def _resource(params: JsonObject) -> _Parts:
    wanted = sanitize.label(params.get("type") or "a file", 80)
    where = f" ({sanitize.label(params['uri'])})" if isinstance(params.get("uri"), str) else ""
    accept = file.kinds(params.get("type"))
    field = Field(FILE, FieldType.FILE, file.SCHEMA, title="File", accept=accept)
    prompt = _prompt(params, f"Please give {wanted}{where}.")
    return {"message": prompt, "fields": mark_secrets((field,), (params,), prompt)}


def _sampling(params: JsonObject) -> _Parts:
    task = params.get("task")
    if not isinstance(task, str) or not task.strip():
        raise RemoteProtocolError("sampling/create needs a task, in words (params.task)")
    return {"message": sanitize.message(task, 32_000), "fields": ()}


_DECODERS: dict[Kind, Callable[[JsonObject], _Parts]] = {
    Kind.INPUT: _input,
    Kind.PREFERENCE: _preference,
    Kind.CONFIRM: _confirm,
    Kind.SELECT: _select,
    Kind.RESOURCE: _resource,
    Kind.SAMPLING: _sampling,
}


def _option(option: JsonValue) -> tuple[JsonValue, JsonValue, JsonValue]:
    if isinstance(option, Mapping):
        if "value" not in option and "label" not in option:
            raise RemoteProtocolError("each option needs a value and a label")
        value = option.get("value", option.get("label"))
        return value, option.get("label", value), option.get("description", "")
    return option, option, ""


_ANY = ("prompt", "message", "question", "title", "sensitive", "timeout", "operationId")
_OWN = {
    Kind.INPUT: ("schema",),
    Kind.PREFERENCE: ("schema", "default"),
    Kind.CONFIRM: ("destructive",),
    Kind.SELECT: ("options", "multiple", "default"),
    Kind.RESOURCE: ("type", "uri"),
    Kind.SAMPLING: ("task", "context"),
}
_OPTION = ("value", "label", "description")
_KEYWORDS = (
    *("type", "title", "description", "default", "enum", "const", "format", "pattern", "examples"),
    *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "items", "minItems", "maxItems", "uniqueItems", "properties", "required"),
    *("minProperties", "maxProperties", "additionalProperties", "patternProperties", "prefixItems"),
    *("anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "definitions"),
    *("enumNames", "readOnly", "writeOnly", "contentMediaType", "contentEncoding"),
)


def known_members(kind: Kind) -> Sequence[str]:
    """What the params of such a request may have."""
    return (*_ANY, *_OWN[kind])


def find_misspelt(kind: Kind, params: JsonObject) -> Iterator[str]:
    """Yield a sentence for each unknown name that is near a known one."""
    yield from find_near("the params have", params, known_members(kind))
    for option in as_list(params.get("options")) if kind is Kind.SELECT else ():
        yield from find_near("an option has", as_object(option), _OPTION)
    yield from _find_in_schema(params.get("schema"))


def _find_in_schema(schema: JsonValue) -> Iterator[str]:
    keywords = as_object(schema)
    if not keywords:
        return
    yield from find_near("the schema has", keywords, _KEYWORDS)
    inner = list(as_object(keywords.get("properties")).values())
    for name in ("items", "anyOf", "oneOf", "allOf"):
        each = keywords.get(name)
        inner += as_list(each) or [each]
    for each in inner:
        yield from _find_in_schema(each)


def find_near(where: str, names: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    """Yield a sentence, starting with `where`, for each unknown name near a known one."""
    for name in names:
        if name not in known and (meant := nearest(name, known, MISSPELT)):
            yield f"{where} {label(name, 60)!r}, which is nothing; {meant!r} is"
