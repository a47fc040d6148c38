"""Build a process from its settings: the recording, the page, and each session's parts.

Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.settings import Settings
from abp_bridge.settings.values import OFF

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.apps.offer_cache import OfferCache
    from abp_bridge.conformance.recorded_apps import RecordedPage
    from abp_bridge.conformance.recorder import Recorder
    from abp_bridge.core.question import Question
    from abp_bridge.core.surface import Surface
    from abp_bridge.mcp.connection import McpConnection
    from abp_bridge.mcp.pending_call import FindPending
    from abp_bridge.mcp.session import McpSession
    from abp_bridge.mcp.tool_list import ToolList
    from abp_bridge.models.surface import AgentSurface
    from abp_bridge.session.audit import AuditLog
    from abp_bridge.session.bridge import Bridge
    from abp_bridge.session.context import AskContext, Observer, SessionEvent
    from abp_bridge.session.elicitor import Elicitor
    from abp_bridge.session.host import ExpectedApps, Host, HostSurfaces
    from abp_bridge.session.router import Router
    from abp_bridge.session.surface import (
        InputProvider,
        OnModelProgress,
        PageLink,
        PageQuestion,
        SurfaceResponse,
    )
    from abp_bridge.surfaces.answers_file import AnswersFile
    from abp_bridge.surfaces.inbox.register import Register
    from abp_bridge.surfaces.notify import Notifier
    from abp_bridge.surfaces.page.surface import LazyPageServer
    from abp_bridge.surfaces.terminal.surface import Terminal

    SendLink = Callable[[Question, AskContext, PageLink], Awaitable[SurfaceResponse]]

logger = logging.getLogger(__name__)


def ignore_progress(calls: Sequence[str], words: str) -> None:
    """Nobody is told how far a model's answer is."""


class Composition:
    """The parts of one process, each made once if it can be shared.

    Args:
        command: `serve`, `acp` or `mcp`, for the recording.
        tasks: Runs the page's server and the sessions.
    """

    def __init__(self, settings: Settings, command: str, tasks: TaskGroup) -> None:
        self.settings = settings
        self._tasks = tasks
        self._recorder: Recorder | None = None
        if settings.record is not None:
            from abp_bridge.conformance.recorder import Recorder

            self._recorder = Recorder(settings.record, settings, command)

    def tap(self, party: str) -> Tap:
        """What the streams to `party` go through: the recording hears them, where there is one."""
        return unobserved_stream if self._recorder is None else self._recorder.tap(party)

    def tap_tools(self) -> Tap:
        """`tap` for the agent's next connection to the server that it is given."""
        return unobserved_stream if self._recorder is None else self._recorder.tools()

    @cached_property
    def page(self) -> LazyPageServer | RecordedPage:
        from abp_bridge.surfaces.page.surface import LazyPageServer

        page = LazyPageServer(self._tasks, self.settings.page_port)
        if self._recorder is None:
            return page
        from abp_bridge.conformance.recorded_apps import RecordedPage

        return RecordedPage(page, self._recorder)

    @cached_property
    def _register(self) -> Register:
        from abp_bridge.surfaces.inbox.register import Register

        return Register(self._tasks, self.settings.question_timeout)

    def make_bridge(self, host: Host, tasks: TaskGroup | None = None) -> Bridge:
        from abp_bridge.session.bridge import Bridge

        if self._recorder is None:
            from abp_bridge.apps.targets import make_app as make
        else:
            from abp_bridge.conformance.recorded_apps import record_app

            make = partial(record_app, recorder=self._recorder)

        return Bridge(
            self.settings,
            host,
            tasks or self._tasks,
            lambda target, named: make(target, named, self.settings),
            router=self._make_router(host),
            observe=self._observe_session(host),
            inbox_problem=lambda: self._register.problem,
            known=self._known_offers,
        )

    @cached_property
    def _known_offers(self) -> OfferCache | None:
        """Return the capability cache, unless recording: a replay starts without it."""
        if not self.settings.apps or self.settings.tool_cache == OFF or self.settings.record:
            return None
        from abp_bridge.apps.offer_cache import OfferCache

        return OfferCache(self.settings.tool_cache)

    def _expect_apps(self) -> ExpectedApps:
        from abp_bridge.session.host import ExpectedApps, expect_apps

        known = self._known_offers
        return ExpectedApps() if known is None else expect_apps(self.settings.apps, known)

    def make_tool_list(self) -> ToolList:
        """What an MCP host is shown of tools; what apps offered is read when it first looks."""
        from abp_bridge.mcp.tool_list import ToolList

        expect = None if not self.settings.apps else self._expect_apps
        return ToolList(expect, asks_via_model=self.settings.ask_via_model)

    def make_mcp_session(
        self, connection: McpConnection, begin: Callable[[Host], Bridge]
    ) -> McpSession:
        from abp_bridge.mcp.session import McpSession

        return McpSession(
            connection,
            begin,
            self.page,
            pending_timeout=self.settings.park_timeout,
            patience=self.settings.host_tool_timeout,
            ask_via_model=self.settings.ask_via_model,
        )

    def make_elicitor(
        self, host: HostSurfaces, on_progress: OnModelProgress = ignore_progress
    ) -> Elicitor:
        """Return the elicitor of a session without apps."""
        from abp_bridge.session.elicitor import Elicitor

        return Elicitor(
            self._make_router(host),
            host_name=lambda: host.name,
            limit=self.settings.question_timeout,
            observe=self._observe_session(host),
            on_model_progress=on_progress,
        )

    def make_mcp_elicitor(
        self, connection: McpConnection, on_progress: OnModelProgress, find_pending: FindPending
    ) -> Elicitor:
        """Return the elicitor of a server behind `abp-bridge mcp`."""
        from abp_bridge.core.sanitize import Revealed
        from abp_bridge.mcp.surfaces import McpSurfaces

        surfaces = McpSurfaces(connection, self.page, find_pending, revealed=Revealed())
        return self.make_elicitor(surfaces, on_progress)

    def _make_router(self, host: HostSurfaces) -> Router:
        from abp_bridge.conformance.format import MODEL

        return make_router(
            self.settings,
            host,
            host.send_link,
            self.page,
            self._tasks,
            tap_model=self.tap(MODEL),
        )

    def _observe_session(self, host: HostSurfaces) -> Observer:
        own = [make_observer() for make_observer in self._observer_makers]
        return tell_each([*self._observers, *own, self._register.observer(lambda: host.name)])

    @cached_property
    def _observers(self) -> Sequence[Observer]:
        observers: list[Observer] = []
        if self._recorder is not None:
            observers.append(self._recorder.observe)
        if logger.isEnabledFor(logging.DEBUG):
            from abp_bridge.cli.event_log import log_event

            observers.append(log_event)
        return observers

    @cached_property
    def _observer_makers(self) -> Sequence[Callable[[], Observer]]:
        makers: list[Callable[[], Observer]] = []
        if self.settings.audit is not None:
            makers.append(audit_log(self.settings.audit).observer)
        if self.settings.notify or self.settings.notify_urls:
            makers.append(make_notifier(self.settings, self._tasks).observer)
        return makers


def tell_each(observers: Sequence[Observer]) -> Observer:
    """The observers as one; where it is only one, that."""
    if len(observers) == 1:
        return observers[0]

    def observe(event: SessionEvent) -> None:
        for each in observers:
            each(event)

    return observe


def make_notifier(settings: Settings, tasks: TaskGroup) -> Notifier:
    """Who tells the person, by ways of their own, that they are asked."""
    from abp_bridge.surfaces.notify import Channels, Notifier

    text = settings.notify_text
    channels = Channels(settings.notify, settings.tty, settings.notify_urls, with_text=text)
    return Notifier(tasks, channels)


def make_router(
    settings: Settings,
    host: InputProvider,
    send_link: SendLink,
    page: LazyPageServer | RecordedPage,
    tasks: TaskGroup,
    *,
    tap_model: Tap = unobserved_stream,
) -> Router:
    """Return the router over a session's surfaces; the terminal and answers are shared.

    Args:
        host: The host's own surfaces.
        send_link: Has the host show the page's link.
        tasks: Sends notifications, and looks for a model.
        tap_model: Observes an ACP model.
    """
    from abp_bridge.core.surface import Surface, order_of
    from abp_bridge.session.router import Router

    own: dict[Surface, InputProvider] = {}
    if settings.answers is not None:
        own[Surface.MOCK] = answers(settings.answers)
    if settings.tty is not None:
        own[Surface.TERMINAL] = terminal(settings.tty)
    if settings.page != "off":
        from abp_bridge.surfaces.page.surface import PageSurface

        own[Surface.PAGE] = PageSurface(
            page, send_link, partial(show_code, settings, tasks), opens=settings.page == "open"
        )
    if settings.questions_api is not None and settings.questions_password:
        from abp_bridge.surfaces.opencode import QuestionsApi

        own[Surface.QUESTIONS_API] = QuestionsApi(
            partial(page.questions, settings.questions_api, settings.questions_password),
            page,
            alone=settings.page == "off",
        )
    if settings.sampling is not None:
        own[Surface.SAMPLING] = agent = _make_agent_surface(settings, tap_model)
        tasks.start_soon(agent.warn_if_unavailable)  # in the background
    return Router(
        host, own, order_of(settings.ask_on), min_human_latency=settings.min_human_latency
    )


def _make_agent_surface(settings: Settings, tap: Tap) -> AgentSurface:
    from abp_bridge.models.surface import AgentSurface
    from abp_bridge.models.targets import make_agent

    return AgentSurface(
        str(settings.sampling),
        partial(make_agent, tap=tap),
        limit=settings.question_timeout,
    )


@cache
def answers(path: str) -> AnswersFile:
    """Return the answers file at `path`; each answer is used once per process."""
    from abp_bridge.surfaces.answers_file import AnswersFile, read_answers

    return AnswersFile(read_answers(path), "the answers file")


@cache
def audit_log(path: str) -> AuditLog:
    """Return the audit log at `path`."""
    from abp_bridge.session.audit import AuditLog

    return AuditLog(path)


@cache
def terminal(device: str) -> Terminal:
    """The person at that terminal, who is asked one thing at a time."""
    from abp_bridge.surfaces.terminal.surface import Terminal

    return Terminal(device)


def find_obstacle(settings: Settings, host: str, *, host_asks: bool) -> str:
    """Why no person can be asked with such a host; empty where one can."""
    if host_asks and not settings.ask_on:  # nothing more is loaded
        return ""
    from abp_bridge.core.surface import HOST, order_of
    from abp_bridge.surfaces.page.browser import can_open

    opens = settings.page == "open"
    ways = {
        HOST: host_asks,
        "mock": settings.answers is not None,
        "terminal": settings.tty is not None,
        "questions-api": settings.questions_api is not None,
        "page": opens and can_open(),
    }
    order = order_of(settings.ask_on)
    if any(ways.get(name) for name in order):
        return ""
    if "page" not in order:
        page = f"--ask-on {','.join(settings.ask_on)} leaves out every other way"
    elif opens:
        page = (
            "no browser can be opened: this process has neither DISPLAY nor WAYLAND_DISPLAY, and"
            " $BROWSER names no command that opens one"
        )
    else:
        page = f"--page {settings.page} opens no browser for our own page (--page open does)"
    return f"{host} offers no way to ask its user, and {page}"


async def show_code(
    settings: Settings, tasks: TaskGroup, question: Question, page: PageQuestion
) -> str:
    """Show the page's code at the terminal, or in a notification, and return where.

    Models read neither. A code alone is useless, so others may read the notification.
    """
    ways = f"{question.asker} asks on a page: {page.url}\n  or {page.address}, code {page.code}"
    words = "\n  ".join(filter(None, (ways, page.directions)))
    if settings.tty is not None and terminal(settings.tty).show(words):
        return "their terminal"
    if not settings.notify:
        return ""
    from abp_bridge.surfaces.notify import show_on_desktop

    title, body = f"abp-bridge: {question.asker} asks", f"The code of its page: {page.code}"

    def on_failure() -> None:
        page.refuse("no desktop took the notification of its code")

    return "a notification" if await show_on_desktop(tasks, title, body, on_failure) else ""
