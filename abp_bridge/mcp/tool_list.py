"""The tools shown to one MCP host: the bridge's own, and one per capability of each app.

Light: it is loaded before the session, the encoder only when there is an app.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonObject

if TYPE_CHECKING:
    from abp_bridge.protocols.mcp.results import Promise
    from abp_bridge.session.host import AppCapability, ExpectedApps


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

Key = tuple[str, str]  # the target of an app, and the name of a capability
OWN = {str(tool["name"]): tool for tool in (*OWN_TOOLS, ANSWER, RENDER)}


class ToolList:
    """The tools of one connection.

    A name stays while its app and capability do; an expected one stays for good, because a host may
    list its tools only once.

    Args:
        expect: Returns what the configured apps are expected to offer.
    """

    def __init__(
        self, expect: Callable[[], ExpectedApps] | None = None, *, asks_via_model: bool = False
    ) -> None:
        self.asks_via_model = asks_via_model
        self._expect = expect
        self._ranks: dict[str, int] = {}  # of apps, in the order in which they were first seen
        self._names: dict[Key, str] = {}
        self._tools: dict[str, Key] = {}
        self._kept: set[Key] = set()
        self._shown: list[JsonObject] | None = None  # the last list, if apps were expected in it
        self._version = ""
        self._outputs: dict[str, JsonObject] = {}  # of tools, as they are offered
        self._listed: dict[str, JsonObject] = {}  # the same, as the host was told last

    def list_first(self, version: str) -> list[JsonObject]:
        """Return `tools/list` before there is a session."""
        return self.list_all(version, (), None if self._expect is None else self._expect())

    def list_all(
        self,
        version: str,
        offers: Sequence[AppCapability],
        expected: ExpectedApps | None,
        *,
        renders: bool = False,
    ) -> list[JsonObject]:
        """Return `tools/list`: the bridge's own tools, then the apps' in their order.

        Args:
            renders: Whether a connected app has a page that can be rendered.
        """
        found = self.update(offers, expected)
        tools = self._encode(version, found, expected, renders=renders)
        is_expected = expected is not None and bool(expected.capabilities)
        self._shown, self._version = tools if is_expected else None, version
        self._listed = dict(self._outputs)
        return tools

    def is_as_shown(
        self, offers: Sequence[AppCapability], expected: ExpectedApps | None, *, renders: bool
    ) -> bool:
        """Whether the host has been shown these tools, when they were only expected."""
        if self._shown is None:
            return False
        found = self.update(offers, expected)
        return self._encode(self._version, found, expected, renders=renders) == self._shown

    def update(
        self, offers: Sequence[AppCapability], expected: ExpectedApps | None
    ) -> list[AppCapability]:
        """Name each capability, and return all of them, app by app."""
        coming = () if expected is None else expected.capabilities
        found = [*offers, *coming]
        for each in (*coming, *offers):
            self._ranks.setdefault(each.target, len(self._ranks))
        found.sort(key=lambda each: self._ranks[each.target])
        self._kept |= {_key(each) for each in coming}
        live = {_key(each) for each in found} | self._kept
        self._names = {key: name for key, name in self._names.items() if key in live}
        if found:
            self._add_names(found)
        self._tools = {name: key for key, name in self._names.items()}
        self._outputs = {self.name_of(each): each.capability.output_schema for each in found}
        return found

    def _add_names(self, found: Sequence[AppCapability]) -> None:
        from abp_bridge.protocols.mcp.tools import tool_name

        taken = {*OWN, *self._names.values()}
        for each in found:
            if _key(each) not in self._names:
                name = self._names[_key(each)] = tool_name(each.capability.name, taken)
                taken.add(name)

    def find_capability(self, tool: str) -> Key | None:
        """Return the (app, capability) of a tool."""
        return self._tools.get(tool)

    def name_of(self, offer: AppCapability) -> str:
        """Return the tool of a capability given to `update`."""
        return self._names[_key(offer)]

    def has_listed(self, tool: str) -> bool:
        """Whether the last list had this tool."""
        return tool in self._listed

    def promise_of(self, tool: str, version: str) -> Promise | None:
        """Return what the last list promised of this tool's results."""
        if not (schema := self._listed.get(tool) or self._outputs.get(tool)):
            return None
        from abp_bridge.protocols.mcp.tools import find_promise

        return find_promise(schema, version)

    def _encode(
        self,
        version: str,
        offers: Sequence[AppCapability],
        expected: ExpectedApps | None,
        *,
        renders: bool,
    ) -> list[JsonObject]:
        has_page = renders or (expected is not None and expected.renders)
        unknown = () if expected is None else expected.unknown
        own = [_say_unknown(each, unknown) if each is CONNECT else each for each in OWN_TOOLS]
        own += [*([ANSWER] if self.asks_via_model else []), *([RENDER] if has_page else [])]
        if not offers:
            return own
        from abp_bridge.protocols.mcp.tools import encode_tool

        tools = (
            encode_tool(self.name_of(each), each.capability, each.origin, version)
            for each in offers
        )
        return [*own, *tools]


def _key(offer: AppCapability) -> Key:
    return offer.target, offer.capability.name


def _say_unknown(tool: JsonObject, unknown: Sequence[str]) -> JsonObject:
    """Return `abp_connect` with the apps whose tools are not listed yet."""
    if not unknown:
        return tool
    words = (
        f" The tools of {', '.join(unknown)} are not listed yet: connect it, and its capabilities"
        " are named with their parameters; call them by abp_call. From the next session on they are"
        " listed at once."
    )
    return {**tool, "description": f"{tool['description']}{words}"}
