"""What is fuzzed: the wire, cut anywhere, and every codec of what comes from outside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from abp_bridge.core import json_text
from abp_bridge.core.menu import Menu
from abp_bridge.core.notice import describe
from abp_bridge.core.question import FieldType, Question, validate_answer
from abp_bridge.errors import LocalProtocolError, RemoteProtocolError
from abp_bridge.protocols import abp, opencode
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.protocols.mcp import (
    asked,
    elicitation,
    model_messages,
    modern,
    sampling,
    server,
)
from abp_bridge.protocols.mcp.client import decode_capabilities
from abp_bridge.protocols.mcp.modern import InvalidParamsError
from abp_bridge.protocols.mcp.results import encode_result, encode_tool
from abp_bridge.protocols.mcp.versions import V2025_06_18, V2025_11_25
from abp_bridge.rpc.protocol import InvalidMessage, JsonRpcProtocol, Request

Json = Any

SHORT = 4_096  # bytes of a line that is read: longer ones are there too


def question(raw: Json) -> None:
    ask(abp.decode_question(raw, id="q", origin="o"), raw)


def form(raw: Json) -> None:
    ask(asked.decode_form(raw, id="q", origin="o"), raw)


def ask(found: Question, raw: Json) -> None:
    """A question that was decoded can be asked and answered, a file by no form."""
    validate_answer(found, raw)
    if any(each.type is FieldType.FILE for each in found.fields):
        return
    for plain in (True, False):
        elicitation.encode_form(found, V2025_11_25, plain=plain)
    elicitation.encode_form(found, V2025_06_18)
    opencode.encode_request(found, "q", "s")
    elicitation.decode_reply({"action": "accept", "content": raw}, found)
    with contextlib.suppress(LocalProtocolError, ValueError):  # no menu has room for it
        acp.encode_permission(found, Menu(found).step, "s", "c")


def capabilities(raw: Json) -> None:
    for each in abp.decode_capabilities(raw):
        encode_tool("t", each, "o")
        each.parameter_errors(raw if isinstance(raw, dict) else {})


def result(raw: Json) -> None:
    found = abp.decode_result(raw)
    abp.extract(found.data)
    encode_result(found)


CODECS: tuple[Callable[[Json], object], ...] = (
    question,
    form,
    capabilities,
    result,
    abp.decode_app_info,
    lambda raw: describe(abp.decode_notice(raw)),
    abp.decode_progress,
    abp.decode_changes,
    lambda raw: from_envelope(raw) if is_envelope(raw) else None,
    acp.decode_capabilities,
    acp.decode_outcome,
    acp.prompt_text,
    elicitation.decode_roots,
    elicitation.decode_sampled,
    lambda raw: sampling.decode_sampling(raw, id="q", origin="o"),
    lambda raw: server.decode_tools(raw if isinstance(raw, list) else [raw], {}),
    server.decode_result,
    server.decode_contents,
    lambda raw: decode_capabilities(raw, V2025_11_25),
    lambda raw: model_messages.decode_answered(raw if isinstance(raw, dict) else {}),
    lambda raw: modern.decode_envelope(raw if isinstance(raw, dict) else {}),
    lambda raw: modern.decode_retry(raw if isinstance(raw, dict) else {}),
)


def codecs(data: bytes) -> None:
    try:
        raw = json_text.parse(data)
    except ValueError:
        return
    message = raw if isinstance(raw, dict) else {}
    for part in (raw, message.get("params"), message.get("result")):
        for decode in CODECS:
            with contextlib.suppress(RemoteProtocolError, LocalProtocolError, InvalidParamsError):
                decode(part)


def wire(data: bytes) -> None:
    peer = JsonRpcProtocol(max_line=SHORT, revealed=True)
    peer.batches = True
    cut, data = data[0] + 1 if data else 1, data + b"\n"
    for _ in range(3):
        peer.request("ask", {})
    for start in range(0, len(data), cut):
        for event in peer.receive(data[start : start + cut]):
            if isinstance(event, Request):
                json_text.parse(peer.respond(event.id, event.params) or b"{}")
            elif isinstance(event, InvalidMessage) and event.reply:
                json_text.parse(event.reply)
