"""One open question on the page: how its form is read, its time, the drafts, and its answer."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf, isfinite
from urllib.parse import parse_qs

import anyio
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from abp_bridge.core import file
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import label
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import Ending, SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.surfaces.http import MAX_BODY, FormError, read_body
from abp_bridge.surfaces.page import browser
from abp_bridge.surfaces.page.browser import Link, Visits
from abp_bridge.surfaces.page.controls import Filled

MAX_DRAFTS = 4  # filled-in forms that one question keeps: each may hold files
SLACK = 0.001  # seconds within which two deadlines are the same


async def read_form(request: Request, *, files: bool) -> Filled:
    """Read the form of `request`, with uploads only if `files`.

    Raises:
        FormError: It is malformed, too large, or too slow.
    """
    body = await read_body(request, MAX_BODY + (file.MAX_SIZE if files else 0))
    media_type = request.headers.get("content-type", "").lower()
    try:
        if not files or not media_type.startswith("multipart/form-data"):
            text = body.decode()
            return Filled(parse_qs(text, keep_blank_values=True))
        parser = _InMemory(
            request.headers,
            _once(body),
            max_files=100,
            max_fields=inf,  # `read_body` bounds the whole
            max_part_size=MAX_BODY,
        )
        return _collect(await parser.parse())
    except (ValueError, MultiPartException):
        raise FormError("The form could not be read. Open the question again.", 400) from None


def _collect(parts: FormData) -> Filled:
    values: dict[str, list[str]] = {}
    files: dict[str, file.File] = {}
    for name, part in parts.multi_items():
        if isinstance(part, str):
            values.setdefault(name, []).append(part)
        elif part.filename:  # a picker that nothing was picked with sends a file without a name
            files.setdefault(name, _file(part))
    return Filled(values, files)


def _file(part: UploadFile) -> file.File:
    name = label((part.filename or "").replace("\\", "/").rpartition("/")[2])
    kind = label(part.content_type or "", 100).partition(";")[0].strip().lower()
    if "/" not in kind or kind == "application/octet-stream":
        kind = file.guess_type(name)
    with part.file as opened:
        return file.File(opened.read(), kind, name)


class _InMemory(MultiPartParser):
    spool_max_size = 0  # never to disk: the whole body is bounded


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


@dataclass(frozen=True, slots=True)
class Draft:
    """A kept form, with the problems found when it was sent."""

    name: str
    filled: Filled
    wrong: Mapping[str, Sequence[str]] = field(default_factory=dict)


class OpenForm:
    """One question on the page (`PageQuestion`).

    Attributes:
        url: The link, good for one browser.
        address: The address that asks for the `code`.
        directions: How to get there over SSH, if the user came that way.
        opened: Whether the user has seen it.
        postponed: The order in which it was left for later; 0 for never.
    """

    def __init__(
        self,
        question: Question,
        context: AskContext,
        site: str,
        link: Link,
        visits: Visits,
        *,
        on_change: Callable[[], None],
        renew: Callable[[], Link],
    ) -> None:
        now, bound = anyio.current_time(), anyio.current_effective_deadline()
        asking = context.asking
        own = (
            context.timeout is None
            and asking is not None
            and not asking.is_fixed
            and asking.deadline <= bound + SLACK
        )
        self.question = question
        self.context = context
        self.url = f"{site}/open/{link.token}"
        self.address = f"{site}/code/{link.id}"
        self.code = f"{link.code[:4]}-{link.code[4:]}"
        self.directions = browser.directions(site)
        self.opened = False
        self.postponed = 0
        self.link = link
        self.asked = datetime.now()
        self.ending = anyio.Event()
        self._asked = now
        self._bound = bound if context.timeout is None else min(bound, now + context.timeout)
        self._time = asking if own else None
        self._asking = asking
        self._visits = visits
        self._on_change = on_change
        self._renew = renew
        self._site = site
        self._drafts: dict[str, Draft] = {}
        self._reply: SurfaceResponse | None = None
        self._refusal = ""

    # --- its time ---

    @property
    def deadline(self) -> float:
        """When it closes, in seconds of the loop's clock."""
        return self._bound if self._time is None else self._time.deadline

    @property
    def until(self) -> datetime | None:
        """The deadline as local time; None for no limit."""
        left = self.deadline - self._asked
        return self.asked + timedelta(seconds=left) if isfinite(left) else None

    @property
    def extends(self) -> bool:
        """Whether the user can extend the time: not if the app set it."""
        return self._time is not None

    def extend(self) -> None:
        """Restart the time."""
        if self._time is not None:
            self._time.extend()
            self._on_change()

    # --- PageQuestion ---

    def renew_url(self, inbox: str) -> str:
        """Return a link for another browser, which comes from the `inbox`."""
        self.link.inbox = inbox
        return f"{self._site}/open/{self._renew().token}"

    async def open(self) -> str:
        return await self._visits.open_browser()

    async def wait_late_browser(self) -> bool:
        return await self._visits.wait_late_browser()

    async def wait_closed(self) -> None:
        """Wait until the user closes the page; cancel the question if they saw and did not postpone
        it.
        """
        await self._visits.wait_closed()
        if self.postponed:
            await self.ending.wait()
        elif self.opened:
            self.answer(SurfaceResponse(Outcome.CANCELLED), Ending.CLOSED)

    async def wait_answer(self) -> SurfaceResponse:
        """Return the user's answer, with valid content if accepted.

        Raises:
            SurfaceUnsupportedError: It was refused.
        """
        await self.ending.wait()
        if self._reply is None:  # who waits for it keeps it on the page
            raise SurfaceUnsupportedError(self._refusal, lasting=False)
        return self._reply

    def refuse(self, reason: str) -> None:
        """Close it, unless the user has seen it or it is over."""
        if not (self.opened or self.link.ending):
            self._refusal = reason
            self.finish(Ending.MOVED)

    def answer(self, reply: SurfaceResponse, ending: Ending = Ending.ELSEWHERE) -> bool:
        """Answer it; False if it is over."""
        is_late = anyio.current_time() >= self.deadline
        is_over = self._asking is not None and self._asking.over
        if self.link.ending or is_over or is_late:
            return False
        self._reply = reply
        self.finish(ending)
        return True

    def finish(self, ending: Ending) -> None:
        """End it; the first ending counts."""
        self.link.ending = self.link.ending or ending
        self._drafts.clear()
        self.ending.set()
        self._on_change()

    # --- what was filled in ---

    def keep(self, filled: Filled, wrong: Mapping[str, Sequence[str]] | None = None) -> Draft:
        """Keep a form, with the values that no page shows again."""
        draft = Draft(secrets.token_urlsafe(8), filled, wrong or {})
        self._drafts[draft.name] = draft
        while len(self._drafts) > MAX_DRAFTS:
            del self._drafts[next(iter(self._drafts))]
        return draft

    def draft(self, name: str) -> Draft | None:
        return self._drafts.get(name)

    @property
    def last_draft(self) -> Draft | None:
        return next(reversed(self._drafts.values()), None)
