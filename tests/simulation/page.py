"""The question page without a browser, and a program at the questions API without HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Question
from abp_bridge.session import surface
from abp_bridge.session.context import NO_CONTEXT, AskContext
from abp_bridge.session.surface import (
    Ending,
    PageQuestion,
    SurfaceResponse,
    SurfaceUnsupportedError,
)
from abp_bridge.surfaces.opencode import QuestionsServer
from abp_bridge.surfaces.page.controls import controls

from .person import Person

PASSWORD = "simulated"
ADDRESS = ("127.0.0.1", 1)


class Shown:
    code = "0000"
    directions = ""

    def __init__(self, question: Question, person: Person) -> None:
        self.url = self.address = f"http://page/{question.id}"
        self.opened = False
        self.closed = asyncio.Event()
        self._question = question
        self._person = person
        self._answer: asyncio.Future[SurfaceResponse] = asyncio.get_running_loop().create_future()
        self._visit: asyncio.Task[None] | None = None

    async def open(self) -> str:
        self.visit()
        return ""

    def renew_url(self, inbox: str) -> str:
        raise AssertionError("there is no inbox here")

    async def wait_late_browser(self) -> bool:
        return False

    async def wait_closed(self) -> None:
        await self.closed.wait()

    def visit(self) -> None:
        if not self.opened:
            self.opened = True
            self._visit = asyncio.get_running_loop().create_task(self._fill())

    async def _fill(self) -> None:
        drawn = controls(self._question, None, {})
        asked = self._person.recognise(f"{self._question.message} {drawn}")
        await self._person.wait(asked)
        if self._answer.done():
            return
        data = asked.data if asked.wish == "accept" else None
        outcome = Outcome(self._person.say(asked, data))
        names = [each.name for each in self._question.fields] if data is not None else []
        content = {name: asked.data.get(name, asked.value) for name in names}
        self.answer(SurfaceResponse(outcome, content))

    async def wait_answer(self) -> SurfaceResponse:
        return await self._answer

    def refuse(self, reason: str) -> None:
        if not self.opened and not self._answer.done():
            self._answer.set_exception(SurfaceUnsupportedError(reason, lasting=False))

    def answer(self, reply: SurfaceResponse, ending: Ending = Ending.ELSEWHERE) -> bool:
        if self._answer.done():
            return False
        self._answer.set_result(reply)
        return True

    def close(self) -> None:
        if self._visit is not None:
            self._visit.cancel()
        self._answer.cancel()


class Program:
    """A program that follows the questions API, and who sits at it; it stands in for its server."""

    port, url = ADDRESS[1], "http://api"

    def __init__(self, sitter: Person) -> None:
        self.sitter = sitter
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self.site: Any = None

    async def start(self, port: int) -> None:
        if "" not in self._tasks:
            self._begin("", self._request("GET", "/event"))

    def _begin(self, name: str, work: Any) -> None:
        self._tasks[name] = asyncio.get_running_loop().create_task(work)

    async def _request(self, method: str, path: str, body: Any = None) -> None:
        headers = [(b"host", b"127.0.0.1:1"), (b"authorization", b"Bearer " + PASSWORD.encode())]
        request = {"type": "http.request", "body": json.dumps(body).encode()}
        messages = [request]  # and never a disconnect, which who streams waits for
        named = {"type": "http", "method": method, "path": path, "scheme": "http"}

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            for line in message.get("body", b"").decode().splitlines():
                if line.startswith("data: "):
                    self._on_event(json.loads(line.removeprefix("data: ")))

        scope = {**named, "headers": headers, "query_string": b"", "server": ADDRESS}
        await self.site(scope, receive, send)

    def _on_event(self, event: Any) -> None:
        about = event["properties"]
        if event["type"] == "question.asked":
            self._begin(about["id"], self._answer(about["id"], about["questions"]))
        elif (task := self._tasks.pop(about.get("requestID"), None)) is not None:
            task.cancel()

    async def _answer(self, id: str, infos: Any) -> None:
        [info] = infos
        asked = self.sitter.recognise(info["question"])
        await self.sitter.wait(asked)
        label = self.sitter.choose(asked, [each["label"] for each in info["options"]])
        del self._tasks[id]  # what comes of it does not cancel it
        how, body = ("reject", None) if label is None else ("reply", {"answers": [[label]]})
        await self._request("POST", f"/question/{id}/{how}", body)

    def end(self) -> list[asyncio.Task[Any]]:
        for task in self._tasks.values():
            task.cancel()
        return list(self._tasks.values())


class Page(surface.Page):
    def __init__(self, person: Person, program: Any) -> None:
        self._person = person
        self._program = program
        self._shown: dict[str, Shown] = {}
        self._served: Any = None

    @asynccontextmanager
    async def show(
        self, question: Question, context: AskContext = NO_CONTEXT
    ) -> AsyncIterator[PageQuestion]:
        shown = Shown(question, self._person)
        self._shown[shown.url] = shown
        try:
            yield shown
        finally:
            shown.close()
            del self._shown[shown.url]

    def visit(self, url: str) -> None:
        if url in self._shown:
            self._shown[url].visit()

    def leave(self) -> None:
        for shown in self._shown.values():
            shown.closed.set()

    def questions(self, port: int, password: str) -> Any:
        if self._served is None:
            made: Any = QuestionsServer
            self._served = made(None, port, password)
            self._program.site = self._served._server._site
            self._served._server = self._program
        return self._served
