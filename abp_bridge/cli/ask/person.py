"""The person whom `abp-bridge ask` asks: on which surfaces, and how they see what is told beside
the questions. What a question is and what counts as an answer is the bridge's to say.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup

from abp_bridge.cli.compose import make_providers, terminal
from abp_bridge.cli.event_log import log_event
from abp_bridge.core.answer import Answer
from abp_bridge.core.event import (
    Notice,
    Observer,
    Progress,
    SessionEvent,
    describe_notice,
    no_observer,
)
from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import WAYS, Advice, Options, Surface, Way
from abp_bridge.log import print_message
from abp_bridge.session.elicitor import Elicitor
from abp_bridge.session.files import FileAccess
from abp_bridge.session.surface import PageLink, SurfaceResponse, SurfaceUnsupportedError
from abp_bridge.settings import Settings
from abp_bridge.surfaces.inbox.register import Register
from abp_bridge.surfaces.page.surface import LazyPageServer
from abp_bridge.surfaces.terminal.device import CONTROLLING, controlling

logger = logging.getLogger(__name__)

THANKS = 1.0  # seconds for the browser that answered to get the page that says so
DOTS = "••••••"  # in the place of a secret, however long it is
SURFACES = ("terminal", "page", "mock")
# Settings of bridges under a host: where a question of a command's own is asked, --on says.
OF_HOSTS = ("ABP_ASK_ON", "ABP_QUESTIONS_API", "ABP_AUDIT", "ABP_RECORD")
# What its person gives to be asked elsewhere.
_OPTIONS: Options = {
    Surface.PAGE: Way("--on page", "you are asked on a page of the bridge's own"),
    **{each: WAYS[each] for each in (Surface.TERMINAL, Surface.SAMPLING)},
}


def choose_surfaces(settings: Settings, on: str | None) -> Settings:
    """`settings` with those surfaces set up that are asked on: `on`, one of `SURFACES`, or all that
    there are.
    """
    model = () if settings.sampling is None else (Surface.SAMPLING.value,)
    terminals = settings.tty or controlling() or (CONTROLLING if on else None)
    return replace(
        settings,
        tty=terminals,  # also for the page's code
        page="link",
        ask_on=(on, *model) if on else (),
    )


class Person:
    """Whoever answers. Implements `QuestionListener` for whoever asks, and hears what it tells.

    Args:
        settings: Which surfaces there are, what time an answer has, which files may be read.
        origin: Who asks, as it is shown.
        tasks: Where the page's server lives.
        mask: Whether whoever asks gets dots for secrets, as where a terminal would show them.
    """

    def __init__(
        self, settings: Settings, origin: str, tasks: TaskGroup, *, mask: bool = False
    ) -> None:
        self._origin = origin
        self._mask = mask
        self._roots = settings.roots
        self._serial = 0
        self._terminal = None if settings.tty is None else terminal(settings.tty)
        self._page = LazyPageServer(tasks, settings.page_port)
        register = Register(tasks, settings.question_timeout)
        list_event = register.observer(str)

        def observe(event: SessionEvent) -> None:
            log_event(event)
            list_event(event)

        self._elicitor = Elicitor(
            make_providers(
                settings,
                _NoHost(),
                self._send_link,
                register.listed(self._page),
                tasks,
                ask=self._ask_person,
                on_progress=self._on_model_progress,
            ),
            limit=settings.question_timeout,
            min_human_latency=settings.min_human_latency,
            files=FileAccess(self._granted),
            observe=observe,
        )

    async def _send_link(self, question: Question, link: PageLink) -> SurfaceResponse:
        """Tell the person where the page is; that has the answer, sooner or later.

        Raises:
            SurfaceUnsupportedError: Nothing here shows it to them alone: who reads this command's
                stderr, where that is no terminal, may be a model.
        """
        is_terminal = os.isatty(2)
        is_shown = is_terminal or bool(await link.show_code())
        if is_shown:
            where = link.url if is_terminal else link.address
            print_message(f"{question.origin} asks. Answer at {where}")
        problem = await self._page.open_browser()
        if problem and not is_shown and not await self._page.wait_late_browser():
            raise SurfaceUnsupportedError(
                f"stderr is no terminal to show the page's link on. {problem}. Run it at a"
                " terminal, or name one (--tty DEVICE)",
                lasting=False,
            )
        await anyio.sleep_forever()
        return SurfaceResponse(Outcome.CANCELLED)

    async def _granted(self, question: Question) -> Sequence[str]:
        return self._roots

    async def wait_for_page(self) -> None:
        """Everything is answered: let the page say so, if there was one."""
        if self._page.is_used:
            await anyio.sleep(THANKS)

    def new_question_id(self) -> str:
        """The next number (`QuestionListener.new_question_id`)."""
        self._serial += 1
        return f"question-{self._serial}"

    async def ask(self, question: Question) -> Answer:
        """Ask on the first surface that can (`QuestionListener.ask`)."""
        answer = await self._elicitor.ask(question)
        if answer.unasked:
            for way in answer.ways:
                print_message(f"nobody was asked; to be asked: {way}")
        return mask_secrets(question, answer) if self._mask else answer

    def on_notice(self, notice: Notice) -> None:
        """Show it, in a line."""
        self._say(describe_notice(notice))

    def on_progress(self, progress: Progress) -> None:
        """Show it, in a line."""
        total = "" if progress.total is None else f" of {progress.total:g}"
        self._say(label(f"{progress.value:g}{total}  {progress.message}"))

    async def _ask_person(self, question: Question) -> Answer:
        return await self._elicitor.ask(question)

    def _on_model_progress(self, question: Question, words: str) -> None:
        if os.isatty(2):
            self._say(words)
        else:
            logger.info("%s", words)

    def on_disconnect(self, reason: str) -> None:
        """Its questions are still answered: a pipeline closes its end when it has asked."""

    def _say(self, words: str) -> None:
        if self._terminal is not None and self._terminal.is_open:
            self._terminal.say(f"· {self._origin}: {words}")
        else:
            print_message(f"{self._origin}: {words}")


def mask_secrets(question: Question, answer: Answer) -> Answer:
    """The answer with dots for its secrets, which the person is told of."""
    secret = {field.name for field in question.fields if field.secret}
    shown = {
        name: _dots(value) if name in secret else value for name, value in answer.content.items()
    }
    if shown != answer.content:
        print_message("what is secret stands there as dots; --show prints it")
    return replace(answer, content=shown)


def _dots(value: JsonValue) -> JsonValue:
    return dict.fromkeys(value, DOTS) if isinstance(value, Mapping) else DOTS


class _NoHost:
    """There is no host here."""

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return ()

    def advise(self, question: Question) -> Advice:
        return Advice(options=_OPTIONS)

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        raise SurfaceUnsupportedError("there is no host here", lasting=True)
