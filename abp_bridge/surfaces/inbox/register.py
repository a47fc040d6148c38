"""A bridge's own side of the inbox: what is open here, and what is answered about it.

It hears what happens to questions as any observer does, and which of them stand on the page. With
the first question the bridge can be found, not before; a link leads to the page, and this never
answers anything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from abp_bridge.core.json_value import JsonObject, as_text
from abp_bridge.core.question import Kind
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.loop import now
from abp_bridge.session.context import (
    AttemptEvent,
    InputRequestEvent,
    InputResolvedEvent,
    Observer,
    SessionEvent,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.core.question import Question
    from abp_bridge.session.context import AskContext
    from abp_bridge.surfaces.inbox.open_question import OpenQuestion


@dataclass(slots=True)
class _Asked:
    """One question that is open."""

    id: str
    question: Question
    context: AskContext
    host: Callable[[], str]
    limit: float
    since: float = field(default_factory=time.time)
    started: float = field(default_factory=now)  # the same, on the loop's clock
    route: str = ""

    @property
    def until(self) -> float:
        """When it closes, in seconds since 1970; its person may have had it extended."""
        asking = self.context.asking
        if asking is None:
            return self.since + self.limit
        return self.since + asking.deadline - self.started

    @property
    def renew_url(self) -> Callable[[str], str] | None:
        """Makes a link to it on the page; None while it is not there (`Asking.renew_url`)."""
        return None if self.context.asking is None else self.context.asking.renew_url


class Register:
    """What is open in this process.

    Args:
        tasks: Where the socket is served.
        limit: Seconds that a person has whose app sets no time.

    Attributes:
        problem: Why no inbox finds this process; empty where one does, or nothing was asked yet.
    """

    def __init__(self, tasks: TaskGroup, limit: float) -> None:
        self._tasks = tasks
        self._limit = limit
        self._open: dict[str, _Asked] = {}
        self._serial = 0
        self._is_served = False
        self.problem = ""

    def observer(self, host: Callable[[], str]) -> Observer:
        """Hears what happens in one session, whose host calls itself that."""
        here: dict[str, _Asked] = {}

        def observe(event: SessionEvent) -> None:
            if isinstance(event, InputRequestEvent):
                if event.question.kind is not Kind.SAMPLING:  # which a model is asked
                    here[event.question.id] = self._add(event, host)
            elif isinstance(event, AttemptEvent):
                if event.question in here:
                    here[event.question].route = event.route
            elif isinstance(event, InputResolvedEvent):
                asked = here.pop(event.question.id, None)
                if asked is not None:
                    self._end(asked, event)

        return observe

    def _add(self, event: InputRequestEvent, host: Callable[[], str]) -> _Asked:
        self._serial += 1
        limit = event.context.time_limit(self._limit)
        asked = _Asked(str(self._serial), event.question, event.context, host, limit)
        self._open[asked.id] = asked
        if not self._is_served:
            from abp_bridge.surfaces.inbox.endpoint import serve

            self._is_served = True
            self._tasks.start_soon(serve, self._answer, self._on_problem)
        return asked

    def _on_problem(self, problem: str) -> None:
        self.problem = problem

    def _end(self, asked: _Asked, event: InputResolvedEvent) -> None:
        from abp_bridge.surfaces.inbox import history

        del self._open[asked.id]
        # It may wait for a file, and who asked waits for the answer.
        asyncio.get_running_loop().call_soon(history.add, event.question, event.answer)

    # --- what is asked of it ---

    def _answer(self, request: JsonObject, name: str) -> JsonObject:
        match as_text(request.get("ask")):
            case "list":
                from abp_bridge.surfaces.inbox.open_question import encode_all

                return encode_all(map(_describe, self._open.values()), len(self._open))
            case "link":
                return self._link(request, name)
        return {"problem": "unknown"}

    def _link(self, request: JsonObject, name: str) -> JsonObject:
        """The way to a question on the page, for a browser that was paired."""
        from abp_bridge.surfaces.inbox.link_request import is_signed

        if not is_signed(request, name):
            return {"problem": "unpaired"}
        asked = self._open.get(as_text(request.get("id")))
        if asked is None:
            return {"problem": "closed"}
        if asked.renew_url is None:
            return {"problem": "elsewhere"}
        return {"url": asked.renew_url(as_text(request.get("inbox")))}


_PLACES = {"terminal": "terminal", "questions-api": "program"}  # others are the host's


def _describe(asked: _Asked) -> OpenQuestion:
    from abp_bridge.surfaces.inbox.open_question import MAX_LINE, OpenQuestion

    question, context = asked.question, asked.context
    host = label(asked.host(), MAX_LINE)
    has_name = not question.permits and context.app != question.origin
    surface = asked.route.partition(" ")[0]
    place = "page" if asked.renew_url is not None else _PLACES.get(surface, "host")
    return OpenQuestion(
        asked.id,
        label(question.asker, MAX_LINE),
        label(context.app, MAX_LINE) if has_name else "",
        label(context.tools[0], MAX_LINE) if len(context.tools) == 1 else "",
        host,
        question.kind.value,
        label(question.summary.partition("\n")[0], MAX_LINE),
        ("presumed" if question.presumed else "said") if question.warning else "",
        asked.since,
        asked.until,
        place,
    )
