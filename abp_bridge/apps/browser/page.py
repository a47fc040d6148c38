"""One page of an app, from before its first script until it is lost, and its messages.

`inject.js` is the other half. A page is not trusted: only its main frame is heard, and only while
it shows the connected origin; its messages are decoded like any other app's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from playwright.async_api import (
    CDPSession,
    Frame,
    JSHandle,
    Page,
    Request,
    Response,
)
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from abp_bridge.apps.browser.chromium import error_summary
from abp_bridge.apps.browser.fetch import DEFAULT_PORTS, Guard, reachable, site, split
from abp_bridge.apps.browser.files import WINDOW, PageFiles
from abp_bridge.apps.browser.page_state import PAGE_LIMIT, PageState, Tab
from abp_bridge.apps.browser.window import Dialogs, Window
from abp_bridge.apps.elicitation import SESSION_ENDED, handle_elicitation
from abp_bridge.core.capability import CallResult, CapabilityList
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    parse_json,
)
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols import abp
from abp_bridge.session.app import END_LIMIT, AppError, AppListener, find_absence
from abp_bridge.settings import Settings
from abp_bridge.settings.values import is_nearby

SCRIPT = Path(__file__).with_name("inject.js")
BINDING = "__abpBridgePost"  # inject.js takes it away before the app's first script
SCRIPT_OBJECT = "window.__abpBridge"

MAX_MESSAGE = 2**24  # characters; inject.js keeps to half of it
MAX_RESULT = 2**27  # characters of one result, in all its parts
_OWN_FAILURES = ("net::ERR_ABORTED",)  # of requests that the page itself gave up


class PageGoneError(AbpBridgeError):
    """The page is lost; `str(error)` says why."""


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The outcome of a method of inject.js: its value, or what it threw `at` a place in the page.

    `notes` list the parts that JSON cannot hold.
    """

    value: JsonValue = None
    thrown: bool = False
    notes: tuple[str, ...] = ()
    at: str = ""


_NOT_FOUND = "window.abp not found after page load"
# The names of what may be meant to be that: with its methods, or as a variable that no member of
# `window` is (`const abp = ...`).
_NEAR_MISSES = """() => {
  const names = typeof abp === 'undefined' ? [] : ['abp'];
  for (const name of Object.keys(window)) {
    const { value } = Object.getOwnPropertyDescriptor(window, name) ?? {};
    if (value && typeof value === 'object' && typeof value.initialize === 'function') {
      names.push(name);
    }
  }
  return names.slice(0, 1);
}"""

Overhear = Callable[[str, JsonValue, bool], None]


class PageTools:
    """What a page offers beside or instead of ABP."""

    async def attach(self, page: AppPage, settings: Settings) -> None:
        """Start to listen, before the page is loaded."""
        raise NotImplementedError

    async def find_tool(self, limit: float) -> str:
        """Wait for the first tool: return why there is none after `limit` seconds, or ""."""
        raise NotImplementedError

    async def capabilities(self, taken: Collection[str]) -> CapabilityList:
        """Return the tools whose names are not `taken`, with warnings."""
        raise NotImplementedError

    def has(self, capability: str) -> bool:
        """Return whether a tool has that name."""
        raise NotImplementedError

    async def call_tool(self, capability: str, params: JsonObject, call: str) -> CallResult:
        """Call a tool (`App.call_capability`)."""
        raise NotImplementedError

    def on_lost(self, reason: str) -> bool:
        """Handle the loss of the page; return whether to `wait_idle` before the listener hears."""
        raise NotImplementedError

    async def wait_idle(self) -> None:
        """Wait, in bounded time, for the end of what the page ran."""
        raise NotImplementedError

    def on_window(self) -> None:
        """Handle a window that the page opened, before it is closed."""
        raise NotImplementedError


def ignore(name: str, said: JsonValue, thrown: bool) -> None:
    """An `Overhear` that does nothing."""


class AppPage(PageState):
    """The page in `tab`; its handlers run in `tasks`, which must outlive it.

    `guard` limits the hosts of its documents, including redirects. `alias` is shown to the user
    instead of the origin. `overhear` gets each message: the called method or `ask`, the JSON, and
    whether it was thrown.
    """

    def __init__(
        self,
        tab: Tab,
        listener: AppListener,
        tasks: TaskGroup,
        alias: str,
        *,
        overhear: Overhear = ignore,
        guard: Guard | None = None,
    ) -> None:
        super().__init__(tab.page, listener, tasks, alias)
        self.overhear = overhear
        self.dialogs: Dialogs  # from `prepare` on, and so is its window
        self.window: Window
        self._context = tab.context
        self.tools: PageTools | None = None
        self._tab = tab
        self.files = PageFiles(self)
        self._script: JSHandle | None = None
        self._connected = False
        self._is_settled = False
        self._questions: dict[str, anyio.CancelScope] = {}  # by inject.js's own ids
        self._refused: set[str] = set()  # frames, by their origin
        self._guard = guard
        self._unreachable: AppError | None = None  # why the guard refused the page itself
        self._left = anyio.Event()
        self._is_leaving = False  # its document has ended

    async def new_session(self) -> CDPSession:
        """Return a CDP session with the page."""
        return await self._context.new_cdp_session(self.shown)

    # --- opening ---

    async def prepare(self) -> None:
        """Set up everything that must exist before the page's first script."""
        page, context = self.shown, self._context
        # Playwright says neither which frame opened a dialog nor whether a navigation replaced the
        # document.
        cdp = await self.new_session()
        self.window = Window(page, cdp)
        self.dialogs = Dialogs(self, self.window, self.files, cdp)
        await page.expose_binding(BINDING, self._on_post)
        await page.add_init_script(SCRIPT.read_text(encoding="utf-8"))
        page.on("crash", lambda _: self._lose("its page crashed"))
        page.on("close", lambda _: self._lose("its page or its browser was closed"))
        page.on("dialog", lambda _: None)  # else Playwright dismisses it at once
        page.on("download", self.files.on_download)
        page.on("requestfailed", self._on_failed_request)
        page.on("response", self._on_response)
        if self._tab.alone:
            context.on("page", self._on_window)
        else:  # other windows are others'
            page.on("popup", self._on_window)
        cdp.on("Page.frameNavigated", self._on_navigation)
        cdp.on("Page.downloadWillBegin", self.files.on_download_begin)
        cdp.on("Page.downloadProgress", self.files.on_download_progress)
        await cdp.send("Page.enable")
        if self._guard is not None:
            cdp.on("Fetch.requestPaused", partial(self._on_document, cdp, self._guard))
            await cdp.send("Fetch.enable", {"patterns": [{"resourceType": "Document"}]})

    def _on_document(self, cdp: CDPSession, guard: Guard, event: Mapping[str, Any]) -> None:
        """Check a document before its request, if the user did not name the page."""
        self.tasks.start_soon(self._check_document, cdp, guard, event)

    async def _check_document(
        self, cdp: CDPSession, guard: Guard, event: Mapping[str, Any]
    ) -> None:
        url, verdict = event["request"]["url"], {"requestId": event["requestId"]}
        command = "Fetch.continueRequest"
        try:
            if url.startswith(("http:", "https:")):
                parts = split(url)
                port = parts.port or DEFAULT_PORTS[parts.scheme]
                await reachable(parts.hostname or "", port, guard)
        except AppError as problem:
            command, verdict["errorReason"] = "Fetch.failRequest", "BlockedByClient"
            if self._script is None:
                self._unreachable = problem
            if problem.code == "PERMISSION_DENIED":
                self.note(f"{self.console.show_address(url)} was not opened: {problem}")
        with suppress(PlaywrightError):
            await cdp.send(command, verdict)

    async def load(
        self, url: str, sites: Collection[str], *, limit: float, patience: float
    ) -> None:
        """Load the app's page.

        Args:
            url: The address.
            sites: The origins that it may show.
            limit: Seconds for the document.
            patience: Seconds for its resources.
        """
        self.sites = sites
        failed, shown = "Failed to fetch app page", show_target(url)
        try:
            load = self.shown.reload if self._tab.shows else partial(self.shown.goto, url)
            answer = await load(wait_until="domcontentloaded", timeout=limit * 1000)
            if answer is not None and answer.status >= 400:
                words = f"{failed}: HTTP {answer.status} at {shown}"
                raise AppError(words, absence=find_absence(answer.status))
        except PlaywrightTimeout:
            raise AppError(
                f"{failed}: {shown} was not loaded within {limit:g} s", "TIMEOUT"
            ) from None
        except PlaywrightError as problem:
            if self._unreachable is not None and "ERR_BLOCKED_BY_CLIENT" in str(problem):
                raise self._unreachable.with_message(f"{failed}: {self._unreachable}") from None
            if "interrupted by another navigation" not in str(problem):
                raise AppError(
                    f"{failed}: {shown}: {self.lost or error_summary(problem)}"
                ) from None
        with suppress(PlaywrightError):
            await self.shown.wait_for_load_state("load", timeout=patience * 1000)

    async def find_app(self, patience: float) -> None:
        """Wait up to `patience` seconds for `window.abp`; after that, a reload disconnects the app.

        Until then the page may replace itself within its sites, as bootstrap pages do.

        Raises:
            AppError: The page left its sites, or offers no ABP.
        """
        self._script = await self._find_script(patience)
        self.settle()
        self.tasks.start_soon(self._watch, self._script)

    def settle(self) -> None:
        """Fix the app's origin to the one shown now; leaving it later loses the page."""
        self._is_settled = True
        self.sites = {own for own in self.sites if own == site(self.shown.main_frame.url)}

    async def _find_script(self, patience: float) -> JSHandle:
        missing = _NOT_FOUND
        end = anyio.current_time() + patience
        with anyio.move_on_after(patience + END_LIMIT):
            while not self.lost:
                left = max(0.0, end - anyio.current_time())
                try:
                    script = await self.shown.evaluate_handle(SCRIPT_OBJECT)
                    missing = str(
                        await script.evaluate("(script, wait) => script.ready(wait)", left * 1000)
                    )
                except PlaywrightError:
                    await anyio.sleep(0.05)  # a page that is being replaced
                    continue
                if missing:
                    break
                if not self.lost:
                    return script
        if self.lost:
            raise AppError(
                f"The app cannot be connected: {self.lost}. Connect the address where the app"
                " itself is.",
                "DISCONNECTED",
            )
        why = await self._describe_missing() if missing == _NOT_FOUND else ""
        raise AppError(
            f"{missing}: {await self._describe_shown()}{why}{self.console.said}", "NOT_SUPPORTED"
        )

    async def _describe_missing(self) -> str:
        """Return a sentence on what may be meant as `window.abp`."""
        names: JsonValue = []
        with anyio.move_on_after(END_LIMIT), suppress(PlaywrightError):
            names = await self.shown.evaluate(_NEAR_MISSES)
        for name in map(label, as_list(names)):
            if name == "abp":
                return " Its abp is a variable and no member of window: write window.abp = abp."
            return f" Its window.{name} looks like one: is window.abp meant?"
        host = split(self.shown.main_frame.url).hostname or ""
        signed_in = (
            "" if is_nearby(host) else " Does it offer ABP to everybody, without signing in?"
        )
        return f" No script of the page set window.abp.{signed_in}"

    async def title(self) -> str:
        """Return the page's title, safe to show."""
        with anyio.move_on_after(END_LIMIT), suppress(PlaywrightError):
            return label(await self.shown.title(), 80)
        return ""

    async def _describe_shown(self) -> str:
        """Return a sentence on what the page shows."""
        title = await self.title()
        titled = f"is titled {title!r}" if title else "has no title"
        return f"the page at {show_target(label(self.shown.url))} {titled}."

    def confirm_connected(self) -> None:
        """From now on, call `AppListener.on_disconnect` when the page is lost.

        Raises:
            AppError: The page is lost already.
        """
        if self.lost:
            raise AppError(f"The app is gone: {self.lost}.", "DISCONNECTED")
        self._connected = True

    def leave(self) -> None:
        """Stop listening to the page; `tasks` withdraw its questions."""
        self.listener = None

    # --- calling ---

    async def run_script(self, method: str, key: str, *arguments: str) -> ScriptResult:
        """Run a method of inject.js.

        Args:
            method: The name.
            key: The id of this run in the page.
            arguments: Texts, or JSON for anything else.

        Raises:
            PageGoneError: The page is lost.
        """
        evaluated = await self._evaluate(
            f"(script, given) => script.{method}(...given)", [key, *arguments]
        )
        parts: list[str] = []
        size = 0
        while isinstance(evaluated, list) and len(evaluated) == 2 and isinstance(evaluated[0], str):
            parts.append(evaluated[0])
            size += len(evaluated[0])
            if evaluated[1] is True or size > MAX_RESULT:
                read = _decode_script_result("".join(parts))
                self.overhear(method, read.value, read.thrown)
                return replace(read, at=self.console.show_place(read.at)) if read.at else read
            evaluated = await self._evaluate("(script, key) => script.next(key)", key)
        return _thrown(
            as_text(evaluated, "the page returned what no script of this bridge returns")
        )

    async def cancel_call(self, call: str, reason: str) -> None:
        """Cancel a call in every way that ABP has (X6, X7)."""
        with suppress(PageGoneError):
            await self._evaluate("(script, given) => script.cancel(...given)", [call, reason])

    async def abandon(self, key: str) -> None:
        """Cancel the download `key`."""
        with suppress(PageGoneError):
            await self._evaluate("(script, key) => script.abandon(key)", key)

    async def wait_turn(self) -> None:
        """Wait until the page's current task is over and its messages have arrived, or a dialog
        opens.
        """
        if self.dialogs.is_open:
            return
        with anyio.CancelScope() as turn, suppress(PageGoneError):
            self.dialogs.stop_at(turn)
            try:
                await self._evaluate("() => 0", None)
            finally:
                self.dialogs.forget(turn)

    async def _evaluate(self, expression: str, given: JsonValue) -> JsonValue:
        """Evaluate only in the initialized document, never in one that replaced it."""
        if self.lost or self._script is None:
            raise PageGoneError(self.lost)
        try:
            value: JsonValue = await self._script.evaluate(expression, given)
            return value
        except PlaywrightError as problem:
            why = await self._why(problem)
            if self.lost:
                raise PageGoneError(self.lost) from None
            return why

    async def _why(self, problem: PlaywrightError) -> str:
        """Return what `problem` means; the event that explains it may come a moment later."""
        if not self.lost:
            with anyio.move_on_after(END_LIMIT):
                await self._left.wait()
        if self._is_leaving:
            with anyio.move_on_after(PAGE_LIMIT):
                await self._left.wait()
        return self.lost or error_summary(problem)

    async def _watch(self, script: JSHandle) -> None:
        """Notice the end of the page even if no event reports it."""
        try:
            await script.evaluate("script => script.forever")
        except PlaywrightError:
            self._is_leaving = True
            with anyio.move_on_after(PAGE_LIMIT):
                await self._left.wait()
        self._lose("its page can no longer be reached")

    # --- what the page says ---

    async def _on_post(
        self,
        source: Mapping[str, Any],
        kind: JsonValue = None,
        text: JsonValue = None,
        id: JsonValue = None,
        *_: JsonValue,
    ) -> JsonObject | None:
        """Receive a message from any frame, and return an ABP response to questions."""
        frame: Frame = source["frame"]
        if self.listener is None:
            return _failure("DISCONNECTED", "The session ended.")
        if frame != self.shown.main_frame or site(frame.url) not in self.sites or self.lost:
            if not _is_own_report(kind, text):  # nobody tried to speak by it
                self._refuse(frame)
            return _failure(
                "PERMISSION_DENIED", f"Only the main frame of {self.origin} may ask or tell."
            )
        try:
            if not isinstance(text, str) or len(text) > MAX_MESSAGE:
                raise ValueError("it is no text, or too long")
            said = parse_json(text)
        except ValueError as problem:
            return _failure("INVALID_PARAMS", f"The request cannot be read: {problem}")
        if kind == "ask":
            self.overhear("ask", said, False)
            return await self._answer_page(said, str(id))
        if kind == "withdraw":
            if (scope := self._questions.get(str(said))) is not None:
                scope.cancel()
            return None
        self._report(said, self.listener)
        return None

    def _refuse(self, frame: Frame) -> None:
        whose = site(frame.url) or label(frame.url, 80) or "an unnamed frame"
        if whose not in self._refused:
            self._refused.add(whose)
            self.note(f"a frame of {whose} tried to speak for the app and was refused")

    def _report(self, said: JsonValue, listener: AppListener) -> None:
        for each in as_list(said):
            if not isinstance(each, list) or len(each) != 2:
                continue
            kind, value = each
            if self._report_own(kind, value):
                continue
            notice = abp.decode_notice(value) if kind == "notice" else None
            if notice is None or notice.name == abp.PROGRESS:
                progress = abp.decode_progress(value if notice is None else notice.data)
                if progress is not None:
                    listener.on_progress(progress)
            else:
                listener.on_notice(notice)

    def _report_own(self, kind: JsonValue, value: JsonValue) -> bool:
        """Handle a report of inject.js itself; return whether it was one."""
        match kind:
            case "console":
                self.console.add_report(value)
            case "print":
                self.files.on_print(value)
            case "going":
                self.files.on_going(value)
            case _:
                return False
        return True

    async def _answer_page(self, request: JsonValue, id: str) -> JsonObject:
        # Playwright runs this in a task that nobody can cancel; the asking is done in one of ours,
        # and always ends.
        reply: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._questions[id] = scope = anyio.CancelScope()

        async def ask() -> None:
            response = abp.encode_withdrawn(SESSION_ENDED)
            try:
                if self.listener is not None:
                    response = await handle_elicitation(request, self.listener, self.origin, scope)
            finally:
                if self._questions.get(id) is scope:  # a page that was loaded again counts anew
                    del self._questions[id]
                if not reply.done():
                    reply.set_result(response)

        self.tasks.start_soon(ask)
        return await reply

    # --- requests and windows ---

    def _on_failed_request(self, request: Request) -> None:
        reason = label(request.failure or "it failed", 80)
        if request.is_navigation_request():
            self.files.on_failed_navigation(request.url)
        if reason not in _OWN_FAILURES:
            self._on_problem(request, f"failed: {reason}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self._on_problem(response.request, f"was answered with HTTP {response.status}")

    def _on_problem(self, request: Request, words: str) -> None:
        asked = f"{request.method} {self.console.show_address(request.url)}"
        self.console.write_line("error", f"{asked} {words}")

    def _on_window(self, other: Page) -> None:
        if self.listener is None or other == self.shown:
            return
        self.files.dismiss(WINDOW)
        if self.window.in_hand:
            self.window.on_opened(other)
            return
        if self.tools is not None:
            self.tools.on_window()
        shown = self.console.show_address(other.url) or "empty"
        self.note(f"the app opened a window ({shown}), which was closed")
        self.tasks.start_soon(_close_page, other)

    # --- being gone ---

    def _on_navigation(self, event: Mapping[str, Any]) -> None:
        """Handle a new document in a frame; hash changes and pushState make none."""
        frame = event["frame"]
        if frame.get("parentId"):
            return
        self.main_frame_id = frame["id"]
        url = frame.get("unreachableUrl") or frame["url"]
        if frame.get("unreachableUrl") and not self._is_settled:
            return  # `goto` says more about this
        if site(url) not in self.sites or frame.get("unreachableUrl"):
            self._lose(f"its page went to {self.console.show_address(url)}")
        elif self._script is not None:
            shown = self.console.show_address(url)
            self._lose(f"its page was loaded anew ({shown}), and its session is lost")

    def _lose(self, reason: str) -> None:
        if self.lost:
            return
        self.lost = reason
        self._left.set()
        self.files.give_up()
        if self.tools is not None and self.tools.on_lost(reason) and self.listener is not None:
            self.tasks.start_soon(self._disconnect_after, self.tools, reason)
        else:
            self._disconnect(reason)

    async def _disconnect_after(self, tools: PageTools, reason: str) -> None:
        await tools.wait_idle()
        self._disconnect(reason)

    def _disconnect(self, reason: str) -> None:
        if self._connected and self.listener is not None:
            self.listener.on_disconnect(reason)


def _is_own_report(kind: JsonValue, text: JsonValue) -> bool:
    """Return whether the whole message comes from inject.js, which is in every frame."""
    if kind != "tell" or not isinstance(text, str) or len(text) > MAX_MESSAGE:
        return False
    try:
        said = as_list(parse_json(text))
    except ValueError:
        return False
    return bool(said) and all(isinstance(each, list) and each[:1] == ["console"] for each in said)


async def _close_page(page: Page) -> None:
    with suppress(PlaywrightError):
        await page.close()


def _decode_script_result(text: str) -> ScriptResult:
    try:
        said = as_object(parse_json(text))
    except ValueError as problem:
        return _thrown(f"the page's answer cannot be read: {problem}")
    if not ("value" in said or "thrown" in said):
        return _thrown("the page's answer cannot be read")
    notes = tuple(map(label, as_list(said.get("notes"))))
    at = as_text(said.get("at"))
    return ScriptResult(said.get("value", said.get("thrown")), "thrown" in said, notes, at)


def _thrown(words: str) -> ScriptResult:
    return ScriptResult({"message": words}, thrown=True)


def _failure(code: str, words: str) -> JsonObject:
    return {"success": False, "error": {"code": code, "message": words, "retryable": False}}
