"""A scripted model with the APIs of the hosts: Responses, Chat Completions, Messages, Gemini.

The script is the last message of the user with a line `CALL tool {json}`: each line is a tool call,
one a turn; then the model says DONE. `tool` is the first offered tool whose name ends so, as hosts
prefix the names of MCP tools. `$call` is the id of a pending call in the last result. The streams
of each API are in `formats.json`. For Qwen, which names tools in its prompt only, the model first
calls `tool_search`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self

from support.http_server import Reply, json_reply, serving
from support.http_server import Request as HttpRequest

Json = Any

_CALL = re.compile(r"^CALL (\S+) (\{.*\})$", re.MULTILINE)
_GOES_ON = re.compile(r'\\*"call\\*": *\\*"([^"\\]+)')
_DEFERRED = re.compile(r'"(mcp__\w+)": "')
_REVIEWED = re.compile(r"^<function>(\{.*\})</function>$", re.MULTILINE)
_FORMATS: Json = json.loads(Path(__file__).with_name("formats.json").read_text())


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the host. `takes` are its parameters, None where only its name is known."""

    name: str
    namespace: str | None = None
    takes: frozenset[str] | None = None
    is_deferred: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What the host sent: the conversation as (`user` or `tool`, text), and its tools."""

    said: list[tuple[str, str]]
    tools: list[Tool]

    def offers(self, tool: str) -> bool:
        return self.find(tool) is not None

    def find(self, tool: str) -> Tool | None:
        return next((each for each in self.tools if each.name.endswith(tool)), None)

    @property
    def heard(self) -> list[str]:
        """What tools gave; a review of a tool is none."""
        return [text for who, text in self.said if who == "tool" and not _REVIEWED.search(text)]


class Model:
    """A running model. `requests` are those that asked for a turn of a script."""

    is_limited = False

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._ids = count(1)
        self._serving = serving(self.answer)

    def __enter__(self) -> Self:
        self.url = self._serving.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._serving.__exit__(*problem)

    def answer(self, request: HttpRequest) -> Reply:
        if request.method == "GET":
            return json_reply({"object": "list", "data": [{"id": "mock", "object": "model"}]})
        for path, form in _FORMATS.items():
            if request.method == "POST" and request.parts.path.endswith(path):
                return Reply(self.turn(form, _request(request.json)), "text/event-stream")
        return Reply() if request.method == "HEAD" else json_reply({"input_tokens": 1})

    def turn(self, form: Json, request: Request) -> bytes:
        """What the model does next, as a stream: it says words, or calls a tool."""
        turn = self._turn(request)
        # Claude takes messages with the same id for one.
        known = {"$id": f"turn_{next(self._ids)}", **turn}
        known |= _fill(form["words" if "$words" in turn else "call"], known)
        known |= form["limit"] if self.is_limited else {}
        return b"".join(map(_sse, _fill(form["stream"], known)))

    def _turn(self, request: Request) -> dict[str, Json]:
        scripts = [
            at
            for at, (who, text) in enumerate(request.said)
            if who == "user" and _CALL.search(text)
        ]
        if not scripts or not request.tools:  # a side request of the host's, such as for a title
            return {"$words": "Hello."}
        self.requests.append(request)
        calls = _CALL.findall(request.said[scripts[-1]][1])
        results = len(Request(request.said[scripts[-1] :], []).heard)
        if results >= len(calls):
            return {"$words": "DONE"}
        name, arguments = calls[results]
        tool = request.find(name) or Tool(name)
        if going := _GOES_ON.findall("".join(request.heard[-1:])):
            arguments = arguments.replace("$call", going[-1])
        values = json.loads(arguments)
        if tool.is_deferred and tool.takes is None:
            tool, values = Tool("tool_search"), {"query": f"select:{tool.name}"}
        elif tool.is_deferred:
            tool, values = Tool("tool_call"), {"name": tool.name, "arguments": values}
        called = {"$tool": tool.name, "$namespace": tool.namespace}
        return {**called, "$arguments": json.dumps(values), "$values": values}


def _request(body: Json) -> Request:
    items = next(body[name] for name in ("input", "messages", "contents") if name in body)
    said = [each for item in items for each in _said(item)]
    return Request(said, [*_tools(body.get("tools")), *_deferred(said)])


def _deferred(said: list[tuple[str, str]]) -> Iterator[Tool]:
    """The tools that a host only names, those that were reviewed first."""
    for who, text in said:
        for tool in map(json.loads, _REVIEWED.findall(text) if who == "tool" else ()):
            yield Tool(tool["name"], None, _takes(tool), is_deferred=True)
    for who, text in said:
        for name in _DEFERRED.findall(text) if who == "user" else ():
            yield Tool(name, is_deferred=True)


def _said(item: Json, role: str = "") -> Iterator[tuple[str, str]]:
    content = next((item[name] for name in ("content", "output", "parts") if name in item), None)
    role = item.get("role", role)
    if role == "tool" or item.get("type") in ("function_call_output", "tool_result"):
        yield "tool", _words(content)
    elif "functionResponse" in item:
        yield "tool", json.dumps(item["functionResponse"].get("response"))
    elif isinstance(content, list):
        for block in content:
            yield from _said(block, role)
    else:
        yield role, content or item.get("text", "")


def _words(content: Json) -> str:
    if isinstance(content, list):
        return "\n".join(_words(part.get("text", "")) for part in content)
    return content or ""


def _tools(offered: Json, namespace: str | None = None) -> Iterator[Tool]:
    for each in offered or ():
        tool = each.get("function", each)
        if "tools" in tool:
            yield from _tools(tool["tools"], tool["name"])
        elif "functionDeclarations" in tool:
            yield from _tools(tool["functionDeclarations"])
        elif "name" in tool:
            yield Tool(tool["name"], namespace, _takes(tool))


def _takes(tool: Json) -> frozenset[str]:
    places = ("parameters", "input_schema", "parametersJsonSchema")
    schema: Json = next((tool[place] for place in places if tool.get(place)), {})
    return frozenset(schema.get("properties") or ())


def _fill(template: Json, known: Mapping[str, Json]) -> Json:
    if isinstance(template, dict):
        return {name: _fill(value, known) for name, value in template.items()}
    if isinstance(template, list):
        return [_fill(each, known) for each in template]
    return known.get(template, template) if isinstance(template, str) else template


def _sse(data: Json) -> bytes:
    if isinstance(data, str):
        return f"data: {data}\n\n".encode()
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()
