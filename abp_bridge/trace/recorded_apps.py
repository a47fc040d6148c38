"""Records what has no pipe to be overheard: apps in a browser, and the bridge's own page in a
person's.

What passes is written down as the same messages that an app on a pipe would have sent, so that a
stand-in on a pipe can play them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict

from abp_bridge import VERSION
from abp_bridge.apps.stdio import StdioApp
from abp_bridge.apps.targets import make_app
from abp_bridge.core.capability import AppInfo, CallResult, Capability
from abp_bridge.core.json_value import Json
from abp_bridge.core.notice import Notice, Progress
from abp_bridge.core.question import Answer, Field, FieldType, Outcome, Question, read_boolean
from abp_bridge.interfaces.app import App, AppListener
from abp_bridge.interfaces.surface import PageQuestion, PageServer, SurfaceResponse
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.envelope import to_envelope
from abp_bridge.settings import Settings
from abp_bridge.surfaces.page.controls import confirms
from abp_bridge.surfaces.page.surface import ask_by_link
from abp_bridge.trace.format import BRIDGE, PERSON, Entry
from abp_bridge.trace.recorder import Recorder
from abp_bridge.trace.redact.structure import blank

_PRESSED = {Outcome.ACCEPTED: "send", Outcome.DECLINED: "decline", Outcome.CANCELLED: "cancel"}


class RecordedApp:
    """Implements `App` with another one, `party` in the trace."""

    def __init__(self, app: App, recorder: Recorder, party: str) -> None:
        self.origin = app.origin
        self.renders = app.renders
        self._app = app
        self._recorder = recorder
        self._party = party
        self._serial = 0

    @asynccontextmanager
    async def open(self, listener: AppListener) -> AsyncIterator[AppInfo]:
        """Open the app; its greeting stands in the trace as a pipe would have it (`App.open`)."""
        id = self._ask("initialize", abp.initialize_params(VERSION))
        try:
            async with self._app.open(
                _RecordedListener(listener, self._recorder, self._party)
            ) as opened:
                app = {"id": opened.id, "name": opened.name}
                result = {
                    "sessionId": opened.session,
                    "app": app,
                    "protocolVersion": opened.version,
                    "capabilities": _encode_capabilities(opened.capabilities),
                }
                self._reply(id, result)
                self._reply(
                    self._ask("capabilities/list", {}), _encode_capabilities(opened.capabilities)
                )
                yield opened
        finally:
            self._recorder.closed(BRIDGE, self._party)

    async def call(self, capability: str, params: Mapping[str, Json], call: str) -> CallResult:
        """Call the app, and write both ways down (`App.call`)."""
        id = self._ask("capabilities/call", abp.call_params(capability, params, call))
        result = await self._app.call(capability, params, call)
        self._reply(id, _encode_result(result))
        return result

    async def cancel(self, call: str, reason: str) -> None:
        """Cancel the call, and write it down (`App.cancel`)."""
        id = self._ask("capabilities/cancel", {"callId": call, "reason": reason})
        await self._app.cancel(call, reason)
        self._reply(id, {})

    async def wait_idle(self) -> None:
        """Wait until the app's own turn is over (`App.wait_idle`)."""
        await self._app.wait_idle()

    async def capabilities(self) -> tuple[Capability, ...]:
        """What the app can do now, as it is written down too (`App.capabilities`)."""
        id = self._ask("capabilities/list", {})
        listed = await self._app.capabilities()
        self._reply(id, _encode_capabilities(listed))
        return listed

    async def render_pdf(self) -> bytes:
        """The app as a PDF; this is not written down (`App.render_pdf`)."""
        return await self._app.render_pdf()

    def _ask(self, method: str, params: Mapping[str, Json]) -> str:
        self._serial += 1
        id = f"abp-{self._serial}"
        message: dict[str, Json] = {
            "jsonrpc": "2.0",
            "id": id,
            "method": method,
            "params": dict(params),
        }
        if method == "initialize":  # it can be read as an envelope too, as on a pipe
            message |= to_envelope(message, time.time())
        self._recorder.message(BRIDGE, self._party, message)
        return id

    def _reply(self, id: str, result: Json) -> None:
        self._recorder.message(self._party, BRIDGE, {"jsonrpc": "2.0", "id": id, "result": result})


class _RecordedListener:
    """Implements `AppListener` with another one."""

    def __init__(self, listener: AppListener, recorder: Recorder, party: str) -> None:
        self._listener = listener
        self._recorder = recorder
        self._party = party
        self._serial = 0
        self.new_question_id = listener.new_question_id
        self.on_disconnect = listener.on_disconnect

    async def ask(self, question: Question) -> Answer:
        """Pass a question on, and write it and its answer down (`AppListener.ask`)."""
        self._serial += 1
        id = f"q{self._serial}"
        timeout = {} if question.timeout is None else {"timeout": round(question.timeout * 1000)}
        params = {
            **question.request,
            **timeout,
            **({} if question.call is None else {"operationId": question.call}),
        }
        self._say({"id": id, "method": question.kind.value, "params": params})
        answer = await self._listener.ask(question)
        result = abp.encode_answer(question, answer)
        self._recorder.message(BRIDGE, self._party, {"jsonrpc": "2.0", "id": id, "result": result})
        return answer

    def on_notice(self, notice: Notice) -> None:
        """Pass a notice on, and write it down (`AppListener.on_notice`)."""
        self._say({"method": notice.name, "params": dict(notice.data)})
        self._listener.on_notice(notice)

    def on_progress(self, progress: Progress) -> None:
        """Pass progress on, and write it down (`AppListener.on_progress`)."""
        left = None if progress.remaining is None else round(progress.remaining * 1000)
        params = {
            "operationId": progress.operation,
            "progress": progress.value,
            "total": progress.total,
            "status": progress.status,
        }
        params |= {"stage": progress.stage, "estimatedRemaining": left}
        self._say(
            {
                "method": abp.PROGRESS,
                "params": {
                    name: value for name, value in params.items() if value not in (None, "")
                },
            }
        )
        self._listener.on_progress(progress)

    def _say(self, message: Mapping[str, Json]) -> None:
        self._recorder.message(self._party, BRIDGE, {"jsonrpc": "2.0", **message})


def record_app(target: str, named: bool, settings: Settings, recorder: Recorder) -> App:
    """The app for `target`, as `make_app` makes it, overheard."""
    party = recorder.app(target)
    app = make_app(target, named, settings, recorder.tap(party))
    return app if isinstance(app, StdioApp) else RecordedApp(app, recorder, party)


class RecordedPage:
    """Implements `PageServer` with another one: what the person sends there stands in the trace."""

    def __init__(self, page: PageServer, recorder: Recorder) -> None:
        self.questions = page.questions
        self._page = page
        self._recorder = recorder

    @asynccontextmanager
    async def show(self, question: Question) -> AsyncIterator[PageQuestion]:
        """Show the question on the page, overheard (`PageServer.show`)."""
        async with self._page.show(question) as shown:
            yield _RecordedPageQuestion(shown, question, self._recorder)

    async def ask(
        self, question: Question, send_link: Callable[[PageQuestion], Awaitable[Outcome]]
    ) -> SurfaceResponse:
        """Ask by a link to the page, overheard (`PageServer.ask`)."""
        return await ask_by_link(self, question, send_link)


class _RecordedPageQuestion:
    def __init__(self, shown: PageQuestion, question: Question, recorder: Recorder) -> None:
        self.url = shown.url
        self._question_page = shown
        self._question = question
        self._recorder = recorder
        self._elsewhere = False  # it was answered from another place than the page

    @property
    def opened(self) -> bool:
        """Whether somebody has opened the page."""
        return self._question_page.opened

    def answer(self, reply: SurfaceResponse, words: str = "") -> bool:
        """Answer it from elsewhere: then nobody filled the page in (`PageQuestion.answer`)."""
        counts = self._question_page.answer(reply, words)
        self._elsewhere = self._elsewhere or counts
        return counts

    async def wait_answer(self) -> SurfaceResponse:
        """Wait for the answer, and write down what was filled in for it."""
        reply = await self._question_page.wait_answer()
        if self._elsewhere:
            return reply
        question = self._question
        fill: list[Json] = [reply.content.get(field.name) for field in question.fields]
        if question.secret:
            self._recorder.secret(
                [value for field, value in zip(question.fields, fill, strict=True) if field.secret]
            )
        press = _PRESSED.get(reply.outcome, "cancel")
        if confirms(question):
            press, fill = ("yes" if fill[0] else "no") if press == "send" else press, []
        shown = [_label(field, value) for field, value in zip(question.fields, fill, strict=False)]
        said = {
            "open": self.url,
            "fill": blank(shown) if question.secret else shown,
            "press": press,
        }
        self._recorder.record(Entry("fill", said, PERSON, BRIDGE))
        return reply


def _label(field: Field, value: Json) -> Json:
    """What was chosen, as its control says it."""
    if field.type is FieldType.BOOLEAN and value is not None:
        return "Yes" if read_boolean(value) is True else "No"
    labels = {choice.key: choice.label for choice in field.choices}
    return (
        [labels.get(each, each) for each in value]
        if isinstance(value, list)
        else labels.get(value, value)
        if isinstance(value, str)
        else value
    )


def _encode_capabilities(capabilities: tuple[Capability, ...]) -> list[Json]:
    return [
        {
            "name": each.name,
            "description": each.description,
            "inputSchema": dict(each.input_schema),
            "available": each.available,
        }
        for each in capabilities
    ]


def _encode_result(result: CallResult) -> dict[str, Json]:
    """A result as its app gave it."""
    said: dict[str, Json] = {
        "success": result.failure is None,
        "data": result.data,
        "metadata": dict(result.metadata),
    }
    if result.failure is not None:
        failure = asdict(result.failure)
        said["error"] = {
            name: failure[name] for name in ("code", "message", "retryable", "details")
        } | {"alternatives": list(failure["alternatives"])}
        said["cancelled"] = result.cancelled
    return {name: value for name, value in said.items() if value not in (None, {}, [])}
