"""The surfaces of one session beside its host's own, as the settings have them.

Loads what they need, when there is one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from abp_bridge.bridge.providers import Providers
from abp_bridge.core.matrix import Surface, order_of
from abp_bridge.interfaces.surface import PageServer
from abp_bridge.settings import Settings

if TYPE_CHECKING:
    from abp_bridge.core.question import Outcome, Question
    from abp_bridge.interfaces.host import Host
    from abp_bridge.interfaces.surface import InputProvider
    from abp_bridge.surfaces.answers_file import AnswersFile
    from abp_bridge.surfaces.terminal.surface import Terminal


def make_providers(settings: Settings, host: Host, page: PageServer) -> Providers:
    """Who can be asked in a session of `host`.

    What the process has once (its terminal, its answers) is the same in each.
    """
    own: dict[Surface, InputProvider] = {}
    if settings.answers is not None:
        own[Surface.MOCK] = answers(settings.answers)
    if settings.tty is not None:
        own[Surface.TERMINAL] = terminal(settings.tty)
    if settings.page != "off":
        from abp_bridge.surfaces.page.surface import PageSurface

        own[Surface.PAGE] = PageSurface(
            page, host.send_link if settings.page == "link" else _opening(host)
        )
    if settings.questions_api is not None and settings.questions_password:
        from abp_bridge.surfaces.opencode.surface import QuestionsApi

        own[Surface.QUESTIONS_API] = QuestionsApi(
            partial(page.questions, settings.questions_api, settings.questions_password),
            page,
            alone=settings.page == "off",
        )
    return Providers(host, own, order_of(settings.ask_on))


@cache
def answers(path: str) -> AnswersFile:
    """The answers that are written down there; each is used up wherever it is asked for.

    Raises AnswersError.
    """
    from abp_bridge.surfaces.answers_file import AnswersFile, read_answers

    return AnswersFile(read_answers(path), "the answers file")


@cache
def terminal(device: str) -> Terminal:
    """The person at that terminal, who is asked one thing at a time."""
    from abp_bridge.surfaces.terminal.surface import Terminal

    return Terminal(device)


def _opening(host: Host) -> Callable[[Question, str], Awaitable[Outcome]]:
    """Open the person's browser, here; where there is none, the host points there."""

    async def point(question: Question, url: str) -> Outcome:
        import anyio

        from abp_bridge.surfaces.page.browser import leading_to, open_browser

        with leading_to(url) as address:
            if await open_browser(address):
                await anyio.sleep_forever()  # the page has the answer, sooner or later
        return await host.send_link(question, url)

    return point
