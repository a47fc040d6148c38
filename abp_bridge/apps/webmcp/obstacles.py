"""What a page shows while a call of it runs and that only a hand in the page can deal with: a modal
dialog of its own, or a frame that nobody else can read, as those of payments and captchas are.

`obstacles.js` is the other half of this module.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from abp_bridge.apps.webmcp.page_form import WORLD
from abp_bridge.apps.webmcp.tool_session import CallRefusedError, ToolSession
from abp_bridge.core.json_value import JsonObject, as_list, as_object, as_text, parse_json
from abp_bridge.protocols.webmcp.hand import describe_frames

SCRIPT = Path(__file__).with_name("obstacles.js")


class Obstacles:
    """The obstacles that come up in one frame during a call."""

    def __init__(self, session: ToolSession, frame: str) -> None:
        self._session = session
        self._frame = frame
        self._before = ""

    async def begin(self) -> None:
        """Note what stands there now: it is no obstacle."""
        with suppress(CallRefusedError):
            given = {"frameId": self._frame, "worldName": WORLD}
            world = await self._session.send("Page.createIsolatedWorld", given)
            script = SCRIPT.read_text(encoding="utf-8")
            found = await self._session.send(
                "Runtime.evaluate",
                {"expression": f"({script})()", "contextId": world["executionContextId"]},
            )
            self._before = str(found["result"].get("objectId", ""))

    async def look(self) -> str:
        """The obstacle that has come since `begin`, as the rest of a sentence; empty for none."""
        if not self._before:
            return ""
        try:
            given: JsonObject = {
                "functionDeclaration": SCRIPT.read_text(encoding="utf-8"),
                "objectId": self._before,
                "returnByValue": True,
            }
            answer = await self._session.send("Runtime.callFunctionOn", given)
            said = parse_json(as_text(answer["result"].get("value")))
        except (CallRefusedError, ValueError):
            return ""
        found = list(map(as_object, as_list(said)))
        if any("dialog" in each for each in found):
            return "the page has opened a dialog of its own, and waits for what is done there"
        return describe_frames(tuple(as_text(each.get("frame")) for each in found))
