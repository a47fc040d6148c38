"""An MCP server for tests, with the standard library only: it asks as real servers do, and does
what they do with each answer: `mcp_server.py READ DEEDS`. It appends what it reads to the file
`READ`, and what it does to `DEEDS`.

Its tools: `mongodb`, `okta`, `azure`, `fastmcp`, `supabase` each ask before a deed, as the server
of that name; `ask` sends the request in its arguments and returns the response, `report` and
`names` ask and have their results apart, as structured content, which is a list of the second's;
`say` writes the lines in them as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

Json = Any

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


class Gone(Exception):
    """The host has left, or answered with an error: what an SDK raises in a handler."""


class Server:
    def __init__(self, log: BinaryIO, deeds: Path, stdin: BinaryIO, stdout: TextIO) -> None:
        self.log, self.deeds = log, deeds
        self.stdin, self.stdout = stdin, stdout
        self.told: Json = {}  # the params of initialize
        self.serial = 0
        self.answers: dict[Json, Json] = {}
        own = (self.mongodb, self.okta, self.azure, self.fastmcp, self.supabase, self.ask, self.say)
        self.work = {each.__name__: each for each in own}
        self.work |= {"look": self.ask, "report": self.supabase, "names": self.supabase}

    def write(self, message: Json) -> None:
        self.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.stdout.flush()

    def read(self) -> Json:
        line = self.stdin.readline()
        if not line:
            raise Gone
        self.log.write(line)
        try:
            return json.loads(line)
        except ValueError:
            return None

    def request(self, method: str, params: Json, **more: Json) -> Json:
        """Ask the host: the whole response."""
        id, self.serial = self.serial, self.serial + 1
        self.write({"id": id, "method": method, "params": params, **more})
        while id not in self.answers:
            self.handle(self.read())
        return self.answers.pop(id)

    def elicit(self, message: str, properties: Json, **more: Json) -> Json:
        schema = {"type": "object", "properties": properties, **more}
        response = self.request(
            "elicitation/create", {"message": message, "requestedSchema": schema}
        )
        if "error" in response:
            raise Gone(response["error"]["message"])
        return response["result"]

    def can_ask(self) -> bool:
        return "elicitation" in self.told["capabilities"]

    def mongodb(self, arguments: Json) -> Json:
        if self.can_ask():
            names = {"enum": ["Yes", "No"], "enumNames": ["Yes, I confirm", "No, I do not confirm"]}
            asked = {"confirmation": {"type": "string", "title": "Confirm?", **names}}
            given = self.elicit("**Drop** the database `test`?", asked, required=["confirmation"])
            if given["action"] != "accept" or given["content"].get("confirmation") != "Yes":
                return "The user did not confirm"
        return self.do("dropDatabase")

    def okta(self, arguments: Json) -> Json:
        try:
            if self.can_ask():
                asked = {"confirm": {"type": "boolean", "description": "Set to true to confirm"}}
                given = self.elicit("Deactivate the user?", asked, required=["confirm"])
                if given["action"] != "accept" or not given["content"].get("confirm", True):
                    return "cancelled"
        except Gone:
            pass
        return self.do("deactivate")

    def azure(self, arguments: Json) -> Json:
        if not self.can_ask():
            return "client does not support elicitation"
        options = [{"const": "accept", "title": "Approve"}, {"const": "reject", "title": "Reject"}]
        given = self.elicit("Read the secret?", {"decision": {"type": "string", "oneOf": options}})
        return (
            self.do("secret") if given["action"] == "accept" else f"cancelled ({given['action']})"
        )

    def fastmcp(self, arguments: Json) -> Json:
        given = self.elicit(
            "Name?", {"value": {"type": "string", "title": "Value"}}, required=["value"]
        )
        return (
            self.do(given["content"]["value"]) if given["action"] == "accept" else given["action"]
        )

    def supabase(self, arguments: Json) -> Json:
        given = self.elicit("Run `drop table t`?", {})
        return self.do("sql") if given["action"] == "accept" else given["action"]

    def ask(self, arguments: Json) -> Json:
        return self.request(**arguments)

    def say(self, arguments: Json) -> Json:
        for line in arguments["lines"]:
            self.stdout.buffer.write(line.encode("latin-1"))
        self.stdout.flush()
        return "said"

    def do(self, deed: str) -> str:
        with self.deeds.open("a") as deeds:
            deeds.write(f"{deed}\n")
        return f"done: {deed}"

    def call(self, id: Json, params: Json) -> None:
        try:
            result, wrong = self.work[params["name"]](params.get("arguments", {})), False
        except Gone as problem:
            result, wrong = str(problem), True
        text = result if isinstance(result, str) else json.dumps(result)
        made: Json = {"content": [{"type": "text", "text": text}], "isError": wrong}
        apart: Json = {"report": {"result": text}, "names": [text]}.get(params["name"])
        self.write({"id": id, "result": made | ({"structuredContent": apart} if apart else {})})

    def handle(self, message: Json) -> None:
        if not isinstance(message, dict):
            return
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            self.answers[id] = message
        elif method == "initialize":
            self.told.update(params)
            info = {"name": "stub", "version": "1"}
            has = {"tools": {"listChanged": True}, "experimental": {"vendor/x": {"a": 1}}}
            version = params["protocolVersion"]
            self.write(
                {
                    "id": id,
                    "result": {"protocolVersion": version, "capabilities": has, "serverInfo": info},
                }
            )
        elif method == "tools/list":
            self.write({"id": id, "result": {"tools": TOOLS}})
        elif method == "tools/call" and params["name"] in self.work:
            self.call(id, params)
        elif method == "crash":
            raise SystemExit(7)
        elif id is not None:
            self.write(
                {"id": id, "error": {"code": -32601, "message": method, "data": {"keep": 1}}}
            )


def serve(words: Sequence[str], stdin: BinaryIO, stdout: TextIO) -> None:
    """Answer requests until `stdin` ends."""
    with open(words[0], "ab", buffering=0) as log:
        server = Server(log, Path(words[1]), stdin, stdout)
        try:
            while True:
                server.handle(server.read())
        except Gone:
            pass


if __name__ == "__main__":
    serve(sys.argv[1:], sys.stdin.buffer, sys.stdout)
