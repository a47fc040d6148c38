"""The bridge with one difference: `differing.py DIFFERENCE ARGUMENT...`.

The replay must pass `DIFFERENCES`, which mean the same, and fail `CHANGES`. Both are two edits:
of what the bridge says, and of what it hears.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import IO, Any

Json = Any
Edit = Callable[[Json], None]  # of a message, in its place

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
NOTES = {"example.org/note": {"of": ["another", "bridge"]}}
OPAQUE = ("_meta", "rawInput", "rawOutput", "requestedSchema")
ITEMS = ("content", "contents", "resources", "resourceTemplates", "tools", "messages")
OFF = {"image": False, "audio": False, "embeddedContext": False}


def part(message: Json, *names: str) -> Json:
    for name in names:
        message = message.get(name) if isinstance(message, dict) else None
    return message if isinstance(message, dict) else {}


def is_acp(message: Json) -> bool:
    method = message.get("method", "")
    return (
        "agentCapabilities" in part(message, "result")
        or "sessionId" in part(message, "params")
        or method.startswith(("$/", "elicitation/complete"))
    )


def objects(value: Json) -> Iterator[Json]:
    """The objects in a value that a schema of ACP's knows."""
    if isinstance(value, dict):
        yield value
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, each in list(inner):
        if isinstance(each, dict | list) and name not in OPAQUE:
            yield from objects(each)


def asked(message: Json) -> Iterator[Json]:
    requests = [message, *part(message, "result", "inputRequests").values()]
    return (each["params"] for each in requests if each.get("method") == "elicitation/create")


def add_notes(message: Json) -> None:
    if is_acp(message):
        places = [*objects(part(message, "params")), *objects(part(message, "result"))]
    else:
        if "method" in message:
            message.setdefault("params", {})
        outer = [message[name] for name in ("params", "result") if name in message]
        places = [
            *outer,
            *(item for each in outer for name in ITEMS for item in each.get(name, ())),
        ]
    for each in places:
        each["_meta"] = NOTES | (each.get("_meta") or {})


def add_capabilities(message: Json) -> None:
    further = part(message, "result", "capabilities")
    further.update(completions={}, prompts={"listChanged": True})
    further.setdefault("experimental", {})["example.org/x"] = {}
    offered = part(message, "result", "agentCapabilities").setdefault("mcpCapabilities", {})
    offered.setdefault("acp", True)


def omit_is_error(message: Json) -> None:
    if part(message, "result").get("isError") is False:
        del message["result"]["isError"]


def omit_mode(message: Json) -> None:
    for params in asked(message):
        if params.get("mode") == "form" and not is_acp(message):
            del params["mode"]


def omit_server_info(message: Json) -> None:
    result = part(message, "result")
    if part(result, "_meta").pop(SERVER_INFO, None) and not result["_meta"]:
        del result["_meta"]
    for name in ("instructions", "agentInfo"):
        result.pop(name, None)
    if part(result, "serverInfo"):
        result["serverInfo"] = {name: result["serverInfo"][name] for name in ("name", "version")}


def add_structured_content(message: Json) -> None:
    if "content" in (result := part(message, "result")):
        result.setdefault("structuredContent", {"blocks": len(result["content"])})


def write_defaults(message: Json) -> None:
    result = part(message, "result")
    if is_acp(message):
        for each in [*objects(part(message, "params")), *objects(result)]:
            each.setdefault("_meta", None)
        for name, value in OFF.items():
            part(result, "agentCapabilities", "promptCapabilities").setdefault(name, value)
        return
    for params in asked(message):
        params.setdefault("mode", "form")
        if "requestedSchema" in params:
            params["requestedSchema"].setdefault("required", [])
    if "content" in result:
        result.setdefault("isError", False)
    for tool in result.get("tools", ()):
        tool.setdefault("annotations", {"readOnlyHint": False, "destructiveHint": True})
        tool["inputSchema"].setdefault("required", [])
    if "method" in message:
        message.setdefault("params", {})


def reverse(value: Json) -> Json:
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            reverse(each)
    if isinstance(value, dict):
        for name in list(value)[::-1]:
            value[name] = value.pop(name)


class Renamed:
    """Names of another bridge's: `given` here, `own` there."""

    def __init__(self) -> None:
        self.own: dict[Json, Json] = {}

    def __call__(self, own: Json) -> Json:
        given = own + 1_000_000 if isinstance(own, int) else f"another {own}"
        self.own[given] = own
        return given


KEYS, IDS = Renamed(), Renamed()


def rename_inputs(message: Json) -> None:
    if inputs := part(message, "result", "inputRequests"):
        message["result"]["inputRequests"] = {KEYS(name): each for name, each in inputs.items()}


def rename_inputs_back(message: Json) -> None:
    if inputs := part(message, "params", "inputResponses"):
        back = {KEYS.own.get(name, name): each for name, each in inputs.items()}
        message["params"]["inputResponses"] = back


TAKES_DOWN = (
    *("notifications/cancelled", "$/cancel_request"),
    "notifications/elicitation/withdrawn",
)


def rename_ids(message: Json) -> None:
    if "method" in message and "id" in message:
        message["id"] = IDS(message["id"])
    elif message.get("method") in TAKES_DOWN:
        message["params"]["requestId"] = IDS(message["params"]["requestId"])


def rename_ids_back(message: Json) -> None:
    if "method" not in message:
        message["id"] = IDS.own.get(message["id"], message["id"])


def leave(message: Json) -> None:
    """Nothing."""


DIFFERENCES: dict[str, tuple[Edit, Edit]] = {
    "other keys of inputRequests": (rename_inputs, rename_inputs_back),
    "notes in _meta": (add_notes, leave),
    "further capabilities": (add_capabilities, leave),
    "no isError where it is false": (omit_is_error, leave),
    "no mode where it is form": (omit_mode, leave),
    "nothing about itself": (omit_server_info, leave),
    "structured content, too": (add_structured_content, leave),
    "other ids": (rename_ids, rename_ids_back),
    "another order, and spaces": (reverse, leave),
    "defaults written out": (write_defaults, leave),
}


def omit_error(message: Json) -> None:
    if part(message, "result").get("isError") is True:
        del message["result"]["isError"]


def omit_url_mode(message: Json) -> None:
    for params in asked(message):
        if params.get("mode") == "url":
            del params["mode"]


def omit_capability(message: Json) -> None:
    part(message, "result", "capabilities").pop("tools", None)


def omit_subscription(message: Json) -> None:
    part(message, "params", "_meta").pop("io.modelcontextprotocol/subscriptionId", None)


def omit_question(message: Json) -> None:
    inputs = part(message, "result", "inputRequests")
    if len(inputs) > 1:
        inputs.popitem()


def exchange_answers(message: Json) -> None:
    inputs = part(message, "params", "inputResponses")
    inputs.update(zip(inputs, list(inputs.values())[::-1], strict=True))


CHANGES: dict[str, tuple[Edit, Edit]] = {
    "an error that looks like none": (omit_error, leave),
    "a link that looks like a form": (omit_url_mode, leave),
    "a capability less": (omit_capability, leave),
    "a notice of no subscription": (omit_subscription, leave),
    "a question less": (omit_question, leave),
    "answers to each other's questions": (leave, exchange_answers),
}


def edited(line: bytes, edit: Edit) -> bytes:
    try:
        message = json.loads(line)
        edit(message)
    except (ValueError, TypeError, AttributeError):
        return line
    return json.dumps(message, separators=(" ,  ", " : ")).encode()


def carry(source: BufferedReader, sink: IO[bytes], edit: Edit) -> None:
    """Carry lines until the source ends: what comes at once goes on at once."""
    rest = b""
    while block := source.read1():
        *lines, rest = (rest + block).split(b"\n")
        sink.write(b"".join(edited(line, edit) + b"\n" for line in lines))
        sink.flush()
    sink.write(rest)
    sink.close()


def main() -> None:
    said, heard = (DIFFERENCES | CHANGES)[sys.argv[1]]
    command = [sys.executable, "-m", "abp_bridge", *sys.argv[2:]]
    bridge = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert bridge.stdin is not None
    assert isinstance(bridge.stdout, BufferedReader)
    assert isinstance(sys.stdin.buffer, BufferedReader)
    ends = sys.stdin.buffer, bridge.stdin, heard
    threading.Thread(target=carry, args=ends, daemon=True).start()
    carry(bridge.stdout, sys.stdout.buffer, said)
    sys.exit(bridge.wait())


if __name__ == "__main__":
    main()
