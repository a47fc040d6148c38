"""`unruly_agent.py LOG [HOW]`: an ACP agent that is hardly one, in plain JSON. It starts as `HOW`
says, each prompt does what its text says, and what it hears is appended to `LOG`. What it asks in
"retract" it takes back as soon as there is a file `LOG.go`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

Json = Any

LOG, HOW = sys.argv[1], "".join(sys.argv[2:])
_TABLE: Json = json.loads(Path(__file__).with_name("unruly.json").read_text())["agent"]
LEAVE: Json = _TABLE["leave"]
ENDS: Json = _TABLE["ends"]  # of prompts that do no more
MIB = 2**20
answers: dict[Json, Json] = {}


def write(**message: Json) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(kind: str, **more: Json) -> None:
    told = {"sessionUpdate": kind, **more}
    write(method="session/update", params={"sessionId": "u-1", "update": told})


def say(words: str, **more: Json) -> None:
    update("agent_message_chunk", content={"type": "text", "text": words}, **more)


def read() -> Json:
    line = sys.stdin.readline()
    with open(LOG, "a") as heard:
        heard.write(line or '{"end": true}\n')
    if not line:
        sys.exit(0)
    return json.loads(line)


def ask(id: Json, params: Json, method: str = "session/request_permission") -> None:
    write(id=id, method=method, params=params)


def answer(id: Json) -> Json:
    while id not in answers:
        handle(read())
    return answers.pop(id)


def until(method: str) -> None:
    while (message := read()).get("method") != method:
        handle(message)


def end(id: Json, reason: Json = "end_turn") -> None:
    write(id=id, result={"stopReason": reason})


def babble() -> None:
    print("Thinking...", flush=True)
    print("[1, 2]", flush=True)
    for message in _TABLE["babble"]:
        write(**message)


def prompt(id: Json, words: str) -> None:
    match words:
        case _ if words in ENDS:
            say("so far")
            write(id=id, **ENDS[words])
        case "flood":
            for _ in range(17):
                say("x" * MIB)
            until("session/cancel")
            end(id, "cancelled")
        case "babble":
            babble()
            say("said")
            end(id)
        case "ask oddly":
            for number, params in enumerate(_TABLE["odd"]):
                ask(number, params)
            say(json.dumps([answer(number) for number in range(4)]))
            ask("f", {"message": 5}, "elicitation/create")
            ask("t", {"sessionId": "u-1", "command": "rm"}, "terminal/create")
            say(json.dumps([answer("f"), answer("t")]))
            end(id)
        case "retract":
            ask("r", LEAVE)
            while not Path(f"{LOG}.go").exists():  # nobody can tell it while it plays
                time.sleep(0.01)
            write(method="$/cancel_request", params={"requestId": "r"})
            say(json.dumps(answer("r")))
            end(id)
        case "ask late":
            until("session/cancel")
            ask("late", LEAVE)
            answer("late")
            end(id, "cancelled")
        case "leave":
            ask("q", LEAVE)
            answer("q")
        case "hang":
            pass
        case "endless":
            print("x" * 20_000, end="", flush=True)
        case "die":
            print("the disk is on fire", file=sys.stderr, flush=True)
            sys.exit(7)
        case _:
            say(f"{words} done")
            end(id)


def handle(message: Json) -> None:
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method is None:
        answers[id] = message.get("result", message.get("error"))
    elif method == "initialize" and HOW != "mute":
        methods = [{"id": "browser", "name": "Sign in with a browser"}]
        version = 2 if HOW == "new" else 1
        write(id=id, result={"protocolVersion": version, "authMethods": methods})
    elif method == "session/new":
        if HOW == "signed out":
            write(id=id, error={"code": -32000, "message": "Authentication required"})
        else:
            write(id=id, result={} if HOW == "nameless" else {"sessionId": "u-1"})
    elif method == "session/prompt":
        prompt(id, params["prompt"][0]["text"])


def main() -> None:
    while True:
        handle(read())


if __name__ == "__main__":
    main()
