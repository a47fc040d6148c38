"""One session of the product between an asking and an answering side, with one question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio

from abp_bridge.cli.serve import Hosts
from abp_bridge.core.answer import Answer
from abp_bridge.core.question import Question
from abp_bridge.session.bridge import Bridge
from abp_bridge.session.context import AttemptEvent, InputRequestEvent, InputResolvedEvent
from abp_bridge.settings import read_settings

from .answering_sides import LATE, Calm, Place, Side, Sitter
from .asking_sides import Asker
from .virtual_loop import VirtualLoop
from .world import SimulatedComposition, noting_bugs

Json = Any

LONGEST = 5_000.0  # virtual seconds of one session


@dataclass
class Session:
    """What happened in one session."""

    answers: list[Json] = field(default_factory=list)  # that the asking side got
    shown: list[str] = field(default_factory=list)  # what was seen where it is answered
    said: list[tuple[str, Json]] = field(default_factory=list)  # there: (outcome, values)
    taken_down: bool = False  # whether it was taken away there
    requested: Json = None  # how an ABP agent was asked: the method, and the parameters
    question: Question | None = None  # it, as the bridge had it; None where the bridge never did
    answer: Answer | None = None  # how it ended for the bridge
    routes: list[str] = field(default_factory=list)  # each surface that it was asked on, and how
    problems: list[str] = field(default_factory=list)  # what no session may do


def play(
    asker: type[Asker], question: Question, side: Side, outcome: str, meant: Json, file: str
) -> Session:
    """Play the session in which `asker` asks `question`, and the user at `side` does `outcome`."""
    session = Session()
    with noting_bugs(session.problems):
        work = _Work(session, asker, question, side, Sitter(outcome, meant, file))
        anyio.run(work.run, backend_options={"loop_factory": VirtualLoop})
    return session


class _Work:
    def __init__(
        self, session: Session, asker: type[Asker], question: Question, side: Side, sitter: Sitter
    ) -> None:
        self._session, self._side, self._sitter = session, side, sitter
        self._asker, self._question = asker, question
        self._bridges: list[Bridge] = []

    async def run(self) -> None:
        self._ended = asyncio.Event()
        asker, place = self._asker(Calm(), self._question), Place(self._side, self._sitter)
        self._sitter.withdraw = asker.withdraw
        host = place.host
        host.capability, host.prepare = asker.capability, lambda: asker.given
        with ExitStack() as stack, anyio.fail_after(LONGEST):
            stack.enter_context(asker.reachable())
            stack.enter_context(place.set_up())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host.peer.run)
                tasks.start_soon(self._serve, place, asker, tasks.cancel_scope)
                await host._open()
                calling = host._begin(host._call())
                calling.add_done_callback(lambda done: self._expect_called(asker, done))
                await self._ended.wait()
                await asyncio.sleep(LATE + 1)  # for what still comes, and counts no more
                self._expect_no_question()
                host.peer.hang_up()
                await asyncio.Event().wait()  # until the bridge ends
        await asker.end()
        await place.end()
        await asyncio.sleep(0)
        self._note(asker, host)

    async def _serve(self, place: Place, asker: Asker, everything: anyio.CancelScope) -> None:
        async with anyio.create_task_group() as tasks:
            made: Json = {"page": place.page, "on_bridge": self._bridges.append}
            settings = read_settings({}, **{"apps": (asker.target,), **BASE, **self._side.settings})
            composition = SimulatedComposition(settings, "serve", tasks, **made, on_elicitor=print)
            composition.__dict__["_observers"] = [self._observe]
            hosts = Hosts(composition, tasks)
            await place.attend(hosts)
            await hosts.close()
            tasks.cancel_scope.cancel()
        everything.cancel()

    def _observe(self, event: object) -> None:
        session = self._session
        if isinstance(event, InputRequestEvent):
            session.question = event.question
        elif isinstance(event, AttemptEvent):
            session.routes.append(event.route)
        elif isinstance(event, InputResolvedEvent):
            session.answer = event.answer
            self._ended.set()

    def _expect_called(self, asker: Asker, calling: asyncio.Task[Json]) -> None:
        if asker.call is None and not calling.cancelled():
            self._session.problems.append(f"it was never called: {calling.result()}")
            self._ended.set()

    def _expect_no_question(self) -> None:
        for bridge in self._bridges:
            questions: Json = bridge.status()["questions"]
            if questions["open"]:
                self._session.problems.append("a question is open, and its call is over")

    def _note(self, asker: Asker, host: Any) -> None:
        session, sitter = self._session, self._sitter
        left = asyncio.all_tasks() - {asyncio.current_task()}
        session.problems += [f"a task is left: {each.get_coro()}" for each in left]
        session.answers, session.shown = asker.answers, sitter.shown
        session.said = [(how, data) for _, how, data in sitter.asked_one.said]
        session.taken_down = sitter.taken_down
        session.requested = getattr(host, "asked_by", None)
        session.problems += _wrong_messages(host)


def _wrong_messages(host: Any) -> Iterator[str]:
    for id, messages in host.peer.answered.items():
        if len(messages) > 1:
            yield f"the host's request {id} has {len(messages)} responses"
    try:
        if (referee := getattr(host, "referee", None)) is not None:  # ABP has none
            referee(host.peer.lines).check()
    except Exception as problem:  # whatever it finds
        yield f"the bridge said what is not valid: {problem!r}"


BASE: Json = {"page": "off", "acp_chat": False}  # one surface at a time
