"""An ABP app on a pipe that does what a list says, with each call of its only capability.

For fixtures.

Steps: {"ask": request} and {"ask": [request, ...]} at the same time, with "aloud": true the call's
data has the whole answer; {"tell": method, "params": {...}}; {"wait": true} until the call is
cancelled; {"grow": name}: one capability more; {"end": request}: ask, and be gone. What comes of
the last question is the call's data.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

Json = Any

PLAN: Json = {"name": "plan", "description": "Plan a trip"}


class App:
    def __init__(self, steps: list[Json]) -> None:
        self.steps = steps
        self.lock = threading.Lock()
        self.serial = 0
        self.answers: dict[str, Json] = {}
        self.answered = threading.Condition()
        self.capabilities = [PLAN]
        self.cancelled = threading.Event()

    def send(self, *messages: Json, **message: Json) -> None:
        with self.lock:
            sys.stdout.write(
                "".join(
                    json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages or (message,)
                )
            )
            sys.stdout.flush()

    def run(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                with self.answered:
                    self.answers[message["id"]] = message.get("result", message.get("error"))
                    self.answered.notify_all()
                continue
            match message["method"]:
                case "initialize":
                    opened = {
                        "sessionId": "1",
                        "app": {"id": "trip", "name": "Trip planner"},
                        "capabilities": self.capabilities,
                    }
                    self.send(id=message["id"], result=opened)
                case "capabilities/list":
                    self.send(id=message["id"], result=self.capabilities)
                case "capabilities/call":
                    threading.Thread(
                        target=self.call, args=(message["id"], message["params"]), daemon=True
                    ).start()
                case "capabilities/cancel":
                    self.send(id=message["id"], result={})
                    self.cancelled.set()
                case _:
                    self.send(id=message["id"], result={})

    def call(self, id: str, params: Json) -> None:
        operation = params["options"]["callId"]
        data: Json = "done"
        for step in self.steps:
            if "ask" in step:
                requests = step["ask"] if isinstance(step["ask"], list) else [step["ask"]]
                answers = self.ask(requests)
                data = answers if isinstance(step["ask"], list) else answers[0]
                if not step.get("aloud"):
                    data = (
                        [self.short(each) for each in data]
                        if isinstance(data, list)
                        else self.short(data)
                    )
            elif "tell" in step:
                self.send(
                    method=step["tell"],
                    params={
                        **step["params"],
                        **({} if step.get("apart") else {"operationId": operation}),
                    },
                )
            elif "grow" in step:
                self.capabilities = [
                    *self.capabilities,
                    {"name": step["grow"], "description": "One more"},
                ]
                self.send(
                    method="notifications/capabilities/list_changed",
                    params={"added": [step["grow"]]},
                )
            elif "wait" in step:
                self.cancelled.wait(30)
                self.send(
                    id=id,
                    result={
                        "success": False,
                        "cancelled": True,
                        "error": {"code": "CANCELLED", "message": "Stopped."},
                    },
                )
                return
            elif "end" in step:
                self.send(id="q", **step["end"])
                self.cancelled.wait(0.3)  # long enough to be asked
                os._exit(0)
        self.send(id=id, result={"success": True, "data": data})

    def ask(self, requests: list[Json]) -> list[Json]:
        ids = [f"q{self.serial + number + 1}" for number in range(len(requests))]
        self.serial += len(requests)
        self.send(*({"id": id, **request} for id, request in zip(ids, requests, strict=True)))
        with self.answered:
            self.answered.wait_for(lambda: all(each in self.answers for each in ids), 30)
        return [self.answers[each] for each in ids]

    @staticmethod
    def short(answer: Json) -> Json:
        """What the host gets to see of an answer: never a secret."""
        return "answered" if answer.get("success") else answer["error"]["code"]


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        App(json.load(file)).run()
