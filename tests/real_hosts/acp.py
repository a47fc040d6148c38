"""The client of an ACP agent, as an editor is one: allows tools once, and shows the forms that the
agent relays from its MCP servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from .program import PATIENCE, Program
from .stage import BRIDGE_ENV, Chat, Json, Stage

CAPABILITIES = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "elicitation": {"form": {}, "url": {}},
}


def allow(params: Json) -> Json:
    """Answer `session/request_permission` with the plain allow."""
    allowed, *_ = (
        option["optionId"] for option in params["options"] if option["kind"] == "allow_once"
    )
    return {"outcome": {"outcome": "selected", "optionId": allowed}}


class Editor(Chat):
    """One session of an agent."""

    def __init__(
        self, stage: Stage, program: Program, app: str, bridge_env: Mapping[str, str]
    ) -> None:
        super().__init__(stage, program)
        client = {"name": "abp-bridge-tests", "version": "0"}
        program.request(
            "initialize",
            {"protocolVersion": 1, "clientCapabilities": CAPABILITIES, "clientInfo": client},
        )
        command, *args = stage.bridge(app)
        env = [
            {"name": name, "value": value} for name, value in {**BRIDGE_ENV, **bridge_env}.items()
        ]
        server = {"name": "abp", "command": command, "args": args, "env": env}
        self._session = program.request(
            "session/new", {"cwd": str(stage.work), "mcpServers": [server]}
        )["sessionId"]
        self._turn: Future[Json] = Future()

    def begin(self, script: str) -> None:
        self._turn = self.program.start(
            "session/prompt",
            {"sessionId": self._session, "prompt": [{"type": "text", "text": script}]},
        )

    def finish(self) -> str:
        reason: str = self._turn.result(PATIENCE)["stopReason"]
        return reason

    def cancel(self) -> None:
        self.program.tell("session/cancel", {"sessionId": self._session})


@contextmanager
def editor(
    stage: Stage,
    command: Sequence[str | Path],
    env: dict[str, str],
    app: str = "demo",
    **bridge_env: str,
) -> Iterator[Editor]:
    """A session with the agent `command`, whose bridge serves `app`; what `bridge_env` sets is the
    bridge's only.
    """
    with Program(
        command,
        cwd=stage.work,
        env=env,
        transcript=stage.folder / "acp.jsonl",
        asks="elicitation/create",
        answers={"session/request_permission": allow},
        stamp={"jsonrpc": "2.0"},
    ) as program:
        yield Editor(stage, program, app, bridge_env)
