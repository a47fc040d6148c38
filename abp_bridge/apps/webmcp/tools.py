"""What a page offers by WebMCP, as capabilities, listed again after changes (`PageTools`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import anyio
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.chromium import error_summary
from abp_bridge.apps.browser.page import AppPage, PageTools, ignore
from abp_bridge.apps.browser.page_state import PAGE_LIMIT, TURN_LIMIT
from abp_bridge.apps.webmcp.call import ToolCall
from abp_bridge.apps.webmcp.form_call import FormCall
from abp_bridge.apps.webmcp.page_form import PageForm
from abp_bridge.apps.webmcp.tool_session import CallRefusedError, ToolSession
from abp_bridge.core.capability import CallResult, Capability, CapabilityList, failed
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text, parse_json
from abp_bridge.core.ledger import Notice, NoticeKind
from abp_bridge.core.redact.texts import REPEATED
from abp_bridge.core.sanitize import label
from abp_bridge.protocols.webmcp.form import withheld_controls
from abp_bridge.protocols.webmcp.tools import (
    Key,
    Tool,
    clean_tool,
    describe_tools,
    has_nested_secret,
    name_tools,
    unsent_result,
    withheld_names,
)
from abp_bridge.settings import Settings

SCRIPT = Path(__file__).with_name("written.js")
SHARE = 0.8  # of a call's limit: the page's silence ends before the call does
_CHANGED = f"notifications/{NoticeKind.CAPABILITIES_CHANGED.value}"


class WrittenTools:
    """What one page registered, reported to `overhear` as `tools`."""

    def __init__(self, page: AppPage) -> None:
        self._page = page
        self._script = SCRIPT.read_text(encoding="utf-8")

    async def attach(self) -> None:
        """Record each registration from the page's first script on."""
        await self._page.shown.add_init_script(f"({self._script})(false)")

    async def tell(self) -> None:
        """Report the registrations so far, or `why` they cannot be read."""
        said: JsonObject = {"why": f"it did not say within {PAGE_LIMIT:g} s"}
        with anyio.move_on_after(PAGE_LIMIT):
            try:
                said = _decode_written(await self._page.shown.evaluate(f"({self._script})(true)"))
            except PlaywrightError as problem:
                said = {"why": error_summary(problem)}
        self._page.overhear("tools", said, False)


def _decode_written(text: JsonValue) -> JsonObject:
    try:
        return as_object(parse_json(as_text(text)))
    except ValueError:
        return {"why": "it is no JSON"}


QUIET = 0.1  # seconds without a change, after which a list is told: pages register one by one


class WebMcpTools(PageTools):
    """The tools of the page that `attach` gets (`PageTools`)."""

    def __init__(self) -> None:
        self._page: AppPage | None = None
        self._session: ToolSession | None = None
        self._written: WrittenTools | None = None  # where somebody checks the page
        self._limit = 0.0
        self._names: dict[Key, str] = {}
        self._listed: list[Capability] = []
        self._busy: dict[Key, tuple[str, float]] = {}  # forms: which call has them, and since when
        self._unanswered = 0.0  # seconds after which a call ends that nobody answers
        self._running = 0
        self._ended = anyio.Event()  # a call has
        self._changed = anyio.Event()
        self._told: dict[Key, Tool] | None = None  # what was listed last
        self._listed_before: dict[Key, Tool] = {}  # before the page was given a secret

    async def attach(self, page: AppPage, settings: Settings) -> None:
        self._page = page
        self._limit = settings.call_timeout * SHARE
        self._unanswered = min(settings.question_timeout, settings.park_timeout)
        self._session = ToolSession(page, self._on_change)
        await self._session.start_listening()
        if page.overhear is not ignore:
            self._written = WrittenTools(page)
            await self._written.attach()
        page.tasks.start_soon(self._tell_changes)

    async def find_tool(self, limit: float) -> str:
        assert self._session is not None
        assert self._page is not None
        missing = await self._wait_for_tool(limit, self._session, self._page)
        if self._written is not None:
            await self._written.tell()
        return missing

    async def _wait_for_tool(self, limit: float, session: ToolSession, page: AppPage) -> str:
        if not await session.is_known_to_page():
            if page.lost:
                return f"The page is gone: {page.lost}."
            return (
                "Nor can it offer tools by WebMCP: it has no document.modelContext, as a page that"
                " is not https has none, a Chromium before 153, and one that was started without"
                " --enable-features=WebMCP."
            )
        with anyio.move_on_after(limit):
            while not session.tools:
                await self._changed.wait()
        if session.tools:
            return ""
        warnings = "".join(f" But {each}." for each in await session.warnings())
        return (
            "Nor does it offer tools by WebMCP: no script of it registered one within"
            f" {limit:g} s, and no form of it has both a toolname and a tooldescription.{warnings}"
        )

    async def capabilities(self, taken: Collection[str]) -> CapabilityList:
        """Return the tools; if none is left, the earlier ones as unavailable."""
        session = self._session
        assert session is not None
        problems = [*await session.warnings()]
        if self._written is not None:
            await self._written.tell()
        tools, self._told = list(session.tools.values()), dict(session.tools)
        if not session.knows_secrets:
            self._listed_before = self._told
        self._names = name_tools(tools, taken, self._names, list(session.frames))
        offered: list[tuple[Tool, str, Mapping[str, bool]]] = []
        until = anyio.current_time() + PAGE_LIMIT
        for each in tools:
            name = self._names[each.key]
            withheld, problem = await self._find_withheld(each, until)
            is_old = self._listed_before.get(each.key) == each
            shown = each if is_old else clean_tool(each, session.hide)
            if shown is None:
                problems.append(f"a tool cannot be called: {REPEATED}")
            elif problem:
                problems.append(f"the tool {label(name, 80)} cannot be called: {problem}")
            else:
                offered.append((shown, name, withheld))
        listed = describe_tools(offered)
        self._listed = list(listed) or [replace(each, available=False) for each in self._listed]
        return CapabilityList(self._listed, [*problems, *listed.problems])

    async def _find_withheld(self, tool: Tool, until: float) -> tuple[Mapping[str, bool], str]:
        """Return the parameters hidden from the model, and why the tool cannot be offered.

        Each parameter has whether the user is asked for it.
        """
        assert self._session is not None
        if has_nested_secret(tool.schema):
            return {}, "it takes a secret inside of another parameter"
        if tool.node is None:
            return dict.fromkeys(withheld_names(tool.schema), True), ""
        try:
            with anyio.fail_after(until - anyio.current_time()):
                form = await PageForm(self._session, tool).read_form()
                return withheld_controls(form, at_once=tool.autosubmit), ""
        except TimeoutError:
            return {}, f"its page's forms could not be read within {PAGE_LIMIT:g} s"
        except CallRefusedError as problem:
            return {}, str(problem)

    def has(self, capability: str) -> bool:
        return capability in self._names.values()

    async def call_tool(self, capability: str, params: JsonObject, call: str) -> CallResult:
        """Call a tool, unless it or its page is busy."""
        assert self._session is not None
        assert self._page is not None
        key = next(key for key, name in self._names.items() if name == capability)
        with anyio.move_on_after(TURN_LIMIT):
            while key in self._busy:  # a call that its host has given up still clears up
                await self._ended.wait()
        tool = self._session.tools.get(key)
        if self._page.lost or self._page.listener is None:
            return unsent_result("its page is gone: reconnect with abp_connect", "DISCONNECTED")
        if tool is None:
            words = f"The page does not offer {label(capability)} any more."
            return failed("UNKNOWN_CAPABILITY", words)
        told = (self._told or {}).get(key, tool)
        if told.read_only > tool.read_only or told.needs_approval < tool.needs_approval:
            words = "the page says by now that it may do more than was listed: look what it offers"
            return unsent_result(words, "PERMISSION_REQUIRED", retryable=True)
        if self._page.window.in_hand:
            words = "its person has the page in hand, and nobody else may touch it"
            return unsent_result(words, "RATE_LIMITED", retryable=True)
        if key in self._busy:
            other, since = self._busy[key]
            age = anyio.current_time() - since
            words = (
                f"another call of this form ({other}) is open for {age:.0f} s now, and there is one"
                " form: it is free once that is answered or taken back, or was not answered for"
                f" {self._unanswered:g} s"
            )
            return unsent_result(words, "RATE_LIMITED", retryable=True)
        self._running += 1
        if tool.node is not None:
            self._busy[key] = call, anyio.current_time()
        try:
            with self._page.files.calling() as given:
                result = await self._make(tool, params, call)
                await given.wait()
            note = self._session.hide("; ".join(given.problems))
            metadata = {**result.metadata, **({"note": note} if note else {})}
            return replace(result, files=tuple(given.files), metadata=metadata)
        finally:
            self._busy.pop(key, None)
            self._running -= 1
            self._ended.set()
            self._ended = anyio.Event()

    async def _make(self, tool: Tool, params: JsonObject, call: str) -> CallResult:
        assert self._session is not None
        assert self._page is not None
        kind = ToolCall if tool.node is None else FormCall
        made = kind(
            self._session,
            self._page,
            tool,
            origin=self._page.origin,
            call=call,
            limit=self._limit,
        )
        return await made.run_call(params)

    # --- what happens to it ---

    def on_lost(self, reason: str) -> bool:
        """End the calls before the listener hears of the loss."""
        if self._session is not None:
            self._session.on_lost(reason)
        return self._running > 0

    async def wait_idle(self) -> None:
        with anyio.move_on_after(TURN_LIMIT):
            while self._running:
                await self._ended.wait()

    def on_window(self) -> None:
        if self._session is not None:
            self._session.on_window()

    def _on_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _tell_changes(self) -> None:
        """Report changes of the tools, in batches."""
        assert self._page is not None
        assert self._session is not None
        while True:
            await self._changed.wait()
            late = False
            while not late:
                with anyio.move_on_after(QUIET) as waiting:
                    await self._changed.wait()
                late = waiting.cancelled_caught
            is_news = self._told is not None and self._told != self._session.tools
            if is_news and self._page.listener is not None and not self._page.lost:
                kind = NoticeKind.CAPABILITIES_CHANGED
                self._page.listener.on_notice(Notice(kind, _CHANGED))
