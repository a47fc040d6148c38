"""The matrix by pairs: what becomes of each thing that an asking side can ask, in its own words, on
each surface of an answering side.

Nothing is routed by it. It is computed from the decoders and from the matrix that routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.matrix import Cell, Support, Surface, SurfaceVariant, question_cell
from abp_bridge.core.question import Question
from abp_bridge.protocols.abp import decode_question as decode_abp
from abp_bridge.protocols.abp.agent_questions import encode_request
from abp_bridge.protocols.acp.permission import decode_permission
from abp_bridge.protocols.mcp.asked import decode_question as decode_elicitation
from abp_bridge.protocols.mcp.sampling import decode_sampling

ABP, MCP, ACP = "an ABP app", "an MCP server, or an ACP agent's form", "an ACP agent"

_WORDS = "Which one?"
_LETTERS: list[JsonValue] = ["a", "b", "c", "d", "e", "f"]
_TEXT: JsonObject = {"type": "string"}
_FORM: JsonObject = {"name": _TEXT, "size": {"enum": _LETTERS}}


def _from_abp(method: str, **params: JsonValue) -> Question:
    said: JsonObject = {"prompt": _WORDS, **params}
    raw: JsonObject = {"method": method, "params": said}
    return decode_abp(raw, id="question-1", origin="app")


def _from_server(**properties: JsonObject) -> Question:
    required = list(properties)
    schema: JsonObject = {"type": "object", "properties": properties, "required": required}
    raw: JsonObject = {"message": _WORDS, "requestedSchema": schema}
    return decode_elicitation(raw, id="question-1", origin="app", destructive=False)


def _by_url() -> Question:
    raw = {"mode": "url", "message": _WORDS, "url": "https://example.com/pay"}
    return decode_elicitation(raw, id="question-1", origin="app")


def _from_model() -> Question:
    said: JsonObject = {"role": "user", "content": {"type": "text", "text": _WORDS}}
    return decode_sampling({"messages": [said]}, id="question-1", origin="app")


def _leave(*kinds: str) -> Question:
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    return decode_permission({"options": options}, _WORDS, id="question-1", origin="app")


_input = partial(_from_abp, "elicitation/input")
_select = partial(_from_abp, "elicitation/select")
_LEAVE = ("allow_once", "allow_always", "reject_once", "reject_always")

QUESTIONS: Mapping[tuple[str, str], Callable[[], Question]] = {
    # (who asks, what): it, decoded as it would come
    (ABP, "elicitation/input: a text"): partial(_input, schema=_TEXT),
    (ABP, "elicitation/input: a form"): partial(
        _input, schema={"type": "object", "properties": _FORM}
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
    (MCP, "a text"): partial(_from_server, name=_TEXT),
    (MCP, "a number"): partial(_from_server, count={"type": "number"}),
    (MCP, "a lone yes or no"): partial(_from_server, ok={"type": "boolean"}),
    (MCP, "a lone choice"): partial(_from_server, size={"enum": _LETTERS}),
    (MCP, "a lone choice of several"): partial(
        _from_server, sizes={"type": "array", "items": {"enum": _LETTERS}}
    ),
    (MCP, "several fields"): partial(_from_server, name=_TEXT, size={"enum": _LETTERS}),
    (MCP, "a secret"): partial(_from_server, password=_TEXT),
    (MCP, "an address (url)"): _by_url,
    (MCP, "sampling/createMessage"): _from_model,
    (ACP, "a permission of four options"): partial(_leave, *_LEAVE),
    (ACP, "a permission of six options"): partial(_leave, *_LEAVE, "other", "another"),
}


def find_pair(question: Question, variant: SurfaceVariant) -> Cell:
    """What becomes of `question` on a surface: to an ABP agent, by which of ABP's methods, and an
    address of the app's own to an MCP host.
    """
    cell = question_cell(question, variant)
    if variant.surface is Surface.MCP_URL and question.link:
        return Cell(Support.NATIVE, "the address itself")
    if variant.surface is not Surface.ABP or not cell.asks:
        return cell
    method, params = encode_request(question)
    own = {word: each for word, each in question.request.items() if word != "operationId"}
    return replace(cell, how="as it is" if params == own else f"as {method}")
