"""An ACP agent without a model: it plays the JSON steps of a prompt and says what came of each.

    {"elicit": params}               ask; with "of": "prompt" for the prompt, not the session
    {"burst": params, "count": 100}  ask so often at once: the last answer
    {"line": text, "id": id}         write any line: what comes for that id
    {"withdraw": params}             ask, and take the question back at once
    {"call": tool, "arguments": {}}  "and": "leave" does not wait, "of" names another session
    {"say": words}, {"murmur": size} on stdout, or so many bytes on stderr
    {"wait": true}                   until the turn is cancelled, or `_go` comes
    {"deaf": seconds}                ask for a file, and read nothing for so long
    {"strays": true}                 what came that was not asked for
    {"die": code}

A `session/new` with `_meta` {"ask": params} is answered after that question; {"name": name} names
the session. What it was sent as `initialize` and `session/new` is in the `_meta` of its answers,
byte for byte, unless it is started with `--plain`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, TextIO

sys.path.insert(0, str(Path(__file__).parents[2]))  # as pytest has it

from support import in_process
from support.peer import PATIENCE, RpcPeer

Json = Any


class Tools(RpcPeer):
    """The MCP server of a session, launched as its entry says."""

    def __init__(self, entry: Json) -> None:
        variables = {each["name"]: each["value"] for each in entry["env"]}
        command = [entry["command"], *entry["args"]]
        kept = {"PATH": os.environ["PATH"], "ABP_TOOL_CACHE": "off"}
        super().__init__(command, env={**kept, **variables})
        self._ids = count(0)  # as fixtures have it
        client = {"name": "acp_agent", "version": "1"}
        opened = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.result("initialize", opened)
        self.send("notifications/initialized")

    def call(self, called: Json) -> Json:
        """What came of a call, and the methods that were heard until then."""
        try:
            result = self.result("tools/call", called)
        except AssertionError as problem:  # refused, or the bridge is gone: that came of it
            return {"failed": str(problem)}
        heard = [message["method"] for message in self._passed if "method" in message]
        return {"text": result["content"][0]["text"], "told": heard}

    def leave(self, called: Json) -> None:
        self.begin("tools/call", called)


class Agent:
    def __init__(self, words: Sequence[str], stdin: BinaryIO, stdout: TextIO) -> None:
        self.is_plain = "--plain" in words
        self.stdin, self.stdout = stdin, stdout
        self.waiting: dict[Json, Future[Json]] = {}
        self.ids = count(0)
        self.lock = threading.Lock()
        self.strays: list[Json] = []
        self.servers: dict[str, Json] = {}
        self.tools: dict[str, Tools] = {}
        self.cancelled: dict[str, threading.Event] = {}
        self.going: dict[str, threading.Event] = {}

    def send(self, **message: Json) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}))

    def write(self, line: str) -> None:
        # A client that left hears nothing.
        with self.lock, contextlib.suppress(BrokenPipeError, ValueError):
            self.stdout.write(line + "\n")
            self.stdout.flush()

    def ask(self, method: str, params: Json) -> tuple[Json, Future[Json]]:
        id = next(self.ids)
        future = self.waiting[id] = Future()
        self.send(id=id, method=method, params=params)
        return id, future

    def request(self, method: str, params: Json) -> Json:
        return self.ask(method, params)[1].result(PATIENCE)

    def run(self) -> None:
        for line in self.stdin:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            match message.get("method") if isinstance(message, dict) else "":
                case "initialize":
                    result = {
                        "protocolVersion": message["params"]["protocolVersion"],
                        "agentInfo": {"name": "fake", "version": "1"},
                    }
                    self.send(id=message["id"], result=result | self.meta(line=line.decode()))
                case "session/load" | "session/resume":
                    self.servers[message["params"]["sessionId"]] = message["params"]["mcpServers"]
                    self.send(id=message["id"], result={})
                case "session/new" | "session/fork":
                    threading.Thread(
                        target=self.open, args=(message, line.decode()), daemon=True
                    ).start()
                case "session/close" | "session/delete":
                    self.send(id=message["id"], result={})
                case "session/prompt":
                    self.cancelled[message["params"]["sessionId"]] = threading.Event()
                    self.going[message["params"]["sessionId"]] = threading.Event()
                    threading.Thread(
                        target=self.prompt, args=(message["id"], message["params"]), daemon=True
                    ).start()
                    steps = json.loads(message["params"]["prompt"][0]["text"])
                    time.sleep(sum(step.get("deaf", 0) for step in steps))
                case "session/cancel":
                    self.cancelled[message["params"]["sessionId"]].set()
                    self.going[message["params"]["sessionId"]].set()
                case "_go":
                    self.going[message["params"]["sessionId"]].set()
                case None if (future := self.waiting.pop(message.get("id"), None)) is not None:
                    future.set_result(message)
                case None:
                    self.strays.append(message)
        self.end()

    def end(self) -> None:
        for future in self.waiting.values():
            future.cancel()
        for going in self.going.values():
            going.set()
        for tools in self.tools.values():
            with tools:
                tools.end()

    def open(self, message: Json, line: str) -> None:
        meta = message["params"].get("_meta", {})
        name = meta.get("name", f"s{len(self.servers) + 1}")
        self.servers[name] = message["params"].get("mcpServers", [])
        early = (
            self.request("elicitation/create", {"sessionId": name, **meta["ask"]})
            if "ask" in meta
            else None
        )
        self.send(id=message["id"], result={"sessionId": name, **self.meta(line=line, early=early)})

    def meta(self, **said: Json) -> Json:
        return {} if self.is_plain else {"_meta": said}

    def prompt(self, id: Json, params: Json) -> None:
        session = params["sessionId"]
        for step in json.loads(params["prompt"][0]["text"]):
            try:
                came = self.play(session, step, id)
            except CancelledError:  # the client left
                return
            self.say(session, json.dumps(came))
        stop = "cancelled" if self.cancelled[session].is_set() else "end_turn"
        self.send(id=id, result={"stopReason": stop})

    def play(self, session: str, step: Json, prompt: Json) -> Json:
        if "elicit" in step:
            scope = {"requestId": prompt} if "of" in step else {"sessionId": session}
            response = self.request("elicitation/create", {**scope, **step["elicit"]})
            return response.get("result") or response["error"]
        if "burst" in step:
            asked = [
                self.ask("elicitation/create", {"sessionId": session, **step["burst"]})[1]
                for _ in range(step["count"])
            ]
            return asked[-1].result(PATIENCE)
        if "line" in step:
            future = self.waiting[step["id"]] = Future()
            self.write(step["line"])
            return future.result(PATIENCE)
        if "withdraw" in step:
            id, future = self.ask("elicitation/create", {"sessionId": session, **step["withdraw"]})
            self.send(method="$/cancel_request", params={"requestId": id})
            return future.result(PATIENCE).get("error")
        if "call" in step:
            session = step.get("of", session)
            if session not in self.tools:
                (entry,) = (
                    each for each in self.servers[session] if each["name"].startswith("abp")
                )
                self.tools[session] = Tools(entry)
            called = {"name": step["call"], "arguments": step.get("arguments", {})}
            if "and" in step:
                return self.tools[session].leave(called)
            return self.tools[session].call(called)
        if "murmur" in step:
            sys.stderr.write("m" * step["murmur"] + "\n")
            sys.stderr.flush()
        if "wait" in step:
            self.going[session].wait(PATIENCE)
        if "deaf" in step:
            self.ask("fs/read_text_file", {"sessionId": session, "path": "/large"})
        if "strays" in step:
            return self.strays
        if "die" in step:
            os._exit(step["die"])
        return step.get("say")

    def say(self, session: str, words: str) -> None:
        update = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": words},
        }
        self.send(method="session/update", params={"sessionId": session, "update": update})


def serve(words: Sequence[str], stdin: BinaryIO, stdout: TextIO) -> None:
    """Play prompts until `stdin` ends."""
    Agent(words, stdin, stdout).run()


if __name__ == "__main__":
    in_process.enabled = False
    serve(sys.argv[1:], sys.stdin.buffer, sys.stdout)
