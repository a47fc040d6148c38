"""An agent on the official ACP SDK and nothing else: the text of a prompt is a number, and so often
it asks for a permission, one after another.

With a word after the number, each has a card of its own, which is told of before and after it, as
the bridge does it.
"""

from __future__ import annotations

import asyncio
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
    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **rest: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **rest: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="1")

    async def prompt(self, session_id: str, prompt: list[Any], **rest: Any) -> PromptResponse:
        count, *cards = prompt[0].text.split()
        for number in range(int(count)):
            card = f"ask-{number}"
            if cards:
                await self._client.session_update(
                    session_id, start_tool_call(card, "Go on?", kind="other", status="pending")
                )
            asked = ToolCallUpdate(
                tool_call_id=card, title="Go on?", kind="other", status="pending"
            )
            await self._client.request_permission(session_id, asked, OPTIONS)
            if cards:
                await self._client.session_update(
                    session_id, update_tool_call(card, status="completed")
                )
        return PromptResponse(stop_reason="end_turn")


asyncio.run(run_agent(Asker()))  # type: ignore[arg-type]
