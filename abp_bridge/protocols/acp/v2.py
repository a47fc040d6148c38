"""The Agent Client Protocol, version 2 (a draft): what this agent says in version 1, in version 2's
words. Pure.

Only what differs is here. A prompt's response says that it was taken, and `state_update`s how it
goes on, and when it waits for its person; a permission has a title of its own, and its tool call is
what it is about; tool calls are created by their first update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from abp_bridge.core.json_value import Json

VERSION = 2


def decode_client(params: Mapping[str, Json]) -> dict[str, Json]:
    """The parameters of a version 2 `initialize` as version 1 has them.

    Notices need no capability here.
    """
    declared = params.get("capabilities")
    capabilities = declared if isinstance(declared, Mapping) else {}
    return {
        "clientInfo": params.get("info"),
        "clientCapabilities": {**capabilities, "session": {"notices": {}}},
    }


def encode_opened(info: Mapping[str, Json]) -> dict[str, Json]:
    """The result of `initialize`."""
    return {
        "protocolVersion": VERSION,
        "info": dict(info),
        "capabilities": {"session": {"prompt": {}, "mcp": {}}},
    }


def encode_taken(message: str) -> dict[str, Json]:
    """The result of `session/prompt`: the prompt is a message of the conversation now."""
    return {"messageId": message}


def encode_prompt(message: str, prompt: Json) -> dict[str, Json]:
    """The update that echoes a prompt."""
    return {"sessionUpdate": "user_message", "messageId": message, "content": prompt}


def encode_state(stop: str | None = None, *, asking: bool = False) -> dict[str, Json]:
    """The update of what the session does: it runs, or waits for what it is `asking` its person,
    or it is idle, for this reason.
    """
    state: dict[str, Json] = {"state": "requires_action" if asking else "running"}
    if stop is not None:
        state = {"state": "idle", "stopReason": stop}
    return {"sessionUpdate": "state_update", **state}


class Outward:
    """Called with each message of ours: as version 2 has it.

    Messages of the agent are numbered, for each is whole.
    """

    def __init__(self) -> None:
        self._said = 0

    def __call__(self, message: dict[str, Json]) -> dict[str, Json]:
        made = dict(message)
        if made.get("method") == "session/request_permission":
            made["params"] = _permission(made["params"])
        elif made.get("method") == "session/update":
            made["params"] = {**made["params"], "update": self._update(made["params"]["update"])}
        elif isinstance(made.get("result"), Mapping):
            made["result"] = {
                name: value for name, value in made["result"].items() if name != "modes"
            }
        return made

    def _update(self, update: Mapping[str, Json]) -> dict[str, Json]:
        if update["sessionUpdate"] == "agent_message_chunk":
            self._said += 1
            return {**update, "messageId": f"abp-said-{self._said}"}
        return _UPDATES.get(update["sessionUpdate"], dict)(update)


def _permission(params: Mapping[str, Json]) -> dict[str, Json]:
    call = {**params["toolCall"]}
    title = call.pop("title")
    return {
        "sessionId": params["sessionId"],
        "title": title,
        "options": params["options"],
        "subject": {"type": "tool_call", "toolCall": call},
    }


def _tool_call(update: Mapping[str, Json]) -> dict[str, Json]:
    return {**update, "sessionUpdate": "tool_call_update"}


def _commands(update: Mapping[str, Json]) -> dict[str, Json]:
    listed = [
        {**command, "type": "command", "input": {"type": "text", **command["input"]}}
        for command in update["availableCommands"]
    ]
    return {**update, "availableCommands": listed}


_UPDATES: dict[str, Callable[[Mapping[str, Json]], dict[str, Json]]] = {
    "tool_call": _tool_call,
    "available_commands_update": _commands,
}
