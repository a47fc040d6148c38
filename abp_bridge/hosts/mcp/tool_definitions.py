"""The bridge's own MCP tools, as `tools/list` shows them.

Data only: this is listed before anything else is loaded.
"""

from __future__ import annotations

from typing import Any

from abp_bridge.core.json_value import JsonObject, JsonValue


def _object(properties: JsonObject, *required: str) -> dict[str, JsonValue]:
    schema: dict[str, JsonValue] = {"type": "object", "properties": dict(properties)}
    return {**schema, "required": list(required)} if required else schema


_APP = {
    "type": "string",
    "description": (
        "Which connected app, by the id that abp_status shows. Only needed when several have the"
        " capability."
    ),
}

CONNECT: dict[str, Any] = {
    "name": "abp_connect",
    "description": (
        "Connect a web app that speaks ABP (the Agentic Browser Protocol) and list what it can do."
        " Without a target: the apps this bridge was started for. The app may ask its user"
        " questions while it works; they are shown to the person, not to you."
    ),
    "inputSchema": _object(
        {
            "target": {
                "type": "string",
                "description": (
                    "The app's address, http:// or https://, or 'demo' for the built-in app."
                ),
            }
        }
    ),
}
DISCONNECT: dict[str, Any] = {
    "name": "abp_disconnect",
    "description": "Disconnect an app; without an id, all of them.",
    "inputSchema": _object({"app": _APP}),
}
STATUS: dict[str, Any] = {
    "name": "abp_status",
    "description": (
        "What is connected, which questions are open or were answered and how, and what the apps"
        " told last."
    ),
    "inputSchema": _object({}),
}
CALL: dict[str, Any] = {
    "name": "abp_call",
    "description": (
        "Call a capability of an app by its name, as abp_connect and abp_status list them."
    ),
    "inputSchema": _object(
        {
            "capability": {"type": "string", "description": "For example export.pdf"},
            "params": {"type": "object", "description": "The capability's own parameters."},
            "app": _APP,
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": (
                    "Seconds the app may work; the time a person is being asked does not count."
                ),
            },
        },
        "capability",
    ),
}
WAIT: dict[str, Any] = {
    "name": "abp_wait",
    "description": (
        "Go on waiting for a call that has not ended, when its result said so. Gives its result"
        " when it comes."
    ),
    "inputSchema": _object(
        {"call": {"type": "string", "description": "The call's id, as that result names it."}},
        "call",
    ),
}
ANSWER: dict[str, Any] = {
    "name": "abp_answer",
    "description": (
        "Pass on what your user said to a question of an app's, when the result of a call asked you"
        " to ask them. Only their words: never answer for them. Goes on waiting for that call, and"
        " gives its result when it comes."
    ),
    "inputSchema": _object(
        {
            "question": {
                "type": "string",
                "description": "The question's id, as that result names it.",
            },
            "content": {"type": "object", "description": "The user's answer, by field."},
            "action": {
                "type": "string",
                "enum": ["accept", "decline", "cancel"],
                "description": "decline: the user does not want to answer.",
            },
        },
        "question",
    ),
}
RENDER: dict[str, Any] = {
    "name": "abp_render_to_pdf",
    "description": "Print the app's page as it is now to a PDF file.",
    "inputSchema": _object({"app": _APP}),
}

OWN_TOOLS = (CONNECT, DISCONNECT, STATUS, CALL, WAIT)
