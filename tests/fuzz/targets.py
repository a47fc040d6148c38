"""Fuzz targets: the wire, the codecs, and what a proxy passes on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from abp_bridge.core.answer import Answer, validate_answer
from abp_bridge.core.json_value import JsonObject, as_list, as_object, json_equal, parse_json
from abp_bridge.core.ledger import Notice, describe_notice
from abp_bridge.core.menu import Menu
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import FieldType, Question
from abp_bridge.errors import LocalProtocolError, RemoteProtocolError
from abp_bridge.jsonrpc.protocol import InvalidMessage, JsonRpcProtocol, Request, dump, parse
from abp_bridge.models import acp as acp_agent
from abp_bridge.models.agent import AgentError
from abp_bridge.models.cli import DIALECTS, CliTurn
from abp_bridge.models.request import decode_request
from abp_bridge.protocols import abp, opencode
from abp_bridge.protocols.abp.agent import (
    decode_agent,
    decode_call,
    decode_response,
    encode_request,
)
from abp_bridge.protocols.abp.envelope import AgentEnvelope, from_envelope, is_envelope
from abp_bridge.protocols.acp import agent, v1
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.protocols.mcp import (
    elicitation,
    revisions,
    sampling,
    server,
    server_elicitation,
)
from abp_bridge.protocols.mcp.client import (
    V2025_06_18,
    V2025_11_25,
    McpClientInfo,
    decode_capabilities,
)
from abp_bridge.protocols.mcp.results import encode_result
from abp_bridge.protocols.mcp.revisions import InvalidParamsError
from abp_bridge.protocols.mcp.tools import encode_tool
from abp_bridge.protocols.offer import decode_offer
from abp_bridge.protocols.webmcp import tools as tool_results
from abp_bridge.protocols.webmcp.form import decode_page_form
from abp_bridge.protocols.webmcp.form_question import make_question
from abp_bridge.protocols.webmcp.tools import decode_keys, decode_tools, describe_tools

Json = Any

SHORT = 4_096  # bytes of a line that is read: longer ones are there too


def question(raw: Json) -> None:
    ask(abp.decode_question(raw, id="q", origin="o"), raw)
    abp.decode_asker(raw)


def form(raw: Json) -> None:
    ask(found := server_elicitation.decode_question(raw, id="q", origin="o"), raw)
    server_elicitation.encode_answer(
        found, Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, content={"value": raw})
    )


def ask(found: Question, raw: Json) -> None:
    """A question that was decoded can be asked and answered, a file and a model's by no form."""
    validate_answer(found, raw)
    method, _ = encode_request(found)
    with contextlib.suppress(RemoteProtocolError):
        decode_response(raw, found, method)
        decode_response({"success": True, "data": raw}, found, method)
    if not found.fields or any(each.type is FieldType.FILE for each in found.fields):
        return
    for plain in (True, False):
        elicitation.encode_form(found, V2025_11_25, plain=plain)
    elicitation.encode_form(found, V2025_06_18)
    opencode.encode_request(found, "q", "s")
    with contextlib.suppress(RemoteProtocolError):
        opencode.decode_answers(found, raw)
    with contextlib.suppress(RemoteProtocolError):
        elicitation.decode_reply({"action": "accept", "content": raw}, found)
    with contextlib.suppress(LocalProtocolError, ValueError):  # no menu has room for it
        acp.encode_permission(found, Menu(found).step, "s", "c")


def capabilities(raw: Json) -> None:
    for each in abp.decode_capabilities(raw):
        encode_tool("t", each, "o")
        each.parameter_errors(raw if isinstance(raw, dict) else {})


def offer(raw: Json) -> None:
    with contextlib.suppress(RemoteProtocolError):
        decode_offer(json.dumps(raw).encode())


def result(raw: Json) -> None:
    found = abp.decode_result(raw)
    abp.extract(found.data)
    encode_result(found)


def of_object(decode: Callable[[JsonObject], object]) -> Callable[[Json], object]:
    return lambda raw: decode(as_object(raw))


def changes(raw: Json) -> None:
    listed = as_list(raw)
    for member in server.KEYS:
        describe_notice(server.decode_change(member, listed, listed[1:]))


def kinds(message: JsonObject) -> None:
    client = McpClientInfo(V2025_11_25, message, message)
    for method in ("tools/list", "tools/call", "server/discover", "resources/read"):
        for modern in (False, True):
            both = {"client_modern": modern, "server_modern": not modern}
            revisions.crossing(method, **both)
            revisions.error_for(method, message, **both)
            revisions.result_for(method, message, message, **both)
            revisions.request_for(message, replace(client, modern=modern), server_modern=not modern)
        revisions.to_legacy_result(method, revisions.to_modern_result(method, message, message))
    revisions.to_initialized(revisions.to_discovered(message), message.get("id"))
    revisions.urls_required(message)
    for method, params in revisions.questions_in(message).values():
        revisions.can_be_asked(client, method, revisions.to_modern_question(params))
    revisions.listen_filter(message, list(message.values()))


def turn(update: JsonObject) -> None:
    played = agent.TurnDecoder("c")
    for kind in (update.get("sessionUpdate"), *agent.UPDATES):
        for told in played.add({**update, "sessionUpdate": kind}):
            if isinstance(told, Notice):
                describe_notice(told)
    encode_result(played.result(update))
    encode_result(played.fail(0, "x", update))
    agent.decode_commands(agent.list_commands(update))


def model_turn(update: JsonObject) -> None:
    for tools in (True, False):
        played = acp_agent.ModelTurn(tools=tools)
        for kind in (update.get("sessionUpdate"), *agent.UPDATES):
            list(played.apply_update({**update, "sessionUpdate": kind}))
        played.refuse(update)
        for reason in ("end_turn", update.get("stopReason")):
            with contextlib.suppress(AgentError):
                played.finish({**update, "stopReason": reason})
    acp_agent.decode_failure(0, "x", update, "s")
    acp_agent.decode_mode(update)
    acp_agent.decode_model(update)
    acp_agent.decode_resume(update)


def leave(params: JsonObject) -> None:
    found = agent.decode_permission(params, "t", id="q", origin="o")
    ask(found, dict(params))
    agent.encode_permission(found, Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, params))


def page_form(raw: Json) -> None:
    question = make_question(decode_page_form(raw), id="q", origin="o", description="d")
    ask(question, dict(as_object(raw)))


CODECS: tuple[Callable[[Json], object], ...] = (
    question,
    form,
    capabilities,
    offer,
    result,
    abp.decode_app_info,
    lambda raw: describe_notice(abp.decode_notice(raw)),
    abp.decode_progress,
    abp.decode_changes,
    lambda raw: from_envelope(raw) if is_envelope(raw) else None,
    lambda raw: AgentEnvelope(lambda: 0.0).inward(dict(as_object(raw))),
    of_object(decode_agent),
    of_object(decode_call),
    acp.decode_capabilities,
    acp.decode_outcome,
    acp.prompt_text,
    v1.decode_reply,
    elicitation.decode_roots,
    elicitation.decode_sampled,
    lambda raw: sampling.decode_sampling(raw, id="q", origin="o"),
    lambda raw: server.decode_tools(raw if isinstance(raw, list) else [raw], {}),
    server.decode_result,
    server.decode_contents,
    server.decode_prompt,
    lambda raw: server.decode_error(0, str(raw), raw),
    lambda raw: describe_notice(server.decode_notice(str(raw), as_object(raw))),
    changes,
    sampling.decode_whole,
    lambda raw: decode_request(sampling.decode_sampling(raw, id="q", origin="o")),
    lambda raw: decode_capabilities(raw, V2025_11_25),
    of_object(kinds),
    of_object(agent.decode_info),
    of_object(agent.takes_directories),
    of_object(lambda raw: agent.decode_sign_in(raw, "o")),
    of_object(turn),
    of_object(model_turn),
    of_object(leave),
    of_object(elicitation.decode_answered),
    revisions.decode_envelope,
    of_object(revisions.decode_retry),
    of_object(revisions.decode_filter),
    page_form,
    lambda raw: describe_tools([(each, each.name, {}) for each in decode_tools(raw)]),
    decode_keys,
    tool_results.decode_response,
)


def codecs(data: bytes) -> None:
    try:
        raw = parse_json(data)
    except ValueError:
        return
    message = raw if isinstance(raw, dict) else {}
    for part in (raw, message.get("params"), message.get("result")):
        for decode in CODECS:
            with contextlib.suppress(RemoteProtocolError, LocalProtocolError, InvalidParamsError):
                decode(part)


def passes(data: bytes) -> None:
    """What a proxy reads it can write again, as the same value on one line."""
    try:
        message = parse(data)
    except ValueError:
        return
    written = dump(message)
    assert json_equal(parse(written), message)
    assert len(written.decode().splitlines()) == 1


def command_lines(data: bytes, cut: int) -> None:
    for dialect in DIALECTS.values():
        turn = CliTurn(dialect)
        for start in range(0, len(data), cut):
            list(turn.feed(data[start : start + cut]))
        with contextlib.suppress(AgentError):
            turn.finish(0, "")


def wire(data: bytes) -> None:
    peer = JsonRpcProtocol(max_line=SHORT, revealed=True)
    peer.batches = True
    cut, data = data[0] + 1 if data else 1, data + b"\n"
    command_lines(data, cut)
    for _ in range(3):
        peer.request("ask", {})
    for start in range(0, len(data), cut):
        for event in peer.receive(data[start : start + cut]):
            if isinstance(event, Request):
                parse_json(peer.respond(event.id, event.params) or b"{}")
            elif isinstance(event, InvalidMessage) and event.reply:
                parse_json(event.reply)
