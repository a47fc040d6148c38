"""The asking side: connections to apps.

What every kind of app offers the bridge, and what the bridge offers every app.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from abp_bridge.core.capability import AppInfo, CallResult, Capability
from abp_bridge.core.json_value import Json
from abp_bridge.core.notice import Notice, Progress
from abp_bridge.core.question import Answer, Question


class AppError(Exception):
    """An app that cannot be connected or spoken to.

    `code` is an ABP error code; the message says what to do.
    """

    def __init__(self, message: str, code: str = "TRANSPORT_ERROR") -> None:
        super().__init__(message)
        self.code = code


class AppListener(Protocol):
    """Where an app's connection brings what the app asks and tells. Nothing here raises."""

    def new_question_id(self) -> str: ...

    async def ask(self, question: Question) -> Answer:
        """Put a question to the person. Returns once, however it ends."""
        ...

    def on_notice(self, notice: Notice) -> None: ...

    def on_progress(self, progress: Progress) -> None: ...

    def on_disconnect(self, reason: str) -> None:
        """The app cannot be reached any more: its page left, its browser or its process died."""
        ...


class App(Protocol):
    """One app.

    `origin` is who it is, as the bridge knows it: an address or a command, never the app's own
    words.
    """

    origin: str
    renders: bool  # whether `render_pdf` can work

    def open(self, listener: AppListener) -> AbstractAsyncContextManager[AppInfo]:
        """Connect and initialise; on the way out, shut down.

        Raises AppError when it cannot be connected.
        """
        ...

    async def call(self, capability: str, params: Mapping[str, Json], call: str) -> CallResult:
        """Call a capability and wait for its result.

        Never raises but for cancellation; an app that is gone is a `DISCONNECTED` failure.
        """
        ...

    async def cancel(self, call: str, reason: str) -> None:
        """Tell the app that a call is over. Bounded in time, and never raises."""
        ...

    async def wait_idle(self) -> None:
        """Wait until the app's own turn is over: what it asks at the same time is on its way.

        Bounded in time, and never raises but for cancellation.
        """
        ...

    async def capabilities(self) -> tuple[Capability, ...]:
        """What the app offers now; empty when it does not say."""
        ...

    async def render_pdf(self) -> bytes:
        """The app's page as a PDF. Raises AppError where there is no page."""
        ...


@asynccontextmanager
async def only_error(*kinds: type[Exception]) -> AsyncIterator[None]:
    """A task group wraps what happens in it; the one error inside, if it is one of `kinds`, is what
    happened.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        inner: BaseException = group
        while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
            inner = inner.exceptions[0]
        if isinstance(inner, kinds):
            raise inner from None
        raise
