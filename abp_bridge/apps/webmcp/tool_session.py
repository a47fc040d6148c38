"""What the browser reports of a page's tools and their calls.

A tool exists until the browser removes it or its frame shows another document, which the browser
does not report. Tools in frames of other origins are not offered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import anyio
from playwright.async_api import CDPSession, Frame
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.fetch import site
from abp_bridge.apps.browser.page import AppPage
from abp_bridge.apps.browser.page_state import PAGE_LIMIT
from abp_bridge.core.json_value import JsonObject, JsonValue, as_text
from abp_bridge.core.redact.texts import KnownTexts
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols.webmcp.tools import Key, Tool, decode_keys, decode_tools

logger = logging.getLogger(__name__)

FORM_GONE = "its form was taken away"
MAX_TOOLS = 2_000  # that are known of one page


class CallRefusedError(AbpBridgeError):
    """The browser did not start a call; `str(error)` is its reason."""


class PageSilentError(CallRefusedError):
    """The page does not let the browser respond, so the outcome is unknown."""


class Invocation:
    """A call that the page runs.

    Attributes:
        id: The browser's id; empty if nothing was called, and the tool is only watched.
        key: The tool's key.
        response: The page's response.
        hint: Why a response is unlikely.
        gone: Why a response is impossible.
        has_left: Whether its frame shows another page.
        has_lost_form: Whether its form was removed; the page may still respond.
        has_stayed: Whether submitting the form should have left the page, and did not.
    """

    def __init__(self, id: str, key: Key) -> None:
        self.id = id
        self.key = key
        self.response: JsonObject | None = None
        self.hint = ""
        self.gone = ""
        self.has_left = False
        self.has_lost_form = False
        self.has_stayed = False
        self._news = anyio.Event()

    @property
    def is_over(self) -> bool:
        """Whether no response can follow."""
        return self.response is not None or bool(self.gone)

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be submitted any more."""
        return self.is_over or self.has_left

    def tell(self) -> None:
        """Wake the waiting tasks."""
        self._news.set()
        self._news = anyio.Event()

    async def wait_news(self) -> None:
        await self._news.wait()

    async def wait_lost(self) -> None:
        while not self.is_lost:
            await self._news.wait()

    async def wait_over(self) -> None:
        while not self.is_over:
            await self._news.wait()


class ToolSession:
    """The tools of one page; `on_change` is called when they change.

    Attributes:
        tools: The tools in frames of the page's origin.
        frames: The origin of each frame by its id, in page order.
        secrets: Secrets given to the page, which are removed from later results.
        knows_secrets: Whether there are any.
    """

    def __init__(self, page: AppPage, on_change: Callable[[], None]) -> None:
        self.tools: dict[Key, Tool] = {}
        self.frames: dict[str, str] = {}
        self._page = page
        self._on_change = on_change
        self._cdp: CDPSession | None = None
        self._open: dict[str, Invocation] = {}
        self._early: deque[JsonObject] = deque(
            maxlen=100
        )  # responses that came before their call was known
        self._left_out = 0  # tools of which there are too many
        self.secrets = KnownTexts()
        self.knows_secrets = False
        self._watched: list[Invocation] = []
        self._parents: dict[str, str] = {}  # of frames, by their ids
        self._sending: set[str] = set()  # frames whose form the browser is about to send
        self._asking_to_stay: set[str] = set()  # frames whose dialog asks whether they may be left

    async def start_listening(self) -> None:
        """Start to receive the tools that exist and are added."""
        self._cdp = cdp = await self._page.new_session()
        cdp.on("Page.frameNavigated", lambda event: self._on_navigated(event["frame"]))
        cdp.on("Page.frameDetached", self._on_detached)
        cdp.on("Page.frameRequestedNavigation", self._on_requested)
        cdp.on("Page.javascriptDialogOpening", self._on_dialog)
        cdp.on("Page.javascriptDialogClosed", self._on_dialog_closed)
        cdp.on("WebMCP.toolsAdded", self._on_added)
        cdp.on("WebMCP.toolsRemoved", self._on_removed)
        cdp.on("WebMCP.toolResponded", self._on_responded)
        await cdp.send("Page.enable")
        self._know((await cdp.send("Page.getFrameTree"))["frameTree"])
        with suppress(PlaywrightError):  # a browser that knows no WebMCP
            await cdp.send("WebMCP.enable")

    def _know(self, tree: Mapping[str, Any]) -> None:
        self._know_frame(tree["frame"])
        for each in tree.get("childFrames", ()):
            self._know(each)

    def _know_frame(self, frame: Mapping[str, Any]) -> None:
        self.frames[frame["id"]] = site(frame.get("securityOrigin", ""))
        self._parents[frame["id"]] = frame.get("parentId", "")

    # --- what there is ---

    def _on_added(self, event: JsonValue) -> None:
        for each in decode_tools(event):
            if not self._page.is_own_site(self.frames.get(each.frame, "")):
                continue
            if each.key in self.tools or len(self.tools) < MAX_TOOLS:
                self.tools[each.key] = each
            else:
                self._left_out += 1
        self._on_change()

    def _on_removed(self, event: JsonValue) -> None:
        for key in decode_keys(event):
            tool = self.tools.pop(key, None)
            for each in self._open.values():
                if each.key == key and tool is not None and tool.node is not None:
                    each.has_lost_form = True
                    each.tell()
            for each in self._watched:
                if each.key == key:
                    each.has_left, each.hint = True, FORM_GONE
                    each.tell()
        self._on_change()

    def _on_navigated(self, frame: Mapping[str, Any]) -> None:
        self._know_frame(frame)
        self._on_left(frame["id"])

    def _on_left(self, frame: str) -> None:
        """Handle a new document in a frame."""
        self._sending.discard(frame)
        self._forget(frame)
        for each in self._calls_of(frame):
            each.has_left, each.hint = True, "its page went on to another"
            each.tell()

    def _on_requested(self, event: JsonObject) -> None:
        is_form = as_text(event.get("reason")).startswith("formSubmission")
        change = self._sending.add if is_form else self._sending.discard
        change(as_text(event.get("frameId")))

    def _on_dialog(self, event: JsonObject) -> None:
        if event.get("type") == "beforeunload":
            self._asking_to_stay.add(as_text(event.get("frameId")))

    def _on_dialog_closed(self, event: JsonObject) -> None:
        frame = as_text(event.get("frameId"))
        asked = frame in self._asking_to_stay
        self._asking_to_stay.discard(frame)
        if not asked or event.get("result") is not False:
            return
        while frame and frame not in self._sending:  # those around it are left with it
            frame = self._parents.get(frame, "")
        self._sending.discard(frame)
        for each in self._calls_of(frame):
            each.has_stayed, each.hint = True, "its page was not left"
            each.tell()

    def _on_detached(self, event: Mapping[str, Any]) -> None:
        frame = event["frameId"]
        if event.get("reason") == "swap":  # another process shows it now
            self.frames[frame] = ""
            self._on_left(frame)
            return
        for known in (self.frames, self._parents):
            known.pop(frame, None)
        self._sending.discard(frame)
        self._asking_to_stay.discard(frame)
        self._forget(frame)
        for each in self._calls_of(frame):
            each.gone = "its frame was taken away"
            each.tell()
            self.release(each)

    def _forget(self, frame: str) -> None:
        gone = [key for key in self.tools if key[0] == frame]
        for key in gone:
            del self.tools[key]
        if gone:
            self._on_change()

    async def warnings(self) -> list[str]:
        """Return a sentence for each kind of tool of the page that is not offered."""
        places = set[str]()
        with anyio.move_on_after(PAGE_LIMIT):
            for frame in self._page.shown.frames[1:]:
                if self._page.is_own_site(frame.url) or not _has_page(frame):
                    continue
                with suppress(PlaywrightError):
                    allow = await (await frame.frame_element()).get_attribute("allow")
                    if "tools" in (allow or ""):  # without it, a frame has no tools
                        places.add(label(site(frame.url), 80) or "no origin")
        warned = [
            f"tools of its frame of {each} are not offered: it has another origin"
            for each in sorted(places)
        ]
        if self._left_out:
            warned.append(
                f"it has more tools than are offered: {self._left_out} after the first {MAX_TOOLS}"
                " are left out"
            )
        return warned

    def hide(self, text: str) -> str:
        """Return `text` without the secrets given to the page."""
        return self.secrets.present_in([text]).replace(text) if self.knows_secrets else text

    async def is_known_to_page(self) -> bool:
        """Return whether the page's browser supports WebMCP."""
        with anyio.move_on_after(PAGE_LIMIT), suppress(PlaywrightError):
            return bool(await self._page.shown.evaluate("() => !!document.modelContext"))
        return False

    # --- calls ---

    async def invoke(self, tool: Tool, params: JsonObject, limit: float) -> Invocation:
        """Have the page start a call within `limit` seconds.

        A form has one call at a time: cancelling a replaced call crashes the page.

        Raises:
            CallRefusedError: The call did not start.
            PageSilentError: It is unknown whether the call started.
        """
        same = [each for each in self._open.values() if each.key == tool.key]
        if tool.node is not None and any([not await self.cancel_invocation(each) for each in same]):
            raise CallRefusedError("An earlier call of this form still runs in the page.")
        given: JsonObject = {"frameId": tool.frame, "toolName": tool.name, "input": dict(params)}
        answer = await self.send_command("WebMCP.invokeTool", given, limit)
        begun = Invocation(str(answer["invocationId"]), tool.key)
        self._open[begun.id] = begun
        for each in self._early:
            if each.get("invocationId") == begun.id:
                self._on_responded(each)
                break
        return begun

    @contextmanager
    def watch(self, tool: Tool) -> Iterator[Invocation]:
        """Yield an invocation of a tool that was not called: it gets events, but no response."""
        watched = Invocation("", tool.key)
        self._watched.append(watched)
        try:
            yield watched
        finally:
            self._watched.remove(watched)

    async def cancel_invocation(self, invocation: Invocation, limit: float = PAGE_LIMIT) -> bool:
        """Cancel a call and wait for the page; return whether it surely runs no more.

        A call without its form is only dropped: cancelling it can crash the page.
        """
        if invocation.has_lost_form:
            invocation.gone = invocation.gone or FORM_GONE
        with anyio.move_on_after(limit):
            try:
                if not invocation.is_over and invocation.id:
                    named: JsonObject = {"invocationId": invocation.id}
                    await self.send_command("WebMCP.cancelInvocation", named)
                    await invocation.wait_over()
            except CallRefusedError as problem:  # the browser knows it no more
                invocation.gone = invocation.gone or str(problem)
        return invocation.is_over

    def release(self, invocation: Invocation) -> None:
        """Stop waiting for a call; forget it once it no longer runs."""
        if invocation.is_over:
            self._open.pop(invocation.id, None)

    async def send_command(
        self, method: str, given: JsonObject, limit: float = PAGE_LIMIT
    ) -> Mapping[str, Any]:
        """Send one CDP command to the page.

        Raises:
            CallRefusedError: The browser refused, or the page is gone.
            PageSilentError: No response for `limit` seconds, not counting open dialogs.
        """
        assert self._cdp is not None, "it was started"
        sending = asyncio.ensure_future(self._cdp.send(method, dict(given)))
        try:
            while not sending.done():
                dialogs, count = self._page.dialogs, self._page.dialogs.count
                await asyncio.wait([sending], timeout=limit)
                waits = dialogs.is_open or dialogs.count != count
                if not (sending.done() or waits):
                    raise PageSilentError(f"the page does not react for {limit:g} s")
            answer: Mapping[str, Any] = sending.result()
            return answer
        except PlaywrightError as problem:
            words = str(problem).split("\n", 1)[0].rpartition(f"({method}): ")[2]
            raise CallRefusedError(label(words)) from None
        finally:
            sending.cancel()

    def on_lost(self, reason: str) -> None:
        """End all calls: the page is lost."""
        for each in [*self._open.values(), *self._watched]:
            each.gone = reason
            each.tell()

    def on_window(self) -> None:
        """Handle a window that the page opened, perhaps as the target of a form."""
        for each in self._open.values():
            each.hint = each.hint or "the page opened a window for its answer, which was closed"
            each.tell()

    def _calls_of(self, frame: str) -> list[Invocation]:
        known = [*self._open.values(), *self._watched]
        return [each for each in known if each.key[0] == frame]

    def _on_responded(self, event: JsonObject) -> None:
        known = self._open.pop(str(event.get("invocationId")), None)
        if known is None:
            self._early.append(event)
            return
        known.response = event
        known.tell()


def _has_page(frame: Frame) -> bool:
    """Return whether a frame shows a page, not one that is loading or failed to load."""
    return frame.url not in ("", "about:blank") and not frame.url.startswith("chrome-error:")
