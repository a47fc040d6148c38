"""A model that plays a script, on loopback, behind the wire formats of the three hosts: OpenAI
Responses (Codex), Chat Completions (Goose) and Anthropic Messages (Claude), streamed.

The script is the last message of the user that holds one. Each of its lines `CALL tool {json}` is
one tool call, played one a turn; then the model says DONE. Hosts prefix the names of MCP tools each
in its own way: `tool` stands for the first offered one that ends with it.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

Json = Any

_CALL = re.compile(r"^CALL (\S+) (\{.*\})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """One that the host offers; Codex groups those of a server in a namespace."""

    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What the host sent: the conversation as (who, text), who being `user` or `tool`, and the
    tools it offers.
    """

    said: list[tuple[str, str]]
    tools: list[Tool]

    def offers(self, tool: str) -> bool:
        return any(each.name.endswith(tool) for each in self.tools)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model does next: says words, or calls a tool.

    Claude takes messages with the same id for one, so each turn has its own.
    """

    id: int
    words: str = ""
    tool: Tool | None = None
    arguments: str = ""


class Model:
    """A running model: `with Model() as model`.

    `requests` are those that asked for a turn of a script, in order.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._ids = count(1)
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Model:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def turn(self, request: Request) -> Turn:
        """The answer to `request`."""
        script = max(
            (
                at
                for at, (who, text) in enumerate(request.said)
                if who == "user" and _CALL.search(text)
            ),
            default=None,
        )
        if script is None or not request.tools:
            return Turn(
                next(self._ids), "Hello."
            )  # a side request of the host's, such as for a title
        self.requests.append(request)
        calls = _CALL.findall(request.said[script][1])
        results = sum(who == "tool" for who, _ in request.said[script:])
        if results >= len(calls):
            return Turn(next(self._ids), "DONE")
        name, arguments = calls[results]
        found = (tool for tool in request.tools if tool.name.endswith(name))
        return Turn(next(self._ids), tool=next(found, Tool(name)), arguments=arguments)


class _Server(ThreadingHTTPServer):
    """Hosts that are interrupted or end just drop their connections."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One HTTP connection of a host."""

    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, *words: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send(
            b'{"object": "list", "data": [{"id": "mock", "object": "model"}]}', "application/json"
        )

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for path, (read, write) in _FORMATS.items():
            if self.path.partition("?")[0].endswith(path):
                return self._send(b"".join(write(self.model.turn(read(body)))), "text/event-stream")
        return self._send(b'{"input_tokens": 1}', "application/json")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _sse(data: Mapping[str, Json]) -> bytes:
    """One server-sent event, named after its `type` if it has one."""
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


def _words(content: Json) -> str:
    """The text of a message or of a tool's result, whichever way it is wrapped."""
    if isinstance(content, list):
        return "\n".join(_words(part.get("text", "")) for part in content)
    return content or ""


# --- OpenAI Responses -----------------------------------------------------------------------------


def _read_responses(body: Json) -> Request:
    said = []
    for item in body["input"]:
        if item["type"] == "message":
            said.append((item["role"], _words(item["content"])))
        elif item["type"] == "function_call_output":
            said.append(("tool", _words(item["output"])))
    tools: list[Tool] = []
    for tool in body["tools"]:
        if tool["type"] == "namespace":
            tools.extend(Tool(each["name"], tool["name"]) for each in tool["tools"])
        elif "name" in tool:
            tools.append(Tool(tool["name"]))
    return Request(said, tools)


def _write_responses(turn: Turn) -> Iterator[bytes]:
    item: dict[str, Json]
    if turn.tool is None:
        content = [{"type": "output_text", "text": turn.words, "annotations": []}]
        item = {"id": f"msg_{turn.id}", "type": "message", "role": "assistant", "content": content}
    else:
        item = {
            "id": f"fc_{turn.id}",
            "call_id": f"call_{turn.id}",
            "type": "function_call",
            "name": turn.tool.name,
            "arguments": turn.arguments,
        }
        item |= {"namespace": turn.tool.namespace} if turn.tool.namespace else {}
    response = {
        "id": f"resp_{turn.id}",
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    }
    yield _sse({"type": "response.created", "response": response})
    yield _sse({"type": "response.output_item.done", "output_index": 0, "item": item})
    yield _sse({"type": "response.completed", "response": response})


# --- Chat Completions -----------------------------------------------------------------------------


def _read_chat(body: Json) -> Request:
    said = [(message["role"], _words(message.get("content"))) for message in body["messages"]]
    return Request(said, [Tool(tool["function"]["name"]) for tool in body.get("tools") or []])


def _write_chat(turn: Turn) -> Iterator[bytes]:
    delta: dict[str, Json] = {"role": "assistant"}
    if turn.tool is None:
        delta["content"] = turn.words
    else:
        function = {"name": turn.tool.name, "arguments": turn.arguments}
        delta["tool_calls"] = [
            {"index": 0, "id": f"call_{turn.id}", "type": "function", "function": function}
        ]
    chunk = {
        "id": f"chat_{turn.id}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "mock",
    }
    yield _sse({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _sse(
        {
            **chunk,
            "choices": [
                {
                    "index": 0,
                    "delta": {},
                    "finish_reason": "stop" if turn.tool is None else "tool_calls",
                }
            ],
        }
    )
    yield _sse(
        {
            **chunk,
            "choices": [],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )
    yield b"data: [DONE]\n\n"


# --- Anthropic Messages ---------------------------------------------------------------------------


def _read_messages(body: Json) -> Request:
    said = []
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                said.append((message["role"], block["text"]))
            elif block["type"] == "tool_result":
                said.append(("tool", _words(block.get("content"))))
    return Request(said, [Tool(tool["name"]) for tool in body.get("tools") or []])


def _write_messages(turn: Turn) -> Iterator[bytes]:
    block: dict[str, Json]
    if turn.tool is None:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": turn.words}
    else:
        block = {"type": "tool_use", "id": f"call_{turn.id}", "name": turn.tool.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": turn.arguments}
    stop = {"stop_reason": "end_turn" if turn.tool is None else "tool_use", "stop_sequence": None}
    message: dict[str, Json] = {
        "id": f"msg_{turn.id}",
        "type": "message",
        "role": "assistant",
        "model": "mock",
        "content": [],
        "stop_reason": None,
    }
    yield _sse(
        {
            "type": "message_start",
            "message": {
                **message,
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        }
    )
    yield _sse({"type": "content_block_start", "index": 0, "content_block": block})
    yield _sse({"type": "content_block_delta", "index": 0, "delta": delta})
    yield _sse({"type": "content_block_stop", "index": 0})
    yield _sse({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}})
    yield _sse({"type": "message_stop"})


_FORMATS: dict[str, tuple[Callable[[Json], Request], Callable[[Turn], Iterator[bytes]]]] = {
    "/responses": (_read_responses, _write_responses),
    "/chat/completions": (_read_chat, _write_chat),
    "/messages": (_read_messages, _write_messages),
}
