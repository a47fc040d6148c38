"""An MCP server for tests, with the standard library only: it asks as real servers do, and does
what they do with each answer. What it reads is appended to the file argv[1], what it does to
argv[2].

Its tools: `mongodb`, `okta`, `azure`, `fastmcp`, `supabase` each ask before a deed, as the server
of that name; `ask` sends the request in its arguments and returns the response, `report` and
`names` ask and have their results apart, as structured content, which is a list of the second's;
`say` writes the lines in them as they are.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = Any

READ = Path(sys.argv[1]).open("ab", buffering=0)  # noqa: SIM115
DEEDS = Path(sys.argv[2])
LISTED: Json = [
    {"name": "mongodb", "annotations": {"readOnlyHint": False, "destructiveHint": True}},
    {"name": "okta"},
    {"name": "azure"},
    {"name": "fastmcp"},
    {"name": "supabase"},
    {"name": "ask"},
    {
        "name": "report",
        "outputSchema": {
            "type": "object",
            "properties": {"result": {"type": "string"}},
            "additionalProperties": False,
        },
    },
    {"name": "names"},
    {"name": "look", "annotations": {"readOnlyHint": True}},
    {"name": "say", "annotations": {"destructiveHint": False}},
]
TOOLS = [{"inputSchema": {"type": "object"}, **each} for each in LISTED]
told: Json = {}  # the params of initialize
serial = 0
answers: dict[Json, Json] = {}


class Gone(Exception):
    """The host has left, or answered with an error: what an SDK raises in a handler."""


def write(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read() -> Json:
    line = sys.stdin.buffer.readline()
    if not line:
        raise Gone
    READ.write(line)
    try:
        return json.loads(line)
    except ValueError:
        return None


def request(method: str, params: Json, **more: Json) -> Json:
    """Ask the host: the whole response."""
    global serial
    id, serial = serial, serial + 1
    write({"id": id, "method": method, "params": params, **more})
    while id not in answers:
        handle(read())
    return answers.pop(id)


def elicit(message: str, properties: Json, **more: Json) -> Json:
    schema = {"type": "object", "properties": properties, **more}
    response = request("elicitation/create", {"message": message, "requestedSchema": schema})
    if "error" in response:
        raise Gone(response["error"]["message"])
    return response["result"]


def can_ask() -> bool:
    return "elicitation" in told["capabilities"]


def mongodb(arguments: Json) -> Json:
    if can_ask():
        names = {"enum": ["Yes", "No"], "enumNames": ["Yes, I confirm", "No, I do not confirm"]}
        asked = {"confirmation": {"type": "string", "title": "Confirm?", **names}}
        given = elicit("**Drop** the database `test`?", asked, required=["confirmation"])
        if given["action"] != "accept" or given["content"].get("confirmation") != "Yes":
            return "The user did not confirm"
    return do("dropDatabase")


def okta(arguments: Json) -> Json:
    try:
        if can_ask():
            asked = {"confirm": {"type": "boolean", "description": "Set to true to confirm"}}
            given = elicit("Deactivate the user?", asked, required=["confirm"])
            if given["action"] != "accept" or not given["content"].get("confirm", True):
                return "cancelled"
    except Gone:
        pass
    return do("deactivate")


def azure(arguments: Json) -> Json:
    if not can_ask():
        return "client does not support elicitation"
    options = [{"const": "accept", "title": "Approve"}, {"const": "reject", "title": "Reject"}]
    given = elicit("Read the secret?", {"decision": {"type": "string", "oneOf": options}})
    return do("secret") if given["action"] == "accept" else f"cancelled ({given['action']})"


def fastmcp(arguments: Json) -> Json:
    given = elicit("Name?", {"value": {"type": "string", "title": "Value"}}, required=["value"])
    return do(given["content"]["value"]) if given["action"] == "accept" else given["action"]


def supabase(arguments: Json) -> Json:
    given = elicit("Run `drop table t`?", {})
    return do("sql") if given["action"] == "accept" else given["action"]


def ask(arguments: Json) -> Json:
    return request(**arguments)


def say(arguments: Json) -> Json:
    for line in arguments["lines"]:
        sys.stdout.buffer.write(line.encode("latin-1"))
    sys.stdout.flush()
    return "said"


def do(deed: str) -> str:
    with DEEDS.open("a") as deeds:
        deeds.write(f"{deed}\n")
    return f"done: {deed}"


WORK: dict[str, Callable[[Json], Json]] = {
    each.__name__: each for each in (mongodb, okta, azure, fastmcp, supabase, ask, say)
}
WORK |= {"look": ask, "report": supabase, "names": supabase}


def call(id: Json, params: Json) -> None:
    try:
        result, wrong = WORK[params["name"]](params.get("arguments", {})), False
    except Gone as problem:
        result, wrong = str(problem), True
    text = result if isinstance(result, str) else json.dumps(result)
    made: Json = {"content": [{"type": "text", "text": text}], "isError": wrong}
    apart: Json = {"report": {"result": text}, "names": [text]}.get(params["name"])
    write({"id": id, "result": made | ({"structuredContent": apart} if apart else {})})


def handle(message: Json) -> None:
    if not isinstance(message, dict):
        return
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        answers[id] = message
    elif method == "initialize":
        told.update(params)
        info = {"name": "stub", "version": "1"}
        has = {"tools": {"listChanged": True}, "experimental": {"vendor/x": {"a": 1}}}
        version = params["protocolVersion"]
        write(
            {
                "id": id,
                "result": {"protocolVersion": version, "capabilities": has, "serverInfo": info},
            }
        )
    elif method == "tools/list":
        write({"id": id, "result": {"tools": TOOLS}})
    elif method == "tools/call" and params["name"] in WORK:
        call(id, params)
    elif method == "crash":
        os._exit(7)
    elif id is not None:
        write({"id": id, "error": {"code": -32601, "message": method, "data": {"keep": 1}}})


def main() -> None:
    try:
        while True:
            handle(read())
    except Gone:
        pass


main()
