"""An agent on the official ACP SDK and nothing else: the text of a prompt is a number, and so often
it asks for a permission, one after another.

With a word after the number, each has a card of its own, which is told of before and after it, as
the bridge does it. `acp_agent.py COMMAND ARG...`: what asks is then the app behind this command, as
with the bridge, and gets the answer before the card is told of. It has no bounds, no checks and one
kind of question.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from acp import (
    Client,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    start_tool_call,
    update_tool_call,
)
from acp.schema import PermissionOption, ToolCallUpdate

OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Asker:
    def __init__(self, app: list[str]) -> None:
        self._app = app

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **rest: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **rest: Any) -> NewSessionResponse:
        if self._app:
            pipe = asyncio.subprocess.PIPE
            self._child = await asyncio.create_subprocess_exec(*self._app, stdin=pipe, stdout=pipe)
        return NewSessionResponse(session_id="1")

    async def prompt(self, session_id: str, prompt: list[Any], **rest: Any) -> PromptResponse:
        words, *cards = prompt[0].text.split()
        count = int(words)
        if self._app:
            self._tell("capabilities/call", _call(count))
        for number in range(count):
            question = await self._hear() if self._app else {"params": {"prompt": "Go on?"}}
            card, title = f"ask-{number}", question["params"]["prompt"]
            if cards:
                await self._client.session_update(
                    session_id, start_tool_call(card, title, kind="other", status="pending")
                )
            asked = ToolCallUpdate(tool_call_id=card, title=title, kind="other", status="pending")
            answer = await self._client.request_permission(session_id, asked, OPTIONS)
            if self._app:
                yes = answer.outcome.outcome == "selected" and answer.outcome.option_id == "yes"
                self._write({"id": question["id"], "result": _data(yes)})
            if cards:
                await self._client.session_update(
                    session_id, update_tool_call(card, status="completed")
                )
        if self._app:
            await self._hear()
        return PromptResponse(stop_reason="end_turn")

    # --- the app ---

    def _tell(self, method: str, params: Any) -> None:
        self._write({"id": 1, "method": method, "params": params})

    def _write(self, message: Any) -> None:
        assert self._child.stdin is not None
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
        self._child.stdin.write(line.encode() + b"\n")

    async def _hear(self) -> Any:
        assert self._child.stdout is not None
        return json.loads(await self._child.stdout.readline())


def _call(count: int) -> Any:
    params = {"count": count, "together": 1}
    return {"capability": "ask", "params": params, "options": {"callId": "1"}}


def _data(confirmed: bool) -> Any:
    return {"success": True, "data": {"confirmed": confirmed}}


asyncio.run(run_agent(Asker(sys.argv[1:])))  # type: ignore[arg-type]
