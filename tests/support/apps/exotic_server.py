"""`exotic_server.py ERA [LOG]`: an MCP server in which everything is exotic.

`ERA` is `legacy` (it refuses what is modern) or `modern` (it refuses `initialize`). What it hears
is appended to `LOG`. Each result is what the other era's is, with what its own era demands.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

Json = Any

PREFIX = "io.modelcontextprotocol/"
_TABLE: Json = json.loads(Path(__file__).with_name("exotic.json").read_text())
SERVER, CAPABILITIES, ASK, LISTS, PLAIN, FORM, URL, SAMPLING = (
    _TABLE[name]
    for name in ("server", "capabilities", "ask", "lists", "plain", "form", "url", "sampling")
)
BIG: int = SERVER["x-own"]
NAMES = ("two", "url", "sample", "roots", "notes", "caps", "wait", "visit")
TOOLS = [ASK, *({"name": each, "inputSchema": {"type": "object"}} for each in NAMES)]

ASKED: dict[str, list[tuple[str, Json]]] = {
    "ask": [("elicitation/create", FORM)],
    "url": [("elicitation/create", URL)],
    "sample": [("sampling/createMessage", SAMPLING)],
    "roots": [("roots/list", {})],
    "two": [("elicitation/create", FORM), ("elicitation/create", {**FORM, "message": "Q2"})],
}


class Stub:
    def __init__(self, words: Sequence[str], stdin: BinaryIO, stdout: TextIO) -> None:
        self.modern = "modern" in words[:1]
        self.log = open(words[1] if words[1:] else os.devnull, "ab", buffering=0)  # noqa: SIM115
        self.stdin, self.stdout = stdin, stdout
        self.serial = 100
        self.visits = 0
        self.hello: Json = {}
        self.streams: dict[Json, Json] = {}
        self.subscribed: list[str] = []

    def out(self, **message: Json) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), file=self.stdout, flush=True)

    def read(self) -> Json:
        line = self.stdin.readline()
        if not line:
            raise EOFError
        self.log.write(line)
        return json.loads(line)

    def result(self, id: Json, members: Json, *, cached: bool = False) -> None:
        if self.modern:
            kept = {"ttlMs": 0, "cacheScope": "private"} if cached else {}
            meta = {**members.get("_meta", {}), f"{PREFIX}serverInfo": SERVER}
            members = {"resultType": "complete", **members, **kept, "_meta": meta}
        self.out(id=id, result=members)

    def error(self, id: Json, code: int, message: str, data: Json = None) -> None:
        more = {} if data is None else {"data": data}
        self.out(id=id, error={"code": code, "message": message, **more})

    def run(self) -> None:
        while True:
            self.handle(self.read())

    def handle(self, message: Json) -> None:
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            return
        if id is None:
            self.on_notification(method, params)
            return
        envelope = f"{PREFIX}protocolVersion" in params.get("_meta", {})
        if method == "initialize" and self.modern:
            data = {"supported": ["2026-07-28"], "requested": params.get("protocolVersion")}
            self.error(id, -32022, "modern only", data)
        elif envelope != self.modern and method != "initialize":
            self.error(id, -32600, "another era")
        elif method == "initialize":
            self.hello = params
            hello = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {**CAPABILITIES, "tasks": {"list": {}}},
                "serverInfo": SERVER,
                "instructions": "DO THIS",
            }
            self.out(id=id, result=hello)
        elif method == "server/discover" and self.modern:
            found = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": CAPABILITIES,
                "instructions": "DO THIS",
            }
            self.result(id, found, cached=True)
        else:
            self.answer(method, id, params)

    def on_notification(self, method: str, params: Json) -> None:
        if method == "notifications/cancelled":
            self.streams.pop(params["requestId"], None)

    def answer(self, method: str, id: Json, params: Json) -> None:
        if method == "tools/list":
            if "cursor" not in params:
                page = {"tools": TOOLS[:3], "nextCursor": "p2", "_meta": {"l": 1}}
            else:
                page = {"tools": TOOLS[3:]}
            self.result(id, page, cached=True)
        elif method in LISTS:
            self.result(id, LISTS[method], cached=True)
        elif method in PLAIN:
            self.result(id, PLAIN[method])
        elif method == "resources/read":
            if params["uri"] == "stub://a":
                self.result(id, {"contents": [{"uri": "stub://a", "text": "x"}]}, cached=True)
            else:
                code = -32602 if self.modern else -32002
                self.error(id, code, "no such resource", {"uri": params["uri"]})
        elif method == "tools/call":
            self.call(id, params)
        elif method == "subscriptions/listen" and self.modern:
            self.listen(id, params)
        elif method in ("logging/setLevel", "resources/subscribe", "ping") and not self.modern:
            if method == "resources/subscribe":
                self.subscribed.append(params["uri"])
            self.result(id, {})
        else:
            self.error(id, -32601, f"nf {method}", {"keep": 1})

    def listen(self, id: Json, params: Json) -> None:
        self.streams[id] = wanted = params["notifications"]
        told = {"notifications": wanted, "_meta": {f"{PREFIX}subscriptionId": id}}
        self.out(method="notifications/subscriptions/acknowledged", params=told)

    # --- calls ---

    def call(self, id: Json, params: Json) -> None:
        name = params["name"]
        if name in ASKED:
            own = params.get("arguments", {}).get("asks")
            asked = [("elicitation/create", own)] if own else ASKED[name]
            if name == "url" and not self.modern:
                asked = [("elicitation/create", {**URL, "elicitationId": "E1"})]
            self.ask(id, params, asked)
        elif name == "notes":
            self.notes(params)
            self.done(id, "noted")
        elif name == "caps":
            hello = (
                {
                    "capabilities": params["_meta"].get(f"{PREFIX}clientCapabilities"),
                    "clientInfo": params["_meta"].get(f"{PREFIX}clientInfo"),
                }
                if self.modern
                else self.hello
            )
            self.done(id, {"caps": hello["capabilities"], "client": hello["clientInfo"]})
        elif name == "visit":
            given = params.get("arguments", {})
            self.visit(id, given.get("links", 1))
        elif name != "wait":  # which is answered never
            self.error(id, -32602, "no such tool", {"x": 1})

    def done(self, id: Json, what: Json) -> None:
        text = {"type": "text", "text": json.dumps(what), "annotations": {"priority": 1}}
        members = {
            "content": [{**text, "_meta": {"c": 1}}],
            "structuredContent": {"r": what},
            "isError": False,
            "_meta": {"res": BIG},
            "x-own": None,
        }
        self.result(id, members)

    def ask(self, id: Json, params: Json, asked: list[tuple[str, Json]]) -> None:
        if not self.modern:
            answers = self.exchange(asked)
        elif "requestState" not in params:
            keys = [f"k{number}" for number in range(len(asked))]
            requests = {
                key: {"method": method, "params": each}
                for key, (method, each) in zip(keys, asked, strict=True)
            }
            self.require(id, requests, f'{json.dumps(params["name"])}\u2028"ü\\')
            return
        else:
            assert params["requestState"] == f'{json.dumps(params["name"])}\u2028"ü\\'
            answers = list(params["inputResponses"].values())
        self.done(id, answers if len(answers) > 1 else answers[0])

    def visit(self, id: Json, links: int = 1) -> None:
        """Want addresses visited first, once."""
        self.visits += 1
        if self.visits > 1:
            self.done(id, "visited")
        else:
            asked = [{**URL, "elicitationId": f"E{number + 1}"} for number in range(links)]
            self.error(id, -32042, "visit first", {"elicitations": asked})

    def require(self, id: Json, requests: Json, state: str) -> None:
        asked = {"inputRequests": requests, "requestState": state}
        self.out(id=id, result={"resultType": "input_required", **asked})

    def exchange(self, asked: list[tuple[str, Json]]) -> list[Json]:
        """Ask all at once: the answers, in that order; what was refused as it came."""
        open_: dict[Json, Json] = {}
        for method, params in asked:
            self.serial += 1
            open_[self.serial] = None
            asked_now = {"id": self.serial, "method": method, "params": params}
            print(
                json.dumps({"jsonrpc": "2.0", **asked_now}), file=self.stdout
            )  # what is asked at once is one write
        self.stdout.flush()
        while any(each is None for each in open_.values()):
            message = self.read()
            if "method" not in message and message.get("id") in open_:
                open_[message["id"]] = message.get("result", message.get("error"))
            else:
                self.handle(message)
        return list(open_.values())

    def notes(self, params: Json) -> None:
        meta = params.get("_meta", {})
        if (token := meta.get("progressToken")) is not None:
            told = {"progressToken": token, "progress": 1, "total": 3, "message": "PM"}
            self.out(method="notifications/progress", params={**told, "_meta": {"z": 1}})
        if not self.modern or f"{PREFIX}logLevel" in meta:
            log = {"level": "warning", "logger": "L", "data": {"d": BIG}}
            self.out(method="notifications/message", params=log)
        for each in ("tools", "prompts", "resources"):
            self.tell(f"notifications/{each}/list_changed", f"{each}ListChanged", True, {})
        self.tell(
            "notifications/resources/updated",
            "resourceSubscriptions",
            "stub://a",
            {"uri": "stub://a", "_meta": {"u": 1}},
        )
        self.out(method="notifications/vendor/x", params={"k": BIG})
        if not self.modern:
            complete = {"elicitationId": "E1"}
            self.out(method="notifications/elicitation/complete", params=complete)

    def tell(self, method: str, word: str, wanted: Json, params: Json) -> None:
        if not self.modern:
            if "uri" not in params or params["uri"] in self.subscribed:
                self.out(method=method, **({"params": params} if params else {}))
            return
        for id, stream in self.streams.items():
            has = stream.get(word)
            if has == wanted or (isinstance(has, list) and wanted in has):
                meta = {**params.get("_meta", {}), f"{PREFIX}subscriptionId": id}
                self.out(method=method, params={**params, "_meta": meta})


def serve(words: Sequence[str], stdin: BinaryIO, stdout: TextIO) -> None:
    """Answer requests until `stdin` ends."""
    stub = Stub(words, stdin, stdout)
    with stub.log, suppress(EOFError):
        stub.run()


if __name__ == "__main__":
    serve(sys.argv[1:], sys.stdin.buffer, sys.stdout)
