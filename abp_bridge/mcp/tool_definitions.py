"""The bridge's own MCP tools, as `tools/list` shows them.

Data only: this is listed before anything else is loaded.
"""

from __future__ import annotations

from abp_bridge.core.json_value import JsonObject


def _tool(
    name: str, description: str, properties: JsonObject | None = None, *required: str
) -> JsonObject:
    needed = {"required": list(required)} if required else {}
    schema: JsonObject = {"type": "object", "properties": properties or {}, **needed}
    return {"name": name, "description": description, "inputSchema": schema}


def _described(kind: str, description: str) -> JsonObject:
    return {"type": kind, "description": description}


_APP = _described(
    "string",
    "Which connected app, by the id that abp_status shows. Only needed when several have the"
    " capability.",
)

CONNECT = _tool(
    "abp_connect",
    "Connect a web app that speaks ABP (the Agentic Browser Protocol) and list what it can do."
    " Without a target: the apps this bridge was started for. The app may ask its user"
    " questions while it works; they are shown to the person, not to you.",
    {
        "target": _described(
            "string", "The app's address, http:// or https://, or 'demo' for the built-in app."
        )
    },
)
DISCONNECT = _tool(
    "abp_disconnect", "Disconnect an app; without an id, all of them.", {"app": _APP}
)
STATUS = _tool(
    "abp_status",
    "What is connected, which questions are open or were answered and how, and what the apps"
    " told last. With a capability: what it takes, in full.",
    {"capability": _described("string", "The name of one, or of its tool.")},
)
CALL = _tool(
    "abp_call",
    "Call a capability of an app by its name, as abp_connect and abp_status list them.",
    {
        "capability": _described("string", "For example export.pdf"),
        "params": _described("object", "The capability's own parameters."),
        "app": _APP,
        "timeout": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": (
                "Seconds the app may say nothing: each report of its progress begins them anew, up"
                " to ten times as long in all. The time a person is being asked does not count."
            ),
        },
    },
    "capability",
)
WAIT = _tool(
    "abp_wait",
    "Go on waiting for a call that has not ended, when its result said so. Gives its result"
    " when it comes.",
    {"call": _described("string", "The call's id, as that result names it.")},
    "call",
)
KINDS = {  # ABP's methods, by the words that a model has for them
    "confirm": "elicitation/confirm",
    "select": "elicitation/select",
    "input": "elicitation/input",
    "preference": "elicitation/preference",
    "resource": "elicitation/resource",
    "sampling": "sampling/create",
}
ASK = _tool(
    "abp_ask",
    "Ask your user something yourself, where they can see and answer it, and wait for the answer;"
    " `answeredBy` says who gave it, and `outcome` how it ended: declined or cancelled is no"
    " answer. You read what they answer, so never ask for a password or another secret.",
    {
        "kind": {
            "type": "string",
            "enum": list(KINDS),
            "description": (
                "confirm: yes or no. select: one or several of options. input: what the schema"
                " describes, a text without one. preference: as input, with a default that counts"
                " where nobody could be asked. resource: a file. sampling: a model's help, which"
                " the user approves."
            ),
        },
        "message": _described("string", "What you ask, in whole sentences."),
        "schema": _described("object", "For input and preference: a JSON Schema of the answer."),
        "options": {
            "type": "array",
            "description": "For select: texts, or {value, label, description}.",
        },
        "multiple": _described("boolean", "For select: whether several may be chosen."),
        "default": {"description": "For preference and select: what is suggested."},
        "destructive": _described("boolean", "For confirm: whether a yes cannot be undone."),
        "type": _described("string", "For resource: the file's type, as in image/*."),
    },
    "kind",
    "message",
)
ANSWER = _tool(
    "abp_answer",
    "Pass on what your user said to a question of an app's, when the result of a call asked you"
    " to ask them. Only their words: never answer for them. Goes on waiting for that call, and"
    " gives its result when it comes.",
    {
        "question": _described("string", "The question's id, as that result names it."),
        "content": _described("object", "The user's answer, by field."),
        "action": {
            "type": "string",
            "enum": ["accept", "decline", "cancel"],
            "description": "decline: the user does not want to answer.",
        },
    },
    "question",
)
RENDER = _tool(
    "abp_render_to_pdf", "Print the app's page as it is now to a PDF file.", {"app": _APP}
)

OWN_TOOLS = (CONNECT, DISCONNECT, STATUS, CALL, WAIT, ASK)
