"""The questions API: OpenCode's question endpoints, for programs that have the password.

A question here is also on the page; the first answer counts.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from starlette.background import BackgroundTask
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from abp_bridge.core import matrix
from abp_bridge.core.answer import validate_answer
from abp_bridge.core.json_value import JsonObject, JsonValue, parse_json
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import FieldType, Question
from abp_bridge.core.surface import Surface
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.loop import earliest_arrival
from abp_bridge.protocols.opencode import decode_answers, encode_answers, encode_request
from abp_bridge.session.context import AskContext
from abp_bridge.session.surface import (
    Ending,
    OwnSurface,
    Page,
    PageQuestion,
    SurfaceResponse,
    SurfaceUnsupportedError,
)
from abp_bridge.surfaces import http

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

LATELY = 60.0  # seconds after its last request in which a program counts as there
BEAT = 10.0  # seconds between heartbeats
# events that a client may be behind before it is let go; it lists what is open when it comes back
MAX_WAITING = 1_000


class QuestionsServer:
    """The endpoints of one process, for all its sessions."""

    def __init__(self, tasks: TaskGroup, port: int, password: str) -> None:
        self._wanted = port
        self._password = password.encode()
        self._open: dict[str, _OpenQuestion] = {}
        self._listeners: set[MemoryObjectSendStream[JsonObject]] = set()
        self._streams = http.Streams()
        self._visited = -LATELY
        self._server = http.Server(tasks, self._site())

    @property
    def visited(self) -> bool:
        """Whether a program listens or made a request recently."""
        return bool(self._listeners) or anyio.current_time() - self._visited < LATELY

    @property
    def url(self) -> str:
        """The address; empty before `serve`."""
        return self._server.url

    async def serve(self) -> None:
        """Start serving, unless it already does.

        Raises:
            SurfaceUnsupportedError: The port is taken.
        """
        try:
            await self._server.start(self._wanted)
        except OSError as problem:
            why = http.describe_failure(
                "the questions API", problem, self._wanted, "--questions-api"
            )
            raise SurfaceUnsupportedError(why, lasting=False) from None

    async def list_until_answered(
        self, question: Question, session: str, page: PageQuestion
    ) -> SurfaceResponse:
        """List `question` until `page` is answered."""
        id = f"que_{secrets.token_hex(12)}"
        self._open[id] = asked = _OpenQuestion(
            question, encode_request(question, id, session), page
        )
        self._publish("question.asked", asked.request)
        ended: dict[str, JsonValue] = {"sessionID": session, "requestID": id}
        kind = "question.rejected"
        try:
            reply = await page.wait_answer()
            if reply.outcome is Outcome.ACCEPTED:
                content, _ = validate_answer(question, reply.content)
                kind, ended["answers"] = "question.replied", encode_answers(question, content)
            return reply
        finally:
            self._open.pop(id, None)
            self._publish(kind, ended)

    def _publish(self, kind: str, properties: JsonObject) -> None:
        event = _event(kind, properties)
        for listener in list(self._listeners):
            try:
                listener.send_nowait(event)
            except (anyio.WouldBlock, anyio.BrokenResourceError):
                self._listeners.discard(listener)
                listener.close()

    # --- who may ask what ---

    def _site(self) -> http.Site:
        routes = [
            Route("/question", self._list, methods=["GET"]),
            Route("/question/{id}/reply", self._reply, methods=["POST"]),
            Route("/question/{id}/reject", self._reject, methods=["POST"]),
            Route("/event", self._events, methods=["GET"]),
        ]
        router = Router(routes, redirect_slashes=False, default=_NOT_FOUND)
        policy = {"Content-Security-Policy": "default-src 'none'"}
        return http.Site(router, _REFUSALS, policy, self._check_password)

    def _check_password(self, request: HTTPConnection) -> Response | None:
        given = _password(request.headers.get("authorization", ""))
        if not hmac.compare_digest(given, self._password):
            return _NO_PASSWORD
        self._visited = anyio.current_time()
        return None

    # --- endpoints ---

    async def _list(self, request: Request) -> Response:
        listed = list(self._open.values())
        return JSONResponse(
            [asked.request for asked in listed], background=BackgroundTask(_note_read, listed)
        )

    async def _reply(self, request: Request) -> Response:
        try:
            body = parse_json(await http.read_body(request, http.MAX_BODY))
        except http.FormError as why:
            return _problem(why.status, "InvalidRequestError", str(why))
        except ValueError as why:
            return _problem(400, "InvalidRequestError", f"The body is no JSON: {why}")
        if (asked := self._open.get(request.path_params["id"])) is None:
            return _not_open(request)
        try:
            content = decode_answers(asked.question, body)
        except RemoteProtocolError as why:
            return _problem(400, "InvalidRequestError", str(why), field="answers")
        if wrong := validate_answer(asked.question, content)[1]:
            return _problem(400, "InvalidRequestError", "; ".join(wrong), field="answers")
        return self._respond_to_answer(
            request, Outcome.ACCEPTED, content, Ending.ANSWERED_BY_PROGRAM
        )

    async def _reject(self, request: Request) -> Response:
        return self._respond_to_answer(request, Outcome.DECLINED, {}, Ending.REJECTED_BY_PROGRAM)

    def _respond_to_answer(
        self, request: Request, outcome: Outcome, content: JsonObject, ending: Ending
    ) -> Response:
        asked = self._open.pop(request.path_params["id"], None)
        if asked is None:
            return _not_open(request)
        seconds = max(0.0, earliest_arrival() - asked.read)
        taken = asked.page.answer(SurfaceResponse(outcome, content, seconds), ending)
        return JSONResponse(True) if taken else _not_open(request)

    async def _events(self, request: Request) -> Response:
        """Send what happens to questions from now on."""

        async def stream() -> AsyncIterator[str]:
            sending, events = anyio.create_memory_object_stream[JsonObject](MAX_WAITING)
            self._listeners.add(sending)
            try:
                sending.send_nowait(_event("server.connected", {}))
                while True:
                    event = _event("server.heartbeat", {})
                    with anyio.move_on_after(BEAT):
                        event = await events.receive()
                    yield f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
                    told = [
                        each for each in self._open.values() if each.request is event["properties"]
                    ]
                    await _note_read(told)
            except anyio.EndOfStream:
                return
            finally:
                self._listeners.discard(sending)
                sending.close()
                events.close()

        return self._streams.response(stream())


@dataclass(slots=True)
class _OpenQuestion:
    """An open question, as it was sent, and the page that takes its answer."""

    question: Question
    request: JsonObject
    page: PageQuestion
    read: float = inf  # since when a program has it (seconds of the loop's clock)


async def _note_read(questions: Sequence[_OpenQuestion]) -> None:
    """Note that these were just sent to a program."""
    for each in questions:
        each.read = min(each.read, anyio.current_time())


def _event(kind: str, properties: JsonObject) -> JsonObject:
    return {"id": f"evt_{secrets.token_hex(12)}", "type": kind, "properties": properties}


def _password(authorization: str) -> bytes:
    """Return the Bearer token or the Basic password, for any user name."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return given.strip().encode()
    if scheme.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(given.strip(), validate=True).partition(b":")[2]
    return b""


def _problem(status: int, tag: str, words: str, **more: str) -> Response:
    return JSONResponse(
        {"_tag": tag, "name": tag, "message": words, "data": {"message": words}, **more}, status
    )


def _not_open(request: Request) -> Response:
    id = request.path_params["id"][:100]
    return _problem(
        404,
        "QuestionNotFoundError",
        "This question is not open: it was answered, withdrawn, or never asked.",
        requestID=id,
    )


_REFUSALS = {
    421: _problem(421, "ForbiddenError", "This address is not served here."),
    403: _problem(403, "ForbiddenError", "This comes from another site's page, and is not taken."),
    500: _problem(500, "InternalServerError", "This failed. Try again."),
}
_NOT_FOUND = _problem(
    404,
    "NotFoundError",
    "There is nothing here. There are GET /question, POST /question/{id}/reply or reject, GET"
    " /event.",
)
_NO_PASSWORD = _problem(
    401,
    "UnauthorizedError",
    "Give the password that is in ABP_QUESTIONS_PASSWORD, as HTTP Basic or as a Bearer token.",
)
_NO_PASSWORD.headers["WWW-Authenticate"] = 'Basic realm="abp-bridge", charset="UTF-8"'


class QuestionsApi(OwnSurface):
    """List questions for programs (`InputProvider`).

    `served` returns the endpoints of the process, which are loaded only when needed.
    """

    def __init__(self, served: Callable[[], QuestionsServer], page: Page, *, alone: bool) -> None:
        """If `alone`, the user has no page to go to, so a question waits for a program."""
        self._alone = alone
        self._served = served
        self._page = page
        self._session = f"ses_{secrets.token_hex(12)}"

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return [SurfaceVariant(Surface.QUESTIONS_API)]

    async def make_ready(self) -> str:
        """Serve, so that programs can wait for questions; return the address.

        Raises:
            SurfaceUnsupportedError: The port is taken.
        """
        await self._served().serve()
        return self._served().url

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """List the question for programs and on the page until it is answered.

        An invalid answer is rejected, and the question stays open.

        Raises:
            SurfaceUnsupportedError: It cannot be asked there, or no program has come recently.
        """
        cell = matrix.find_cell(matrix.shape(question), SurfaceVariant(Surface.QUESTIONS_API))
        if not cell.asks or any(each.type is FieldType.FILE for each in question.fields):
            raise SurfaceUnsupportedError(
                cell.how or "the questions API carries no files", lasting=False
            )
        await self._served().serve()
        if not self._alone and not self._served().visited:
            raise SurfaceUnsupportedError(
                "no program has come to the questions API lately", lasting=False
            )
        async with self._page.show(question, context) as shown:
            return await self._served().list_until_answered(question, self._session, shown)
