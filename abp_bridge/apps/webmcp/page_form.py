"""Read and fill in forms, and find obstacles that only the user can remove, in an isolated world.

`form.js` and `obstacles.js` are the other halves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from abp_bridge.apps.browser.page import MAX_MESSAGE
from abp_bridge.apps.webmcp.tool_session import CallRefusedError, ToolSession
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    parse_json,
)
from abp_bridge.protocols.webmcp.form import Form, decode_page_form, mark_secrets
from abp_bridge.protocols.webmcp.tools import Tool, describe_frames

SCRIPT = Path(__file__).with_name("form.js")
WORLD = "abp-bridge"


class PageForm:
    """The form of a tool; `text` is its last reading, and only that may be submitted.

    The methods raise CallRefusedError if the form is gone or cannot be read.
    """

    def __init__(self, session: ToolSession, tool: Tool) -> None:
        self.text = ""
        self._session = session
        self._tool = tool
        self._object = ""

    async def read_form(self, *, is_called: bool = False) -> Form:
        """Read the form as it is now; before a call (`is_called`), with all that it submits."""
        return self._decode(await self._run_script("read", is_called))

    async def set(self, states: Mapping[int, JsonValue], places: Sequence[int]) -> Form:
        """Set the controls at `places` to `states`, and read the form again."""
        return self._decode(await self._run_script("set", [[at, states[at]] for at in places]))

    async def give_file(self, place: int, path: str) -> None:
        """Give a control a file of this machine."""
        control = await self._call_function("control", place, by_value=False)
        await self._session.send_command(
            "DOM.setFileInputFiles",
            {"files": [path], "objectId": str(control)},
        )

    async def submit(self) -> bool:
        """Submit the form if it is unchanged since the last reading; return whether it was."""
        return await self._run_script("send", self.text) == "sent"

    async def guard(self) -> bool:
        """Stop the form if it would submit more than was read; return whether it is unchanged."""
        return await self._run_script("guard", self.text) is True

    async def read_stopped(self) -> Form | None:
        """Return the form as it would have been submitted when its guard stopped it."""
        text = await self._run_script("stopped")
        return None if text is None else self._decode(text)

    async def reset(self) -> None:
        """Reset the form to its state after loading."""
        await self._run_script("reset")

    def _decode(self, text: JsonValue) -> Form:
        if not isinstance(text, str) or len(text) > MAX_MESSAGE:
            raise CallRefusedError("the form cannot be read: it is too large")
        try:
            form = mark_secrets(decode_page_form(parse_json(text)), self._session.hide)
        except ValueError as problem:
            raise CallRefusedError(f"the form cannot be read: {problem}") from None
        self.text = text
        return form

    async def _run_script(self, work: str, given: JsonValue = None) -> JsonValue:
        return await self._call_function(work, given, by_value=True)

    async def _call_function(self, work: str, given: JsonValue, *, by_value: bool) -> JsonValue:
        answer = await self._session.send_command(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": SCRIPT.read_text(encoding="utf-8"),
                "objectId": await self._find_form(),
                "arguments": [{"value": work}, {"value": given}],
                "returnByValue": by_value,
            },
        )
        if "exceptionDetails" in answer:
            thrown = answer["exceptionDetails"].get("exception", {}).get("description", "")
            raise CallRefusedError(f"the form cannot be read: {json.dumps(thrown)[:300]}")
        value: JsonValue = answer["result"].get("value" if by_value else "objectId")
        return value

    async def _find_form(self) -> str:
        """Find the form in the isolated world."""
        if not self._object:
            given = {"frameId": self._tool.frame, "worldName": WORLD}
            world = await self._session.send_command("Page.createIsolatedWorld", given)
            found = await self._session.send_command(
                "DOM.resolveNode",
                {
                    "backendNodeId": self._tool.node,
                    "executionContextId": world["executionContextId"],
                },
            )
            self._object = str(found["object"]["objectId"])
        return self._object


OBSTACLES = Path(__file__).with_name("obstacles.js")


class Obstacles:
    """The obstacles that appear in one frame during a call."""

    def __init__(self, session: ToolSession, frame: str) -> None:
        self._session = session
        self._frame = frame
        self._before = ""

    async def begin(self) -> None:
        """Record what is there before the call, which is no obstacle."""
        with suppress(CallRefusedError):
            given = {"frameId": self._frame, "worldName": WORLD}
            world = await self._session.send_command("Page.createIsolatedWorld", given)
            script = OBSTACLES.read_text(encoding="utf-8")
            found = await self._session.send_command(
                "Runtime.evaluate",
                {"expression": f"({script})()", "contextId": world["executionContextId"]},
            )
            self._before = str(found["result"].get("objectId", ""))

    async def look(self) -> str:
        """Return the obstacle that appeared since `begin`, as the rest of a sentence, or ""."""
        if not self._before:
            return ""
        try:
            given: JsonObject = {
                "functionDeclaration": OBSTACLES.read_text(encoding="utf-8"),
                "objectId": self._before,
                "returnByValue": True,
            }
            answer = await self._session.send_command("Runtime.callFunctionOn", given)
            said = parse_json(as_text(answer["result"].get("value")))
        except (CallRefusedError, ValueError):
            return ""
        found = list(map(as_object, as_list(said)))
        if any("dialog" in each for each in found):
            return "the page has opened a dialog of its own, and waits for what is done there"
        return describe_frames(tuple(as_text(each.get("frame")) for each in found))
