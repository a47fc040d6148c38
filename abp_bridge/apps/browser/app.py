"""Apps that are web pages: found by their manifest, opened in Chromium, called by `window.abp`.

The connected origin is the target's, or the one where its redirects led during discovery, which
checks every hop. A page that leaves this origin is disconnected.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread

from abp_bridge import VERSION
from abp_bridge.apps.browser.chromium import run_chromium
from abp_bridge.apps.browser.fetch import (
    DEFAULT_PORTS,
    Guard,
    Manifest,
    NoManifestError,
    discover,
    fetch_icon,
    is_public,
    reachable,
    resolve,
    site,
    split,
)
from abp_bridge.apps.browser.page import (
    AppPage,
    Overhear,
    PageGoneError,
    PageTools,
    ScriptResult,
    ignore,
)
from abp_bridge.apps.browser.page_state import PAGE_LIMIT, TURN_LIMIT
from abp_bridge.apps.browser.tabs import ExtensionTabs, RunBrowser, Tabs, browser_errors
from abp_bridge.apps.elicitation import ask_permission
from abp_bridge.core.capability import AppFile, AppInfo, CallResult, CapabilityList, failed
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text, parse_json
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.data import authorize
from abp_bridge.session.app import (
    DOWNLOAD_LIMIT,
    END_LIMIT,
    MAX_DOWNLOAD,
    AppError,
    AppListener,
    only_error,
)
from abp_bridge.settings import Settings

logger = logging.getLogger(__name__)

ABP_LIMIT = 10.0  # seconds for window.abp to be there, and to list its capabilities

GONE = "Browser page is no longer available — reconnect with abp_connect"
IN_HAND = "Its person has the page in hand for another call, and nobody else may touch it."
EXTENSION_PAGE = "abp-app.html"  # what ABP's documents call it

_HINT = (
    f"An extension for ABP has {EXTENSION_PAGE} beside its manifest.json. Google Chrome and Edge"
    " load no folder of an extension any more: ABP_CHROME names a Chromium."
)
# With one of these, the app says that it did not run the call.
_EXPIRED = {"SESSION_EXPIRED", "SESSION_INVALID", "NOT_INITIALIZED"}


class BrowserApp:
    """An app that is a web page.

    `named`: the user wrote the target, so its host may be private. Otherwise the user must allow it
    first, unless the settings do. `origin` is shown to the user instead of the address. `tabs`
    opens
    the page; without it, the page gets a new context in `browser`. `overhear` gets the manifest and
    the page's messages. `tools` are what a page may offer beside ABP.
    """

    renders = True
    overhear: Overhear = staticmethod(ignore)

    def __init__(
        self,
        target: str,
        settings: Settings,
        *,
        named: bool,
        origin: str = "",
        browser: RunBrowser = run_chromium,
        tabs: Tabs | None = None,
        tools: PageTools | None = None,
    ) -> None:
        parts = split(target)
        self.origin = origin or site(target)
        self._alias = origin
        self._address = parts.geturl()
        self._guard = Guard([*settings.allowed_hosts, *([parts.hostname or ""] if named else [])])
        self._named = named
        self._settings = settings
        self._tabs = tabs or Tabs(settings, browser)
        self._tools = tools
        self._speaks_abp = True
        self._page: AppPage | None = None
        self._icon = ""
        self._icon_loaded: anyio.Event | None = None
        self._sessions = 0
        self._downloads = 0
        self._renewing = anyio.Lock()

    @asynccontextmanager
    async def open_app(self, listener: AppListener) -> AsyncIterator[AppInfo]:
        """Find the app, open it in a browser and initialize the page (`App.open_app`)."""
        if not self._named:
            await self._ask_to_open(listener)
        found = await self._discover()
        async with (
            only_error(AppError),
            self._tabs.open_tab(self._address, listener) as tab,
            anyio.create_task_group() as tasks,
        ):
            with browser_errors():
                guard = None if self._named else self._guard
                page = AppPage(
                    tab, listener, tasks, self._alias, overhear=self.overhear, guard=guard
                )
                self._page = page
                await page.prepare()
                if self._tools is not None:
                    page.tools = self._tools
                    await self._tools.attach(page, self._settings)
            if isinstance(found, Manifest) and found.icon:
                self._icon_loaded = anyio.Event()
                tasks.start_soon(self._load_icon, found.icon, self._icon_loaded)
            try:
                sites = {site(self._address), site(found.url)}
                opened = await self._visit(page, found, sites)
                self.origin = page.origin
                page.confirm_connected()
                yield opened
            finally:
                with anyio.move_on_after(END_LIMIT, shield=True), suppress(PageGoneError):
                    await page.run_script("shutdown", "shutdown", "the session ended")
                page.leave()
                self._page = None
                tasks.cancel_scope.cancel()

    async def _ask_to_open(self, listener: AppListener) -> None:
        """Ask the user to allow a page whose address a model or a result gave."""
        parts = urlsplit(self._address)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
        if self._guard.names(host, port):
            return
        own = site(self._address)
        addresses = await resolve(host, port)
        private = next((each for each in addresses if not is_public(each)), "")
        words = f"Open {own}?\n\nYou did not name this address: {show_target(self._address)}"
        if private:
            words += (
                f"\n\nCaution: {host} is a private or local address ({private}). The page can reach"
                " what only your machine or network can."
            )
        await ask_permission(
            listener,
            words=words,
            origin=own,
            refused=f"{own} was not opened",
            otherwise=(
                f"Start abp-bridge with --app {own}, or with --allow {urlsplit(own).netloc}, to"
                " open it without a question."
            ),
        )
        if private:
            self._guard = Guard([*self._settings.allowed_hosts, f"{host}:{port}"])

    async def _discover(self) -> Manifest | NoManifestError:
        """Read the manifest, or return why there is none if the page may offer other tools."""
        try:
            found = await discover(self._address, self._guard)
        except AppError as problem:
            if self._tabs.remembers:
                missing = f"nobody who is not signed in can read its manifest ({problem})"
                return Manifest(self._address, (), (missing,), {})
            if self._tools is None or not isinstance(problem, NoManifestError):
                raise
            return problem
        self.overhear("manifest", found.content, False)
        return found

    async def _visit(
        self, page: AppPage, found: Manifest | NoManifestError, sites: set[str]
    ) -> AppInfo:
        limit = self._settings.browser_timeout
        patience = min(ABP_LIMIT, limit)
        try:
            await page.load(self._address, sites, limit=limit, patience=patience)
            return await self._begin(page, found, patience)
        except AppError as problem:
            if not self._tabs.remembers or problem.code == "TIMEOUT":
                raise
            raise problem.with_message(f"{problem} {self._tabs.sign_in}") from None

    async def _begin(
        self, page: AppPage, found: Manifest | NoManifestError, patience: float
    ) -> AppInfo:
        """Initialize the loaded page, or raise AppError if it offers nothing."""
        if isinstance(found, Manifest):
            return await self._begin_abp(page, found, patience)
        assert self._tools is not None, "else a page without a manifest is not loaded"
        if missing := await self._tools.find_tool(min(PAGE_LIMIT, patience)):
            raise found.with_message(f"{found} {missing}{page.console.said}")
        return await self._begin_tools(page, self._tools)

    async def _begin_abp(self, page: AppPage, found: Manifest, patience: float) -> AppInfo:
        unread = not found.content  # whether it speaks ABP, only the page can say
        if unread and self._tools is not None and not await self._tools.find_tool(0):
            patience = min(patience, TURN_LIMIT)
        try:
            await page.find_app(patience)
        except AppError as problem:
            if self._tools is None or problem.code != "NOT_SUPPORTED":
                raise
            if missing := await self._tools.find_tool(0):
                raise problem.with_message(f"{problem} {missing}") from None
            return await self._begin_tools(page, self._tools, [] if unread else [str(problem)])
        self.origin = page.origin
        opened = await self._describe_app(page, found)
        return opened if self._tools is None else await self._add_tools(opened, self._tools)

    async def _begin_tools(
        self, page: AppPage, tools: PageTools, warnings: Sequence[str] = ()
    ) -> AppInfo:
        """Connect a page that offers only tools."""
        page.settle()
        self._speaks_abp = False
        name = label(urlsplit(page.origin).hostname or page.origin, 80)
        bare = AppInfo(name, await page.title() or name, "", "WebMCP", (), tuple(warnings))
        return await self._add_tools(bare, tools)

    async def _add_tools(self, opened: AppInfo, tools: PageTools) -> AppInfo:
        """Add the page's tools to what it offers by ABP."""
        more = await tools.capabilities([each.name for each in opened.capabilities])
        return replace(
            opened,
            capabilities=(*opened.capabilities, *more),
            warnings=(*opened.warnings, *more.problems),
        )

    async def call_capability(self, capability: str, params: JsonObject, call: str) -> CallResult:
        """Call a capability; repeat the call once in a new session if the old one had ended."""
        if self._tools is not None and self._tools.has(capability):
            return await self._tools.call_tool(capability, params, call)
        if not self._speaks_abp:
            return failed("UNKNOWN_CAPABILITY", f"The page offers no tool {label(capability)!r}.")
        session = self._sessions
        result = await self._call_in_page(capability, params, call)
        if (
            result.failure is not None
            and result.failure.code in _EXPIRED
            and await self._renew(session)
        ):
            return await self._call_in_page(capability, params, call)
        return result

    async def cancel_call(self, call: str, reason: str) -> None:
        """Cancel a call if the page reacts soon."""
        if self._page is not None:
            with anyio.move_on_after(END_LIMIT):
                await self._page.cancel_call(call, reason)

    async def wait_idle(self) -> None:
        """Wait until the page has run another task, or a dialog stops it."""
        if self._page is not None:
            with anyio.move_on_after(TURN_LIMIT):
                await self._page.wait_turn()

    async def capabilities(self) -> CapabilityList:
        """Return what the page lists within `ABP_LIMIT`."""
        listed = await self._list() if self._speaks_abp else CapabilityList()
        if self._tools is None or self._page is None:
            return listed
        more = await self._tools.capabilities([each.name for each in listed])
        problems = [*listed.problems, *more.problems]
        return CapabilityList([*listed, *more], problems, failed=listed.failed)

    async def _list(self) -> CapabilityList:
        if self._page is not None:
            with anyio.move_on_after(ABP_LIMIT), suppress(PageGoneError):
                listed = await self._page.run_script("capabilities", "capabilities")
                try:
                    if not listed.thrown:
                        return abp.decode_capabilities(listed.value)
                    problem = str(_result(listed).failure)
                except RemoteProtocolError as refused:
                    problem = str(refused)
                return CapabilityList.failure(problem)
        return CapabilityList.failure()

    async def download(self, url: str, auth: JsonObject) -> AppFile:
        """Fetch with the page's own `fetch`, cookies and CORS rules (`App.download`)."""
        page = self._page
        if page is None:
            raise AppError(GONE, "DISCONNECTED")
        if not self._named and (own := site(url)):
            parts = urlsplit(own)
            port = parts.port or DEFAULT_PORTS[parts.scheme]
            await reachable(parts.hostname or "", port, self._guard)
        self._downloads += 1
        address, headers = authorize(url, auth)
        given: JsonObject = {
            "url": url,
            "address": address,
            "headers": dict(headers),
            "largest": MAX_DOWNLOAD,
            "patience": DOWNLOAD_LIMIT * 1000,
        }
        key = f"download-{self._downloads}"
        try:
            with anyio.fail_after(DOWNLOAD_LIMIT + 1):  # the page's own limit comes first
                returned = await page.run_script("download", key, json.dumps(given))
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(END_LIMIT, shield=True):
                await page.abandon(key)
            raise
        except PageGoneError:
            raise AppError(GONE, "DISCONNECTED") from None
        except TimeoutError:
            late = f"{show_target(url)} did not come within {DOWNLOAD_LIMIT:g} s"
            raise AppError(late, "TIMEOUT") from None
        if returned.thrown:
            raise AppError(f"the page could not fetch it: {_why_not_fetched(returned.value)}")
        return await anyio.to_thread.run_sync(_read_file, url, as_object(returned.value))

    async def render_pdf(self) -> bytes:
        """Print the page as PDF (`App.render_pdf`)."""
        if self._page is None or self._page.lost:
            raise AppError(GONE, "DISCONNECTED")
        limit = self._settings.browser_timeout
        try:
            with anyio.fail_after(limit), browser_errors():
                return await self._page.files.print()
        except TimeoutError:
            raise AppError(
                f"{self.origin}: its page was not printed within {limit:g} s", "TIMEOUT"
            ) from None

    async def _call_in_page(self, capability: str, params: JsonObject, call: str) -> CallResult:
        page = self._page
        if page is None:
            return failed("DISCONNECTED", GONE, retryable=True)
        if page.window.in_hand:
            return failed("RATE_LIMITED", IN_HAND, retryable=True)
        with page.files.calling() as given:
            try:
                returned = await page.run_script("call", call, capability, json.dumps(params))
                await given.wait()
            except PageGoneError:
                gone = failed("DISCONNECTED", GONE, retryable=True)
                return replace(gone, files=tuple(given.files))
        notes = (*returned.notes, *given.problems)
        return replace(_result(replace(returned, notes=notes)), files=tuple(given.files))

    async def _describe_app(self, page: AppPage, found: Manifest) -> AppInfo:
        opened = await self._initialize(page)
        listed = await self._list()
        capabilities = abp.merge_capabilities(found.capabilities, opened.capabilities, listed)
        warnings = dict.fromkeys([*found.warnings, *opened.warnings, *listed.problems])
        if capabilities and not opened.capabilities and not listed:
            warnings["the app itself names no capabilities; these are its manifest's"] = None  # D3
        callable_names = {each.name for each in capabilities}
        unlisted = [each.name for each in found.capabilities if each.name not in callable_names]
        if unlisted:
            names = ", ".join(unlisted)
            warnings[f"its manifest also names {names}, which the page itself does not list"] = None
        if self._icon_loaded is not None:
            with anyio.move_on_after(END_LIMIT):
                await self._icon_loaded.wait()
        return replace(opened, capabilities=capabilities, warnings=tuple(warnings), icon=self._icon)

    async def _load_icon(self, url: str, loaded: anyio.Event) -> None:
        try:
            self._icon = await fetch_icon(url, self._guard)
        except AppError as problem:
            logger.warning("%s: its icon is not shown: %s", self.origin, problem)
        loaded.set()

    async def _initialize(self, page: AppPage) -> AppInfo:
        limit = self._settings.browser_timeout
        try:
            with anyio.fail_after(limit):
                answer = await page.run_script(
                    "initialize", "initialize", json.dumps(abp.initialize_params(VERSION))
                )
            if answer.thrown:
                why = f"{self.origin} refused initialize: {_result(answer).failure}."
                raise AppError(f"{why}{page.console.said}")
            self._sessions += 1
            return abp.decode_app_info(answer.value)
        except TimeoutError:
            raise AppError(
                f"{self.origin} did not answer initialize within {limit:g} s.{page.console.said}",
                "TIMEOUT",
            ) from None
        except PageGoneError as problem:
            raise AppError(
                f"{self.origin}: {problem} before it answered initialize", "DISCONNECTED"
            ) from None
        except RemoteProtocolError as problem:
            words = f"{self.origin}: {problem}.{page.console.said}"
            raise AppError(words, problem.code) from None

    async def _renew(self, session: int) -> bool:
        """Return whether a session newer than `session` exists; the first caller starts it."""
        async with self._renewing:
            if self._sessions == session and self._page is not None:
                with suppress(AppError):
                    await self._initialize(self._page)
            return self._sessions > session


class ExtensionApp(BrowserApp):
    """The browser extension in the user's folder `target`.

    Raises:
        AppError: Its manifest.json cannot be read.
    """

    def __init__(self, target: str, settings: Settings) -> None:
        folder = Path(target).expanduser().resolve()
        super().__init__(
            "http://127.0.0.1/",
            settings,
            named=True,
            origin=f"extension {label(folder.name)}",
            tabs=ExtensionTabs(settings, folder),
        )
        self._address = f"chrome-extension://{_find_id(folder)}/{EXTENSION_PAGE}"

    async def _discover(self) -> Manifest:
        return Manifest(self._address, (), (), {})

    async def _visit(
        self, page: AppPage, found: Manifest | NoManifestError, sites: set[str]
    ) -> AppInfo:
        try:
            return await super()._visit(page, found, sites)
        except AppError as problem:
            raise problem.with_message(f"{problem} {_HINT}") from None


def _result(returned: ScriptResult) -> CallResult:
    value, note = returned.value, "; ".join(returned.notes)
    if returned.thrown and as_object(value).get("success") is not False:
        value = {"success": False, "error": _error(value, returned.at)}
    result = abp.decode_result(value)
    if note:
        noted = [text for text in (result.metadata.get("note"), note) if isinstance(text, str)]
        result = replace(result, metadata={**result.metadata, "note": "; ".join(noted)})
    return result


def _why_not_fetched(thrown: JsonValue) -> str:
    words = label(as_text(as_object(thrown).get("message")), 200)
    if words == "Failed to fetch":  # Chromium says no more
        return "there is no answer, or CORS or the page's Content-Security-Policy forbid it"
    return words


def _read_file(url: str, file: JsonObject) -> AppFile:
    """Decode a file that inject.js fetched."""
    blob = next(iter(abp.extract(file)[1]), None)
    if not isinstance(blob, abp.Blob):
        raise AppError("the page's answer cannot be read")
    name = "" if url.startswith("blob:") else unquote(urlsplit(url).path.rpartition("/")[2])
    return AppFile(blob.content, blob.mime_type, name)


def _error(thrown: JsonValue, at: str) -> dict[str, JsonValue]:
    """Return a thrown value as an ABP error (X27), with its place in the page if known."""
    members = as_object({"message": thrown} if isinstance(thrown, str) else thrown)
    name, code, words = (as_text(members.get(word)) for word in ("name", "code", "message"))
    if not words:
        words = f"the app threw {label(json.dumps(thrown))}, and no Error with a message"
    elif name not in ("", "Error", "AbortError"):
        words = f"{name}: {words}"
    words += f" (at {at})" if at else ""
    code = code or ("CANCELLED" if name == "AbortError" else "OPERATION_FAILED")
    return {**members, "code": code, "message": words}


def _find_id(folder: Path) -> str:
    """Return the extension's id, which Chromium derives from its key or its folder."""
    try:
        manifest = as_object(parse_json((folder / "manifest.json").read_bytes()))
        key = as_text(manifest.get("key"))
        known = base64.b64decode(key, validate=True) if key else os.fsencode(folder)
    except (OSError, ValueError, binascii.Error) as problem:
        words = f"extension {label(folder.name)}: its manifest.json cannot be read: {problem}"
        raise AppError(words, "INVALID_PARAMS") from None
    digits = hashlib.sha256(known).hexdigest()[:32]
    return "".join(chr(ord("a") + int(each, 16)) for each in digits)
