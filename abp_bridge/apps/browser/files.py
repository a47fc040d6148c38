"""The files that a page gives during a call: prints and downloads.

`CallFiles` counts the pending ones, so that the call's result can wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from playwright.async_api import Download
from playwright.async_api import Error as PlaywrightError

from abp_bridge.apps.browser.chromium import error_summary
from abp_bridge.apps.browser.page_state import PageState
from abp_bridge.core.capability import AppFile
from abp_bridge.core.file import guess_type
from abp_bridge.core.json_value import JsonValue, as_text
from abp_bridge.core.sanitize import label
from abp_bridge.protocols.abp.data import UNKNOWN
from abp_bridge.session.app import DOWNLOAD_LIMIT, MAX_DOWNLOAD

MAX_CALL_FILES = 10  # that a page may give during one call: more is no result
STAYED = "nowhere"  # as the page did not let itself be left
WINDOW = "a window"  # that the page opens: a download may be all that comes of it


class CallFiles:
    """The files that one call got, and those still pending."""

    def __init__(self) -> None:
        self.files: list[AppFile] = []
        self.problems: list[str] = []
        self._taken = 0
        self._under_way = 0
        self._awaited: list[str] = []  # where the page went: a download, or another page
        self._early: list[str] = []  # what came before the page's own word of it
        self._changed = anyio.Event()

    def expect(self, url: str) -> None:
        """Expect a file: the page went to `url`, or opens a window."""
        for known in (url, STAYED):
            if known in self._early:
                self._early.remove(known)
                return
        if len(self._awaited) < MAX_CALL_FILES:
            self._awaited.append(url)

    def dismiss(self, url: str) -> None:
        """Stop expecting a file from `url`, or from `STAYED`."""
        if url == STAYED and self._awaited:
            self._awaited.clear()
        elif url in self._awaited:
            self._awaited.remove(url)
        elif len(self._early) < MAX_CALL_FILES:
            self._early.append(url)
        self._change()

    def give_up(self) -> None:
        """Stop waiting: the page is lost."""
        self._awaited.clear()
        self._change()

    def begin(self, url: str = "") -> bool:
        """Return whether a file may be received; then `end` must follow."""
        if url:
            kinds = [each for each in (url, WINDOW, *self._awaited) if each in self._awaited]
            self.dismiss(kinds[0] if kinds else url)  # it may have been redirected
        if self._taken >= MAX_CALL_FILES:
            return False
        self._taken += 1
        self._under_way += 1
        return True

    def finish_file(self, given: AppFile | None, problem: str = "") -> None:
        """Add a received file, or the reason why there is none."""
        if given is not None:
            self.files.append(given)
        if problem:
            self.problems.append(problem)
        self._under_way -= 1
        self._change()

    async def wait(self) -> None:
        """Wait for all files, at most `DOWNLOAD_LIMIT`; report the missing ones."""
        with anyio.move_on_after(DOWNLOAD_LIMIT):
            while self._awaited or self._under_way:
                await self._changed.wait()
        missing = [label(url, 200) for url in self._awaited]
        missing += [f"{self._under_way} files"] if self._under_way else []
        if missing:
            late = f"did not come within {DOWNLOAD_LIMIT:g} s"
            self.problems.append(f"what it went for ({', '.join(missing)}) {late}")
            self.give_up()

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


DOWNLOAD_GRACE = 0.5  # seconds from a request's end to the download that it is
DOWNLOAD_END = 2.0  # seconds to give one up, and to take its file away


@dataclass(eq=False, slots=True)
class _Running:
    """A download that a call waits for."""

    download: Download
    files: CallFiles  # of that call
    is_too_large: bool = False


class PageFiles:
    """The files of one page."""

    def __init__(self, page: PageState) -> None:
        self._page = page
        self._calls: list[CallFiles] = []  # of those that run
        self._downloads: list[_Running] = []
        self._printing = anyio.Lock()
        self._frames: dict[str, tuple[str, str]] = {}  # by download's id: the frame, the address

    @property
    def is_calling(self) -> bool:
        """Whether a call of this page runs."""
        return bool(self._calls)

    @contextmanager
    def calling(self) -> Iterator[CallFiles]:
        """During a call, collect files and ask dialogs as questions; afterwards, cancel downloads.

        The newest call gets them.
        """
        files = CallFiles()
        self._calls.append(files)
        try:
            yield files
        finally:
            self._calls.remove(files)
            for running in self._downloads:
                if running.files is files:
                    self._page.tasks.start_soon(_cancel_download, running.download)

    async def print(self) -> bytes:
        """Print the page as PDF."""
        async with self._printing:  # Chromium prints one after the other, or none
            return await self._page.shown.pdf(print_background=True, prefer_css_page_size=True)

    def on_print(self, title: JsonValue) -> None:
        """Handle `window.print()`."""
        if not self._calls or not self._calls[-1].begin():
            self._page.note("print() was refused: only a call prints, and not without end")
            return
        self._page.tasks.start_soon(self._print_for, self._calls[-1], self._safe_name(title, 80))

    async def _print_for(self, files: CallFiles, title: str) -> None:
        given, problem = None, "its print() was not done: the page went"
        try:
            printed = await self.print()
            given = AppFile(printed, "application/pdf", f"{title or 'page'}.pdf", "window.print()")
            problem = ""
        except PlaywrightError as failed:
            problem = f"its print() failed: {error_summary(failed)}"
        finally:
            files.finish_file(given, problem)

    def _safe_name(self, words: JsonValue, longest: int) -> str:
        """Return the name that the page gave a file, made safe."""
        return label(self._page.console.replace_secrets(as_text(words))[0], longest)

    def on_going(self, url: JsonValue) -> None:
        """Expect a file: the page goes to an address, or opens a window."""
        if self._calls:
            self._calls[-1].expect(as_text(url))

    def on_download(self, download: Download) -> None:
        name = self._safe_name(download.suggested_filename, 120)
        is_awaited = self._page.listener is not None and bool(self._calls)
        if not is_awaited or not self._calls[-1].begin(download.url):
            self._page.note(f"a download was refused: {name}")
            self._page.tasks.start_soon(_cancel_download, download)
            return
        running = _Running(download, self._calls[-1])
        self._downloads.append(running)
        self._page.tasks.start_soon(self._take_download, running, name)

    async def _take_download(self, running: _Running, name: str) -> None:
        given, problem = None, f"its download {name} did not come"
        try:
            given, problem = await self._read_download(running, name)
        except PlaywrightError as failed:
            problem = f"its download {name} failed: {error_summary(failed)}"
        finally:
            running.files.finish_file(given, problem)
            self._downloads.remove(running)
            with anyio.move_on_after(DOWNLOAD_END, shield=True), suppress(PlaywrightError):
                await running.download.cancel()  # what still comes would be waited for
                await running.download.delete()

    async def _read_download(self, running: _Running, name: str) -> tuple[AppFile | None, str]:
        """Wait for a download; return the file, or why there is none."""
        download = running.download
        too_large = f"its download {name} has more than {MAX_DOWNLOAD} bytes"
        if failed := await download.failure():
            other = f"its download {name} failed: {label(failed, 80)}"
            return None, too_large if running.is_too_large else other
        if not self._is_own(download.url):
            self._page.note(f"a download of a frame was refused: {name}")
            return None, ""
        content = await anyio.to_thread.run_sync(_load_file, await download.path())
        if content is None:
            return None, too_large
        kind = guess_type(name)
        return AppFile(content, "" if kind == UNKNOWN else kind, name, "a download"), ""

    def dismiss(self, url: str) -> None:
        for files in self._calls[-1:]:
            files.dismiss(url)

    def on_failed_navigation(self, url: str) -> None:
        """Wait a moment: an aborted request may become a download."""
        if self._calls:
            self._page.tasks.start_soon(self._dismiss_later, url)

    def give_up(self) -> None:
        """Stop waiting: the page is lost."""
        for files in self._calls:
            files.give_up()

    async def _dismiss_later(self, url: str) -> None:
        await anyio.sleep(DOWNLOAD_GRACE)
        self.dismiss(url)

    def _is_own(self, url: str) -> bool:
        """Return whether the app started a download: its origin or its main frame."""
        begun = [frame for frame, begun in self._frames.values() if begun == url]
        by_main = self._page.main_frame_id in begun
        return by_main or self._page.is_own_site(url.removeprefix("blob:"))

    def on_download_begin(self, event: Mapping[str, Any]) -> None:
        """Record the frame of a download (`Page.downloadWillBegin`)."""
        self._frames[event["guid"]] = event["frameId"], event["url"]

    def on_download_progress(self, event: Mapping[str, Any]) -> None:
        """Cancel a download that is too large (`Page.downloadProgress`)."""
        if max(event["receivedBytes"], event["totalBytes"]) > MAX_DOWNLOAD:
            _, url = self._frames.get(event["guid"], ("", ""))
            for running in self._downloads:
                if running.download.url == url:  # which of several, Playwright does not say
                    running.is_too_large = True
                    self._page.tasks.start_soon(_cancel_download, running.download)


def _load_file(file: Path) -> bytes | None:
    """Return the file, or None if it is too large; the browser may not have reported it yet."""
    return file.read_bytes() if file.stat().st_size <= MAX_DOWNLOAD else None


async def _cancel_download(download: Download) -> None:
    with suppress(PlaywrightError):
        await download.cancel()
