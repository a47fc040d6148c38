"""Record what has no pipe: apps in a browser, and the bridge's own page.

They are written as the messages of an app on a pipe, so that a stand-in can play them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from abp_bridge import VERSION
from abp_bridge.apps.abp import AbpApp
from abp_bridge.apps.acp import AcpApp
from abp_bridge.apps.mcp import McpApp
from abp_bridge.apps.targets import make_app
from abp_bridge.conformance.format import BRIDGE, PERSON, Entry
from abp_bridge.conformance.recorder import Recorder
from abp_bridge.conformance.redactor import blank
from abp_bridge.core.answer import Answer, read_boolean
from abp_bridge.core.capability import AppInfo, CallResult, Capability, CapabilityList
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, map_texts
from abp_bridge.core.ledger import Notice, Progress
from abp_bridge.core.outcome import Action
from abp_bridge.core.question import Field, FieldType, Question
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.agent import encode_request
from abp_bridge.protocols.abp.envelope import to_envelope
from abp_bridge.session.app import App, AppListener
from abp_bridge.session.context import NO_CONTEXT, AskContext
from abp_bridge.session.surface import Ending, Page, PageQuestion, SurfaceResponse
from abp_bridge.settings import Settings
from abp_bridge.surfaces.page.controls import confirms
from abp_bridge.surfaces.page.surface import LazyPageServer


class _Pipe:
    """Write what would have passed between the bridge and an app on a pipe."""

    def __init__(self, recorder: Recorder, party: str) -> None:
        self._write = recorder.message
        self._party = party
        self._serial = 0
        self.close = partial(recorder.on_close, BRIDGE, party)

    def record_sent(self, **message: JsonValue) -> None:
        self._write(BRIDGE, self._party, {"jsonrpc": "2.0", **message})

    def record_received(self, **message: JsonValue) -> None:
        self._write(self._party, BRIDGE, {"jsonrpc": "2.0", **message})

    def request(self, method: str, params: JsonObject) -> str:
        """Write a request of the bridge and return its id."""
        self._serial += 1
        id = f"abp-{self._serial}"
        message: JsonObject = {"id": id, "method": method, "params": params}
        if method == "initialize":  # it can be read as an envelope too, as on a pipe
            message = {**message, **to_envelope(message, time.time())}
        self.record_sent(**message)
        return id


class RecordedApp:
    """An app whose messages are recorded as `party`."""

    def __init__(self, app: App, recorder: Recorder, party: str) -> None:
        self.origin = app.origin
        self.renders = app.renders
        self.wait_idle = app.wait_idle
        self.render_pdf = app.render_pdf
        self.download = app.download
        self._app = app
        self._pipe = _Pipe(recorder, party)

    @asynccontextmanager
    async def open_app(self, listener: AppListener) -> AsyncIterator[AppInfo]:
        """Open the app and record a greeting."""
        id = self._pipe.request("initialize", abp.initialize_params(VERSION))
        try:
            async with self._app.open_app(_RecordedListener(listener, self._pipe)) as opened:
                capabilities = _encode_capabilities(opened.capabilities)
                result: JsonObject = {
                    "sessionId": opened.session,
                    "app": {"id": opened.id, "name": opened.name},
                    "protocolVersion": opened.version,
                    "capabilities": capabilities,
                }
                self._pipe.record_received(id=id, result=result)
                id = self._pipe.request("capabilities/list", {})
                self._pipe.record_received(id=id, result=capabilities)
                yield opened
        finally:
            self._pipe.close()

    async def call_capability(self, capability: str, params: JsonObject, call: str) -> CallResult:
        id = self._pipe.request("capabilities/call", abp.call_params(capability, params, call))
        result = await self._app.call_capability(capability, params, call)
        self._pipe.record_received(id=id, result=_encode_result(result))
        return result

    async def cancel_call(self, call: str, reason: str) -> None:
        id = self._pipe.request("capabilities/cancel", {"callId": call, "reason": reason})
        await self._app.cancel_call(call, reason)
        self._pipe.record_received(id=id, result={})

    async def capabilities(self) -> CapabilityList:
        """The app's current capabilities, recorded too."""
        id = self._pipe.request("capabilities/list", {})
        listed = await self._app.capabilities()
        self._pipe.record_received(id=id, result=_encode_capabilities(listed))
        return listed


class _RecordedListener:
    """A listener whose messages are recorded."""

    def __init__(self, listener: AppListener, pipe: _Pipe) -> None:
        self._listener = listener
        self._pipe = pipe
        self._serial = 0
        self.new_question_id = listener.new_question_id
        self.can_sample = listener.can_sample
        self.on_disconnect = listener.on_disconnect

    async def elicit(self, question: Question, context: AskContext = NO_CONTEXT) -> Answer:
        self._serial += 1
        id = f"q{self._serial}"
        method, params = question.kind.value, dict(question.request)
        if not params:  # no app of ABP's asks it: a page's form, in ABP's words
            method, params = encode_request(replace(question, note=""), plain=True)
        if context.timeout is not None:
            params["timeout"] = round(context.timeout * 1000)
        if context.call is not None:
            params["operationId"] = context.call
        self._pipe.record_received(id=id, method=method, params=params)
        answer = await self._listener.elicit(question, context)
        self._pipe.record_sent(id=id, result=abp.encode_answer(question, answer))
        return answer

    def on_notice(self, notice: Notice) -> None:
        self._pipe.record_received(method=notice.name, params=dict(notice.data))
        self._listener.on_notice(notice)

    def on_progress(self, progress: Progress) -> None:
        left = None if progress.remaining is None else round(progress.remaining * 1000)
        params: JsonObject = {
            "operationId": progress.operation,
            "progressToken": progress.token,
            "progress": progress.value,
            "total": progress.total,
            "status": progress.status,
            "stage": progress.stage,
            "estimatedRemaining": left,
        }
        given = {name: value for name, value in params.items() if value not in (None, "")}
        self._pipe.record_received(method=abp.PROGRESS, params=given)
        self._listener.on_progress(progress)


def record_app(target: str, named: bool, settings: Settings, recorder: Recorder) -> App:
    """Return the app for `target`, recorded."""
    party = recorder.app(target)
    app = make_app(target, named, settings, recorder.tap(party))
    return app if isinstance(app, AbpApp | McpApp | AcpApp) else RecordedApp(app, recorder, party)


class RecordedPage(Page):
    """Record what the user sends on another page."""

    def __init__(self, page: LazyPageServer, recorder: Recorder) -> None:
        self.questions = page.questions
        self._page = page
        self._recorder = recorder

    @asynccontextmanager
    async def show(self, question: Question, context: AskContext) -> AsyncIterator[PageQuestion]:
        async with self._page.show(question, context) as shown:
            yield _RecordedPageQuestion(shown, question, self._recorder)


class _RecordedPageQuestion:
    def __init__(self, shown: PageQuestion, question: Question, recorder: Recorder) -> None:
        self.url, self.address, self.code = shown.url, shown.address, shown.code
        self.directions = shown.directions
        self.open = shown.open
        self.renew_url = shown.renew_url
        self.wait_late_browser = shown.wait_late_browser
        self.wait_closed = shown.wait_closed
        self.refuse = shown.refuse
        self._question_page = shown
        self._question = question
        self._recorder = recorder
        self._elsewhere = False  # it was answered from another place than the page

    @property
    def opened(self) -> bool:
        return self._question_page.opened

    def answer(self, reply: SurfaceResponse, ending: Ending = Ending.ELSEWHERE) -> bool:
        """Answer from another surface: then the page was not filled in."""
        counts = self._question_page.answer(reply, ending)
        self._elsewhere = self._elsewhere or counts
        return counts

    async def wait_answer(self) -> SurfaceResponse:
        """Wait for the answer and record the filled-in form."""
        reply = await self._question_page.wait_answer()
        if self._elsewhere:
            return reply
        question = self._question
        values = [reply.content.get(field.name) for field in question.fields]
        pairs = list(zip(question.fields, values, strict=True))
        if question.secret:
            self._recorder.secret([value for field, value in pairs if field.secret])
        action = reply.outcome.row.action
        press = "send" if action is Action.ACCEPT else action.value
        fill: JsonValue = _fill(question.fields, reply.content)
        if confirms(question):
            press, fill = ("yes" if values[0] else "no") if press == "send" else press, []
        said = {
            "open": self.url,
            "fill": blank(fill) if question.secret else fill,
            "press": press,
        }
        self._recorder.record(Entry("fill", said, PERSON, BRIDGE))
        return reply


def _fill(fields: Sequence[Field], content: JsonObject) -> list[JsonValue]:
    """Return the content of each control in order; a list has one for each entry."""
    filled: list[JsonValue] = []
    for each in fields:
        value = content.get(each.name)
        for entry in as_list(value) if each.columns else ():
            filled += _fill(each.columns, as_object(entry))
        filled += [] if each.columns else [_label(each, value)]
    return filled


def _label(field: Field, value: JsonValue) -> JsonValue:
    if field.type is FieldType.BOOLEAN and value is not None:
        return "Yes" if read_boolean(value) is True else "No"
    labels = {choice.key: choice.whole or choice.label for choice in field.choices}
    return map_texts(value, lambda key: labels.get(key, key))


def _encode_capabilities(capabilities: tuple[Capability, ...]) -> list[JsonValue]:
    return [
        {
            "name": each.name,
            "description": each.description,
            "inputSchema": dict(each.input_schema),
            "available": each.available,
        }
        for each in capabilities
    ]


def _encode_result(result: CallResult) -> JsonObject:
    said: dict[str, JsonValue] = {
        "success": result.failure is None,
        "data": result.data,
        "metadata": dict(result.metadata),
    }
    if (failure := result.failure) is not None:
        said["error"] = {
            "code": failure.code,
            "message": failure.message,
            "retryable": failure.retryable,
            "details": failure.details,
            "alternatives": list(failure.alternatives),
        }
        said["cancelled"] = result.cancelled
    return {name: value for name, value in said.items() if value not in (None, {}, [])}
