"""The matrix by pairs, computed from the decoders and from the matrix that routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.matrix import Cell, SurfaceVariant, candidate_attempts, question_cell
from abp_bridge.core.question import Question
from abp_bridge.core.surface import Surface
from abp_bridge.protocols.abp import decode_question as decode_abp
from abp_bridge.protocols.abp.agent import encode_request
from abp_bridge.protocols.acp.agent import decode_permission
from abp_bridge.protocols.mcp.sampling import decode_sampling
from abp_bridge.protocols.mcp.server_elicitation import decode_question as decode_elicitation
from abp_bridge.protocols.webmcp.form import decode_page_form
from abp_bridge.protocols.webmcp.form_question import make_question

ABP, MCP, ACP = "an ABP app", "an MCP server", "an ACP agent"
PRESUMED = "an MCP server whose tool may destroy, or an ACP agent's form"
WEBMCP = "a page's WebMCP form that waits"

_WORDS = "Which one?"
_LETTERS: list[JsonValue] = ["a", "b", "c", "d", "e", "f"]
_TEXT: JsonObject = {"type": "string"}
_FORM: JsonObject = {"name": _TEXT, "size": {"enum": _LETTERS}}


def _from_abp(method: str, **params: JsonValue) -> Question:
    said: JsonObject = {"prompt": _WORDS, **params}
    raw: JsonObject = {"method": method, "params": said}
    return decode_abp(raw, id="question-1", origin="app")


def _from_server(destructive: bool, properties: JsonObject) -> Question:
    required = list(properties)
    schema: JsonObject = {"type": "object", "properties": properties, "required": required}
    raw: JsonObject = {"message": _WORDS, "requestedSchema": schema}
    return decode_elicitation(raw, id="question-1", origin="app", destructive=destructive)


def _by_url() -> Question:
    raw = {"mode": "url", "message": _WORDS, "url": "https://example.com/pay"}
    return decode_elicitation(raw, id="question-1", origin="app")


def _from_model() -> Question:
    said: JsonObject = {"role": "user", "content": {"type": "text", "text": _WORDS}}
    return decode_sampling({"messages": [said]}, id="question-1", origin="app")


def _from_page(*controls: JsonObject) -> Question:
    form = decode_page_form(make_page_form(*controls))
    return make_question(form, id="question-1", origin="app", description=_WORDS)


def make_page_form(*controls: JsonObject) -> JsonObject:
    return {"active": True, "controls": list(controls), "submit": {"text": "Send"}}


def _leave(*kinds: str) -> Question:
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    return decode_permission({"options": options}, _WORDS, id="question-1", origin="app")


_input = partial(_from_abp, "elicitation/input")
_select = partial(_from_abp, "elicitation/select")
_LEAVE = ("allow_once", "allow_always", "reject_once", "reject_always")

_FORMS: Mapping[str, JsonObject] = {
    "a text": {"name": _TEXT},
    "a number": {"count": {"type": "number"}},
    "a lone yes or no": {"ok": {"type": "boolean"}},
    "a lone choice": {"size": {"enum": _LETTERS}},
    "a lone choice of several": {"sizes": {"type": "array", "items": {"enum": _LETTERS}}},
    "several fields": _FORM,
    "a secret": {"password": _TEXT},
}

_SIZE: JsonObject = {
    "type": "select-one",
    "name": "size",
    "options": [{"value": each, "label": each} for each in _LETTERS],
}
PAGE_FORMS: Mapping[str, tuple[JsonObject, ...]] = {
    # what is asked: its controls, as a page is read
    "a text": ({"type": "text", "name": "name"},),
    "a number": ({"type": "number", "name": "count", "step": "any"},),
    "a lone yes or no": ({"type": "checkbox", "name": "ok", "value": "on"},),
    "a lone choice": (_SIZE,),
    "several fields": ({"type": "text", "name": "name", "required": True}, _SIZE),
    "a text that the model filled in": (
        {"type": "text", "name": "name", "required": True, "value": "Ada"},
        _SIZE,
    ),
    "a secret": ({"type": "password", "name": "password"},),
    "nothing that can be changed": ({"type": "hidden", "name": "x", "value": "1", "fixed": True},),
}

QUESTIONS: Mapping[tuple[str, str], Callable[[], Question]] = {
    # (who asks, what): it, decoded as it would come
    (ABP, "elicitation/input: a text"): partial(_input, schema=_TEXT),
    (ABP, "elicitation/input: a text with a default"): partial(
        _input, schema={**_TEXT, "default": "Ada"}
    ),
    (ABP, "elicitation/input: a form"): partial(
        _input, schema={"type": "object", "properties": _FORM, "required": list(_FORM)}
    ),
    (ABP, "elicitation/input: an object in an object"): partial(
        _input, schema={"type": "object", "properties": {"at": {"properties": _FORM}}}
    ),
    (ABP, "elicitation/input: a secret"): partial(_input, schema={"format": "password"}),
    (ABP, "elicitation/preference"): partial(
        _from_abp, "elicitation/preference", schema={"enum": ["a", "b"]}, default="b"
    ),
    (ABP, "elicitation/confirm"): partial(_from_abp, "elicitation/confirm"),
    (ABP, "elicitation/confirm: destructive"): partial(
        _from_abp, "elicitation/confirm", destructive=True
    ),
    (ABP, "elicitation/select"): partial(_select, options=_LETTERS),
    (ABP, "elicitation/select: several"): partial(_select, options=_LETTERS, multiple=True),
    (ABP, "elicitation/resource"): partial(_from_abp, "elicitation/resource", type="image"),
    (ABP, "sampling/create"): partial(_from_abp, "sampling/create", task=_WORDS),
    **{
        (who, what): partial(_from_server, who is PRESUMED, properties)
        for who in (MCP, PRESUMED)
        for what, properties in _FORMS.items()
    },
    (MCP, "an address (url)"): _by_url,
    (MCP, "sampling/createMessage"): _from_model,
    **{(WEBMCP, what): partial(_from_page, *controls) for what, controls in PAGE_FORMS.items()},
    (ACP, "a permission of four options"): partial(_leave, *_LEAVE),
    (ACP, "a permission of six options"): partial(_leave, *_LEAVE, "other", "another"),
}


def find_pair(question: Question, variant: SurfaceVariant) -> Cell:
    """What becomes of `question` on a surface: to an ABP agent, by which of ABP's methods."""
    attempt = next(candidate_attempts(question, [variant]), None)
    cell = question_cell(question, variant) if attempt is None else attempt.cell
    if variant.surface is not Surface.ABP or not cell.asks:
        return cell
    method, params = encode_request(question)
    own = {word: each for word, each in question.request.items() if word != "operationId"}
    return replace(cell, how="as it is" if params == own else f"as {method}")
