"""A raw MCP host of either kind of revision, for tests of what is between it and a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.apps.exotic_server import BIG
from support.harness import RawHost
from support.mcp_messages import ANSWERS, ASKABLE, CLIENT, META, STATELESS

Json = Any


class Host(RawHost):
    """A host of either kind, which answers what it is asked as `ANSWERS` says."""

    client = CLIENT
    stateless = False
    capabilities: Json = ASKABLE
    answers: Json = ANSWERS

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], log: Path | None = None
    ) -> None:
        super().__init__(command=command, env=env, log=log)

    def begin(self, method: str, params: Json = None) -> int:
        if self.stateless:
            meta = {
                f"{META}protocolVersion": STATELESS,
                f"{META}clientCapabilities": self.capabilities,
                f"{META}clientInfo": CLIENT,
            }
            given = params or {}
            params = {**given, "_meta": {**given.get("_meta", {}), **meta}}
        return super().begin(method, params)

    def shake_hands(self) -> Json:
        if self.stateless:
            return self.request("server/discover")
        return self.initialize(**self.capabilities)

    def call(self, name: str, asked: list[Json] | None = None, **more: Json) -> Json:
        """Call a tool and answer what it asks, which is added to `asked`: the response."""
        asked = [] if asked is None else asked
        params = {"name": name, "arguments": {"a": [1.5, BIG]}, **more}
        ids = [self.begin("tools/call", params)]
        while True:
            message = self.until(
                lambda message: message.get("id") in ids or {"id", "method"} <= {*message}
            )
            if "method" in message:
                asked.append(message)
                self.reply(message["id"], self.answers[message["method"]])
                continue
            result = message.get("result", {})
            if result.get("resultType") != "input_required":
                return message
            asked.extend(result["inputRequests"].values())
            answers = {
                key: self.answers[each["method"]] for key, each in result["inputRequests"].items()
            }
            retry = {"requestState": result["requestState"], "inputResponses": answers}
            ids.append(self.begin("tools/call", {**params, **retry}))
