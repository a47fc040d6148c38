"""What an app offers the bridge (`App`), and what the bridge offers an app (`AppListener`)."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import AppFile, AppInfo, CallResult, CapabilityList
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.ledger import Notice, Progress
from abp_bridge.core.question import Question
from abp_bridge.errors import AbpBridgeError, only_cause
from abp_bridge.session.context import NO_CONTEXT, AskContext

MAX_DOWNLOAD = 48 * 2**20  # bytes of a file that is fetched: as base64 a page's result may hold it
END_LIMIT = 0.4  # seconds for an app to react as its call or session ends: a host waits two
DOWNLOAD_LIMIT = 30.0  # seconds to fetch one file: what ABP's documents give it


class Absence(enum.Enum):
    """What is not there, where an app cannot be connected: what there is to do differs."""

    HOST = "a host of that name"
    SERVER = "a server that answers at the address"
    DOCUMENT = "the document: its server has none there"
    SIGN_IN = "the document: its server wants somebody to be signed in"
    ACCESS = "the document: its server does not give it"
    WORKING_SERVER = "the document: its server failed"
    LINK = "the page's link to a manifest"
    MANIFEST = "the manifest that the page links to"
    CONTENT = "a manifest in what the page links to"


def find_absence(status: int) -> Absence:
    """What an HTTP status of a failed request says."""
    known = {401: Absence.SIGN_IN, 404: Absence.DOCUMENT, 410: Absence.DOCUMENT}
    return known.get(status, Absence.WORKING_SERVER if status >= 500 else Absence.ACCESS)


class AppError(AbpBridgeError):
    """An app that cannot be connected or used; the message says what to do.

    Attributes:
        code: An ABP error code.
        absence: What is missing, if that is the reason.
    """

    def __init__(
        self, message: str, code: str = "TRANSPORT_ERROR", absence: Absence | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.absence = absence

    def with_message(self, message: str) -> AppError:
        """The same error with another message."""
        return AppError(message, self.code, self.absence)


class AppListener(Protocol):
    """Where an app's connection brings questions and reports. Nothing here raises."""

    def new_question_id(self) -> str:
        """Return an id that no other question of the session has."""
        ...

    async def elicit(self, question: Question, context: AskContext = NO_CONTEXT) -> Answer:
        """Put a question to the user and return its one answer; a failure is an answer too.

        `context` has the app's part: its call, and the user's time.
        """
        ...

    def can_sample(self) -> bool:
        """Whether there is a model now that can be asked."""
        ...

    def on_notice(self, notice: Notice) -> None:
        """The app told something; also before `App.open_app` is through."""
        ...

    def on_progress(self, progress: Progress) -> None:
        """The app told how far one of its calls is."""
        ...

    def on_disconnect(self, reason: str) -> None:
        """The app cannot be reached any more: its page left, its browser or its process died."""
        ...


class App(Protocol):
    """One app.

    Attributes:
        origin: Its address or command, never the app's own words.
        renders: Whether `render_pdf` can work.
    """

    origin: str
    renders: bool

    def open_app(self, listener: AppListener) -> AbstractAsyncContextManager[AppInfo]:
        """Connect and initialize the app; shut it down at the end of the block.

        Raises:
            AppError: It cannot be connected.
        """
        ...

    async def call_capability(self, capability: str, params: JsonObject, call: str) -> CallResult:
        """Call a capability and wait for its result, without a time limit.

        `params` are checked; `call` is the id that the app may name. Raises nothing but
        cancellation: a lost app is a `DISCONNECTED` failure.
        """
        ...

    async def cancel_call(self, call: str, reason: str) -> None:
        """Notify the app that a call is over. Bounded in time; never raises."""
        ...

    async def wait_idle(self) -> None:
        """Wait until the app's own turn is over: what it asks at the same time is on its way.

        Bounded in time; raises only cancellation.
        """
        ...

    async def capabilities(self) -> CapabilityList:
        """What the app offers now; empty when it does not say."""
        ...

    async def download(self, url: str, auth: JsonObject) -> AppFile:
        """Fetch what a result refers to, within `DOWNLOAD_LIMIT`.

        `auth` is the app's `{"type": "bearer" | "query", ...}`, or empty.

        Raises:
            AppError: It cannot be fetched.
        """
        ...

    async def render_pdf(self) -> bytes:
        """Return the app's page as a PDF.

        Raises:
            AppError: There is no page, or it cannot be printed.
        """
        ...


@asynccontextmanager
async def only_error(*kinds: type[Exception]) -> AsyncIterator[None]:
    """Raise the one error inside a task group's, if it is one of `kinds`."""
    try:
        yield
    except BaseExceptionGroup as group:
        inner = only_cause(group)
        if isinstance(inner, kinds):
            raise inner from None
        raise
