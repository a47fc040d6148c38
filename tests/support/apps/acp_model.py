"""`acp_model.py LOG [HOW...]`: an ACP agent without a model.

The last word of a prompt is what it does, else it answers with the prompt. Sessions are kept in
`STAND_IN_SESSIONS`; `HOW` is `load`, `resume`, `images`. What it reads is appended to `LOG`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

Json = Any

LOG, *HOW = sys.argv[1:]
KEPT = Path(os.getcwd(), os.environ.get("STAND_IN_SESSIONS", ""))
MODES = ["build", "plan", "read-only"]
OPTIONS = [
    {"optionId": "p-1", "name": "Yes", "kind": "allow_once"},
    {"optionId": "p-2", "name": "Never", "kind": "reject_always"},
    {"optionId": "p-3", "name": "No", "kind": "reject_once"},
]
CALL = {"toolCallId": "t-1", "title": "rm -r x", "kind": "execute", "rawInput": {"command": "rm"}}
ASKED: dict[str, Json] = {
    "session/request_permission": {"toolCall": {"toolCallId": "t-1"}, "options": OPTIONS},
    "elicitation/create": {
        "mode": "form",
        "message": "Which?",
        "requestedSchema": {"type": "object", "properties": {}},
    },
    "fs/read_text_file": {"path": "/etc/passwd"},
}
opened = [""]  # the session, once there is one


def write(**message: Json) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def read() -> Json:
    line = sys.stdin.readline()
    with open(LOG, "a") as heard:
        heard.write(line or '{"end": true}\n')
    if not line:
        sys.exit(0)
    return json.loads(line)


def update(what: str, **more: Json) -> None:
    told = {"sessionUpdate": what, **more}
    write(method="session/update", params={"sessionId": opened[0], "update": told})


def say(words: str, id: str = "m-1", kind: str = "agent_message_chunk") -> None:
    named = {"messageId": id} if id else {}
    update(kind, content={"type": "text", "text": words}, **named)


def ask(method: str) -> Json:
    write(id=method, method=method, params={"sessionId": opened[0], **ASKED[method]})
    while (message := read()).get("id") != method:
        pass
    return message.get("result") or message["error"]["code"]


def modes() -> Json:
    if "options" in HOW:
        values = [{"value": each, "name": each} for each in MODES]
        shared = {"type": "select", "name": "x"}
        mode = {"id": "how", "category": "mode", "currentValue": "build", "options": values}
        model = {"id": "m", "category": "model", "currentValue": "large", "options": []}
        return {"configOptions": [{**shared, **each} for each in (mode, model)]}
    listed = [{"id": each, "name": each} for each in MODES]
    return {"modes": {"currentModeId": "build", "availableModes": listed}}


def turn(words: str) -> str:
    """What the last word of a prompt has it do: the stop reason."""
    match words.rsplit(maxsplit=1)[-1]:
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say(str(os.getpid()))
            time.sleep(1_000)
        case "wait":
            say(str(os.getpid()))
            while read().get("method") != "session/cancel":
                pass
            return "cancelled"
        case "die":
            print("out of memory", file=sys.stderr)
            sys.exit(3)
        case "ask":
            update("tool_call", status="pending", **CALL)
            answers = {method: ask(method) for method in ASKED}
            update("tool_call_update", toolCallId="t-1", status="failed")
            say(json.dumps(answers))
        case "words.":  # as a fixture asks: it wants permission first, and answers without
            ask("session/request_permission")
            say("Good journey to you.")
        case "use":
            update("tool_call", status="completed", **CALL)
            say("it is gone")
        case _:
            turns = len((KEPT / opened[0]).read_text().splitlines())
            told = {"prompt": words, "cwd": os.listdir(), "env": sorted(os.environ)}
            say("Warning: this model is old.", id="")
            answer = json.dumps({**told, "turns": turns})
            for piece in (answer[:9], answer[9:]):
                say(piece)
    return "end_turn"


def prompt(id: Json, words: str) -> None:
    with (KEPT / opened[0]).open("a") as kept:
        kept.write("turn\n")
    reason = turn(words)
    update("usage_update", used=5, size=9, cost={"amount": 0.5, "currency": "USD"})
    tokens = {"inputTokens": 2, "outputTokens": 3, "totalTokens": 5}
    write(id=id, result={"stopReason": reason, "usage": tokens})


def handle(message: Json) -> None:
    id, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            has: Json = {"loadSession": "load" in HOW}
            if "images" in HOW:
                has["promptCapabilities"] = {"image": True}
            if "resume" in HOW:
                has["sessionCapabilities"] = {"resume": {}}
            about = {"name": "stand-in", "version": "9.9"}
            write(
                id=id, result={"protocolVersion": 1, "agentCapabilities": has, "agentInfo": about}
            )
        case "session/new":
            session = opened[0] = "s-1" if "named" in HOW else str(uuid.uuid4())
            (KEPT / session).touch()
            write(id=id, result={"sessionId": session, **modes()})
        case "session/load" | "session/resume" as method:
            session = opened[0] = params["sessionId"]
            if not (KEPT / session).exists():
                error = {"code": -32002, "message": f"no {session}"}
                write(id=id, error=error)
                return
            if method == "session/load":
                say("what was asked before", "m-0", "user_message_chunk")
                say("what was said before", "m-0")
            write(id=id, result=modes())
        case "session/prompt":
            prompt(id, params["prompt"][0]["text"])
        case method if method is not None and id is not None:
            write(id=id, result={"configOptions": []} if "config" in method else {})


def main() -> None:
    while True:
        handle(read())


if __name__ == "__main__":
    main()
