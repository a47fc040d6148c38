"""`sdk_agent.py LOG [COMMAND...]`: an ACP agent without a model, made with the official SDK. It
offers each COMMAND, plays the steps that a prompt has as JSON, and says what came of those that
ask; any other prompt it says back. What passes on its pipes is appended to `LOG`, a line each.

Steps, each an object of one member: `say`; `update` (any of a session's); `permit` and `elicit`
(their parameters); `read` (a path, of the client's); `commands` (their names); `wait` (until it is
cancelled); `stop` (a stop reason).
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.streams import FlowControlMixin, StreamReaderProtocol
from typing import Any

import acp
from acp import schema

Json = Any

ABOUT = schema.Implementation(name="worker", title="The Worker", version="1")
USAGE = schema.Usage(input_tokens=7, output_tokens=3, total_tokens=10)


class Worker:
    def __init__(self, log: str, commands: list[str]) -> None:
        self.log = log
        self.commands = commands
        self.client: Any = None
        self.cancelled = asyncio.Event()
        self.session = ""

    def on_connect(self, client: Any) -> None:
        self.client = client

    def hear(self, event: Any) -> None:
        with open(self.log, "a") as log:
            log.write(json.dumps([event.direction.value, event.message]) + "\n")

    async def initialize(self, protocol_version: int, **more: Any) -> schema.InitializeResponse:
        sessions = schema.SessionCapabilities(
            additional_directories=schema.SessionAdditionalDirectoriesCapabilities()
        )
        has = schema.AgentCapabilities(session_capabilities=sessions)
        return schema.InitializeResponse(
            protocol_version=1, agent_capabilities=has, agent_info=ABOUT, auth_methods=[]
        )

    async def new_session(self, cwd: str, **more: Any) -> schema.NewSessionResponse:
        self.session = "s-1"
        if self.commands:
            asyncio.get_running_loop().call_soon(self._offer, self.commands)
        return schema.NewSessionResponse(session_id=self.session)

    def _offer(self, names: list[str]) -> None:
        self.offering = asyncio.create_task(self.offer(names))

    async def offer(self, names: list[str]) -> None:
        hint = {"hint": "what to do"}
        listed = [{"name": each, "description": f"Does {each}.", "input": hint} for each in names]
        update = {"sessionUpdate": "available_commands_update", "availableCommands": listed}
        await self.update(update)

    async def update(self, update: Json) -> None:
        given = {"sessionId": self.session, "update": update}
        made = schema.SessionNotification.model_validate(given)
        await self.client.session_update(self.session, made.update)

    async def say(self, words: str) -> None:
        await self.client.session_update(self.session, acp.update_agent_message_text(words))

    async def prompt(self, prompt: Any, **more: Any) -> schema.PromptResponse:
        self.cancelled.clear()
        text = prompt[0].text
        stop: Any = "end_turn"
        steps = json.loads(text) if text.startswith("[") else [{"say": f"You said: {text}"}]
        for step in steps:
            [(what, given)] = step.items()
            stop = given if what == "stop" else stop
            try:
                said = await self.play(what, given)
            except acp.RequestError as problem:
                said = {"code": problem.code, "message": str(problem)}
            if said is not None:
                await self.say(json.dumps(said))
        stop = "cancelled" if self.cancelled.is_set() else stop
        return schema.PromptResponse(stop_reason=stop, usage=USAGE)

    async def play(self, what: str, given: Json) -> Json:
        match what:
            case "say":
                await self.say(given)
            case "update":
                await self.update(given)
            case "commands":
                await self.offer(given)
            case "wait":
                await self.cancelled.wait()
            case "permit":
                asked = schema.RequestPermissionRequest.model_validate(
                    {"sessionId": self.session, **given}
                )
                answer = await self.client.request_permission(
                    self.session, asked.tool_call, asked.options
                )
                return answer.model_dump(by_alias=True, exclude_none=True)
            case "elicit":
                kinds: Json = {
                    "form": schema.ElicitationFormSessionMode,
                    "url": schema.ElicitationUrlSessionMode,
                }
                mode = kinds[given["mode"]].model_validate({"sessionId": self.session, **given})
                answer = await self.client.create_elicitation(given["message"], mode)
                return answer.model_dump(by_alias=True, exclude_none=True)
            case "read":
                await self.client.read_text_file(self.session, given)
        return None

    async def cancel(self, **more: Any) -> None:
        self.cancelled.set()


async def main() -> None:
    log, *commands = sys.argv[1:]
    worker: Any = Worker(log, commands)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**26)
    source, _ = await loop.connect_read_pipe(lambda: StreamReaderProtocol(reader), sys.stdin)
    sink, protocol = await loop.connect_write_pipe(FlowControlMixin, sys.stdout)
    writer: Any = asyncio.StreamWriter(sink, protocol, None, loop)
    how: Any = {"use_unstable_protocol": True, "observers": [worker.hear]}
    await acp.run_agent(worker, writer, reader, **how)
    for each in (source, sink):
        each.close()
    await asyncio.sleep(0)  # they close in the next turn


if __name__ == "__main__":
    asyncio.run(main())
