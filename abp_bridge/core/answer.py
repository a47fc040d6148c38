"""The answer to a question, and `validate_answer`, which reads and checks a host's content."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from abp_bridge.core import file as files
from abp_bridge.core import sanitize
from abp_bridge.core import schema as schemas
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_object,
    json_equal,
    parse_json,
    type_of,
)
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, Field, FieldType, Missing, Question
from abp_bridge.core.schema import Schema

DIGEST_KEY_LENGTH = 32  # bytes, as long as the digest


@dataclass(frozen=True, slots=True)
class Answer:
    """How a question ended, with the validated content if it was accepted.

    `evidence` names the row of `evidence.EVIDENCE` that says who answered; `route` names the
    surface
    (`mcp-form`, `mcp-form (as text)`); `latency` is in seconds; `reason` is for the app's
    developer;
    `unchecked` names schema keywords that were not checked; `metadata` is the surface's own, and
    `host_meta` the `_meta` of the host's result. If the user was not asked, `tried` has each
    surface with its reason, and `ways` how to be asked.
    """

    outcome: Outcome
    answered_by: AnsweredBy
    content: JsonObject = field(default_factory=dict)
    evidence: str = ""
    route: str = ""
    latency: float = 0.0
    reason: str = ""
    unchecked: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)
    host_meta: JsonObject = field(default_factory=dict)
    tried: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()

    @property
    def answerer(self) -> AnsweredBy:
        """Who gave it; nobody, where what somebody gave did not count, and it is none of theirs."""
        return self.answered_by if self.outcome.row.is_given else AnsweredBy.NOBODY

    @property
    def unanswered(self) -> bool:
        """Whether no user answered, though an answer was still wanted: the requester is told so."""
        nobody = not self.outcome.row.is_given and self.outcome is not Outcome.WITHDRAWN
        return nobody or self.answered_by is AnsweredBy.HOST_POLICY

    @property
    def unasked(self) -> bool:
        """Whether the user was not asked: no surface could, or a host declined automatically."""
        by_itself = self.answered_by is AnsweredBy.HOST_POLICY
        refused = by_itself and self.outcome is not Outcome.ACCEPTED
        return refused or self.outcome is Outcome.UNSUPPORTED


def validate_answer(
    question: Question, content: JsonValue
) -> tuple[dict[str, JsonValue], list[str]]:
    """Return the answer by field name, and its problems.

    Text is read as a number, a yes or a list if only one reading is possible, as hosts with plain
    text
    lines send it. Unknown fields and empty optional ones are left out.
    """
    if not isinstance(content, Mapping):
        return {}, ["the answer must be an object with one member per field"]
    answer = _read_fields(question.fields, content)
    return answer, answer_errors(question, answer)


def _read_fields(fields: Sequence[Field], content: JsonObject) -> dict[str, JsonValue]:
    return {each.name: None for each in fields if each.empty is None} | {
        each.name: read_value(each, content[each.name])
        for each in fields
        if each.name in content and not _left_empty(each, content[each.name])
    }


def answer_errors(question: Question, answer: JsonObject) -> list[str]:
    """What is wrong with an answer by field name, in the app's own values; safe to show."""
    if wrong := field_errors(question, answer):
        return [problem for problems in wrong.values() for problem in problems]
    if not _asks_all(question):
        return []
    problems = schemas.check(dict(answer), question.whole)
    secrets = [each for each in question.fields if each.secret]
    problems = _without_values(problems, secrets[0]) if problems and secrets else problems
    return _shown(problems)


def field_errors(question: Question, answer: JsonObject) -> dict[str, list[str]]:
    """What is wrong with each field that is wrong by itself, by its name; safe to show."""
    found: dict[str, list[str]] = {}
    for each in question.fields:
        if wrong := _errors(each, answer.get(each.name, MISSING)):
            found[each.name] = _shown(_without_values(wrong, each) if each.secret else wrong)
    return found


def _errors(asked: Field, value: JsonValue | Missing) -> list[str]:
    if value is MISSING:
        return [f"{asked.name} is required"] if asked.required else []
    if value is None and asked.empty is None:
        return []
    wrong = schemas.check(value, asked.schema, asked.name)
    if not (wrong or asked.choices or _is_text(value)):
        return [f"{asked.name} must be whole characters"]
    if wrong or asked.type is not FieldType.FILE:
        return wrong
    return [f"{asked.name} {problem}" for problem in files.file_errors(value, asked.accept)]


def _is_text(value: JsonValue) -> bool:
    """Whether UTF-8 can carry it: strict readers take nothing else."""
    if value is None or isinstance(value, (int, float)):
        return True
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(problems: list[str]) -> list[str]:
    return [sanitize.label(problem, sanitize.LINE_LIMIT) for problem in problems]


def _without_values(problems: list[str], secret: Field) -> list[str]:
    """Return problems without the secret value: they are shown, logged and sent to the app."""
    if problems and secret.type is FieldType.JSON:  # the names in it are the person's too
        return [f"{secret.name} does not fit"]
    return [problem.partition(", not ")[0] for problem in problems]


def read_value(asked: Field, sent: JsonValue) -> JsonValue:
    """Return the value meant by `sent`: choice keys and labels become values, text is parsed."""
    return _READERS[asked.type](asked, sent)


# kind of field -> the types of JSON that it gives; any, where it has none here
_CARRIED: Mapping[FieldType, Sequence[str]] = {
    FieldType.TEXT: ("string",),
    FieldType.NUMBER: ("number", "integer"),
    FieldType.INTEGER: ("integer",),
    FieldType.BOOLEAN: ("boolean",),
    FieldType.CHOICES: ("array",),
    FieldType.LIST: ("array",),
}


def carries(kind: FieldType, value: JsonValue) -> bool:
    """Whether a control of this kind returns `value` unchanged: a text field makes "5" of 5."""
    return kind not in _CARRIED or type_of(value) in _CARRIED[kind]


def _asks_all(question: Question) -> bool:
    """Whether the question has all fields that `whole` requires."""
    return set(as_object(question.whole.get("properties"))) == {
        each.name for each in question.fields
    }


def _left_empty(asked: Field, sent: JsonValue) -> bool:
    if sent is None:
        return "null" not in _types(asked.schema) and all(
            choice.value is not None for choice in asked.choices
        )
    if sent != "" or asked.required or asked.type is FieldType.BOOLEAN:
        return False
    return all(choice.key != "" for choice in asked.choices)  # an option may be the empty text


def _types(schema: Schema) -> list[JsonValue]:
    kinds = schema.get("type")
    return kinds if isinstance(kinds, list) else [kinds]


def _read_as_it_is(asked: Field, sent: JsonValue) -> JsonValue:
    return sent


def _read_number(asked: Field, sent: JsonValue) -> JsonValue:
    value = _number_in(sent.strip()) if isinstance(sent, str) else sent
    if asked.type is FieldType.INTEGER and isinstance(value, float) and value.is_integer():
        return _whole(sent.strip()) if isinstance(sent, str) else int(value)
    return sent if value is None else value


def _whole(text: str) -> int | str:
    """Return the whole number (some 300 digits) written with a point or exponent, or `text`."""
    # Few questions need it, and it takes time to load.
    from decimal import Decimal, InvalidOperation

    try:
        exact = Decimal(text)  # of any exponent without computing it
    except InvalidOperation:  # but for those of twenty digits
        return text
    return int(exact) if exact == exact.to_integral_value() else text


def _number_in(text: str) -> int | float | None:
    if "_" in text:  # Python would take 1_000
        return None
    try:
        return int(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            value = float(text)
            return value if math.isfinite(value) else None
    return None


_YES_NO = {"true": True, "yes": True, "false": False, "no": False}


def read_boolean(sent: JsonValue) -> JsonValue:
    """A yes or no, also as a word; anything else as it came."""
    return _YES_NO.get(sent.strip().lower(), sent) if isinstance(sent, str) else sent


def _read_boolean(asked: Field, sent: JsonValue) -> JsonValue:
    return read_boolean(sent)


def _read_choice(asked: Field, sent: JsonValue) -> JsonValue:
    for choice in asked.choices:
        if json_equal(sent, choice.key) or json_equal(sent, choice.value):
            return choice.value
    labelled = [
        choice for choice in asked.choices if isinstance(sent, str) and choice.label == sent.strip()
    ]
    return labelled[0].value if len(labelled) == 1 else sent


def _read_choices(asked: Field, sent: JsonValue) -> JsonValue:
    if isinstance(sent, list):
        return [_read_choice(asked, item) for item in sent]
    if not isinstance(sent, str):
        return sent
    items = [part.strip() for part in sent.split(",") if part.strip()]
    if _is_option(asked, sent):
        if len(items) > 1 and all(_is_option(asked, item) for item in items):
            return sent  # one option with a comma in it, or several
        items = [sent]
    return [_read_choice(asked, item) for item in items]


def _is_option(asked: Field, sent: str) -> bool:
    value = _read_choice(asked, sent)
    return any(json_equal(value, choice.value) for choice in asked.choices)


def _read_json(asked: Field, sent: JsonValue) -> JsonValue:
    if not isinstance(sent, str):
        return sent
    try:
        value = parse_json(sent)
    except ValueError:
        return sent
    if schemas.is_valid(sent, asked.schema) and not schemas.is_valid(value, asked.schema):
        return sent
    return value


def _read_list(asked: Field, sent: JsonValue) -> JsonValue:
    """Each entry as its columns read it; what no column has stays, for the check to find."""
    entries = _read_json(asked, sent)
    names = {each.name for each in asked.columns}
    if not isinstance(entries, list):
        return entries
    return [
        {name: value for name, value in each.items() if name not in names}
        | _read_fields(asked.columns, each)
        if isinstance(each, Mapping)
        else each
        for each in entries
    ]


_READERS = {
    FieldType.TEXT: _read_as_it_is,
    FieldType.NUMBER: _read_number,
    FieldType.INTEGER: _read_number,
    FieldType.BOOLEAN: _read_boolean,
    FieldType.CHOICE: _read_choice,
    FieldType.CHOICES: _read_choices,
    FieldType.LIST: _read_list,
    FieldType.FILE: _read_as_it_is,
    FieldType.JSON: _read_json,
}


def answer_digest(key: bytes, content: JsonObject) -> str:
    """The digest of an answer by field name, with the name of its algorithm before it."""
    said = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    data = said.encode(errors="surrogatepass")
    return f"hmac-sha256:{hmac.new(key, data, hashlib.sha256).hexdigest()}"
