"""The conformance suite's fixture tools as an ABP app on a pipe: `python tests/conformance/app.py`.

What the suite has its servers ask a client, this app asks by ABP; what they return, it returns in
ABP's shapes. How a tool is to behave stands in the suite's own scenario of the same name.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = Any

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJ"
    "RU5ErkJggg=="
)
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
STEP = 0.05  # seconds between two things that are told


class Failed(Exception):
    """The call ends with an ABP error: code and message."""


@dataclass
class Call:
    """One call of a capability. Everything asked and told says whose it is."""

    app: App
    id: str
    params: Json

    async def ask(self, method: str, **params: Json) -> Json:
        """The whole ABP response."""
        return await self.app.request(method, {**params, "operationId": self.id})

    async def learn(self, method: str, **params: Json) -> Json:
        """The data of a question's answer. Raises Failed when there is none."""
        response = await self.ask(method, **params)
        if not response["success"]:
            raise Failed(response["error"]["code"], response["error"]["message"])
        return response["data"]

    async def fill(self, prompt: str, **properties: Json) -> Json:
        """A form of required fields: what was filled in."""
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return (await self.learn("elicitation/input", prompt=prompt, schema=schema))["value"]

    def tell(self, event: str, **data: Json) -> None:
        self.app.send(method=f"notifications/{event}", params={"operationId": self.id, **data})


Handler = Callable[[Call], Coroutine[Any, Any, Json]]


@dataclass(frozen=True)
class Capability:
    name: str
    description: str
    run: Handler
    schema: Json = None

    def shown(self) -> Json:
        schema = self.schema or {"type": "object", "properties": {}}
        return {"name": self.name, "description": self.description, "inputSchema": schema}


CAPABILITIES: dict[str, Capability] = {}
SCHEMAS: Json = json.loads(Path(__file__).with_name("schemas.json").read_text())


def capability(schema: Json = None) -> Callable[[Handler], Handler]:
    """Offer a function under its own name, described by its first line."""

    def offer(run: Handler) -> Handler:
        CAPABILITIES[run.__name__] = Capability(run.__name__, run.__doc__ or "", run, schema)
        return run

    return offer


def file(content: str, mime_type: str, name: str) -> Json:
    """A file in an ABP result; `content` is base64."""
    return {"mimeType": mime_type, "encoding": "base64", "content": content, "filename": name}


def textual(text: str, mime_type: str, name: str) -> Json:
    return file(base64.b64encode(text.encode()).decode(), mime_type, name)


# --- before the suite begins ----------------------------------------------------------------------

STATE = {
    "static-text": "This is the content of the static text resource.",
    "watched-resource": "Watched resource content",
    "123": {"id": "123", "templateTest": True, "data": "Data for ID: 123"},
}
SAVED = "static-binary.png"


@capability()
async def prepare(call: Call) -> Json:
    """Tells the state and returns the file that the suite reads as resources."""
    for name, value in STATE.items():
        call.tell("state/changed", field=name, oldValue=None, newValue=value)
    return file(PIXEL, "image/png", SAVED)


# --- what tools return ----------------------------------------------------------------------------


@capability()
async def test_simple_text(call: Call) -> Json:
    """Tests simple text content response."""
    return "This is a simple text response for testing."


@capability()
async def test_image_content(call: Call) -> Json:
    """Tests image content response."""
    return file(PIXEL, "image/png", "image.png")


@capability()
async def test_audio_content(call: Call) -> Json:
    """Tests audio content response."""
    return file(SILENCE, "audio/wav", "audio.wav")


@capability()
async def test_embedded_resource(call: Call) -> Json:
    """Tests embedded resource content response."""
    return textual("This is an embedded resource content.", "text/plain", "embedded.txt")


@capability()
async def test_multiple_content_types(call: Call) -> Json:
    """Tests response with multiple content types (text, image, resource)."""
    resource = textual(json.dumps({"test": "data", "value": 123}), "application/json", "mixed.json")
    return {
        "text": "Multiple content types test:",
        "image": file(PIXEL, "image/png", "mixed.png"),
        "resource": resource,
    }


@capability()
async def test_error_handling(call: Call) -> Json:
    """Tests error response handling."""
    raise Failed("OPERATION_FAILED", "This tool intentionally returns an error for testing")


@capability(SCHEMAS["json_schema_2020_12_tool"])
async def json_schema_2020_12_tool(call: Call) -> Json:
    """Tool with JSON Schema 2020-12 features."""
    return {"called with": call.params}


# --- what tools tell ------------------------------------------------------------------------------


@capability()
async def test_tool_with_logging(call: Call) -> Json:
    """Tests tool that emits log messages during execution."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        call.tell("log", message=words)
        await asyncio.sleep(STEP)
    return "Tool with logging executed successfully"


@capability()
async def test_logging_tool(call: Call) -> Json:
    """Diagnostic logging validator tool."""
    call.tell("log", message="Nobody asked for this")
    return "Logging evaluated"


@capability()
async def test_tool_with_progress(call: Call) -> Json:
    """Tests tool that reports progress notifications."""
    for done in (0, 50, 100):
        call.tell("progress", progress=done, total=100, status=f"Completed step {done} of 100")
        await asyncio.sleep(STEP)
    return "Tool with progress executed successfully"


@capability()
async def test_trigger_tool_change(call: Call) -> Json:
    """Adds a capability, or takes it away again."""
    if EXTRA.name in call.app.offered:
        del call.app.offered[EXTRA.name]
    else:
        call.app.offered[EXTRA.name] = EXTRA
    call.tell("capabilities/list_changed", changed=[EXTRA.name])
    return "Mutation triggered"


EXTRA = Capability("test_extra", "Comes and goes", test_simple_text)


# --- what tools ask -------------------------------------------------------------------------------


@capability(
    {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
)
async def test_sampling(call: Call) -> Json:
    """Tests server-initiated sampling (LLM completion request)."""
    return (
        "LLM response:"
        f" {(await call.learn('sampling/create', task=call.params['prompt']))['result']}"
    )


@capability(
    {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
)
async def test_elicitation(call: Call) -> Json:
    """Tests server-initiated elicitation (user input request)."""
    filled = await call.fill(
        call.params["message"],
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return f"User response: {json.dumps(filled)}"


@capability()
async def test_elicitation_sep1034_defaults(call: Call) -> Json:
    """Tests elicitation with default values per SEP-1034."""
    filled = await call.fill(
        "Please review and update the form fields with defaults",
        **SCHEMAS["test_elicitation_sep1034_defaults"],
    )
    return f"Elicitation completed: {json.dumps(filled)}"


@capability()
async def test_elicitation_sep1330_enums(call: Call) -> Json:
    """Tests elicitation with enum schema improvements per SEP-1330."""
    filled = await call.fill(
        "Please select options from the enum fields", **SCHEMAS["test_elicitation_sep1330_enums"]
    )
    return f"Elicitation completed: {json.dumps(filled)}"


# --- what tools ask in rounds (2026-07-28) --------------------------------------------------------

TEXT = {"type": "string"}
YES_OR_NO = {"type": "boolean"}


@capability()
async def test_missing_capability(call: Call) -> Json:
    """Cannot do its work without sampling."""
    return (await call.learn("sampling/create", task="Anything at all"))["result"]


@capability()
async def test_streaming_elicitation(call: Call) -> Json:
    """Tells progress, then asks."""
    call.tell("progress", progress=50, total=100)
    return f"Streaming complete: {await call.fill('What now?', answer=TEXT)}"


@capability()
async def test_input_required_result_elicitation(call: Call) -> Json:
    """Asks one thing."""
    return f"Hello, {(await call.fill('What is your name?', name=TEXT))['name']}!"


@capability()
async def test_input_required_result_sampling(call: Call) -> Json:
    """Asks a model one thing."""
    return (await call.learn("sampling/create", task="What is the capital of France?"))["result"]


@capability()
async def test_input_required_result_request_state(call: Call) -> Json:
    """Asks for a confirmation."""
    return f"state-ok: {(await call.fill('Please confirm', ok=YES_OR_NO))['ok']}"


@capability()
async def test_input_required_result_tampered_state(call: Call) -> Json:
    """Asks for a confirmation."""
    return f"integrity-ok: {(await call.fill('Please confirm', ok=YES_OR_NO))['ok']}"


@capability()
async def test_input_required_result_multi_round(call: Call) -> Json:
    """Asks one thing after another."""
    name = (await call.fill("Step 1: What is your name?", name=TEXT))["name"]
    color = (await call.fill("Step 2: What is your favorite color?", color=TEXT))["color"]
    return f"Multi-round complete for {name} who likes {color}"


@capability()
async def test_input_required_result_multiple_inputs(call: Call) -> Json:
    """Asks a person and a model at the same time."""
    person, model = await asyncio.gather(
        call.fill("What is your name?", name=TEXT),
        call.learn("sampling/create", task="Generate a greeting"),
    )
    return f"{model['result']} {person['name']}"


@capability()
async def test_input_required_result_capabilities(call: Call) -> Json:
    """Asks a person and a model at the same time, and makes do with what it gets."""
    schema = {"type": "object", "properties": {"value": TEXT}, "required": ["value"]}
    return await asyncio.gather(
        call.ask("elicitation/input", prompt="Elicitation input", schema=schema),
        call.ask("sampling/create", task="Sample request"),
    )


# --- the app --------------------------------------------------------------------------------------


class App:
    """The app's side of one pipe, in the JSON-RPC binding of docs/abp-on-a-pipe.md."""

    def __init__(self) -> None:
        self.offered = dict(CAPABILITIES)
        self._waiting: dict[str, asyncio.Future[Json]] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._serial = 0

    async def run(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            match message.get("method"):
                case None:
                    self._waiting.pop(message["id"]).set_result(message["result"])
                case "capabilities/call":
                    call = Call(
                        self, message["params"]["options"]["callId"], message["params"]["params"]
                    )
                    self._calls[call.id] = asyncio.create_task(
                        self._call(message["id"], call, message["params"]["capability"])
                    )
                case method:
                    self.send(id=message["id"], result=self._answer(method, message.get("params")))
                    if method == "shutdown":
                        return

    def _answer(self, method: str, params: Json) -> Json:
        listed = [each.shown() for each in self.offered.values()]
        if method == "initialize":
            return {
                "sessionId": "1",
                "protocolVersion": "0.1",
                "app": {"id": "conformance", "name": "Conformance"},
                "capabilities": listed,
            }
        if method == "capabilities/cancel":
            task = self._calls.get(params["callId"])
            return {"callId": params["callId"], "cancelled": task is not None and task.cancel()}
        return listed

    async def _call(self, id: Json, call: Call, name: str) -> None:
        try:
            response = {"success": True, "data": await self.offered[name].run(call)}
        except Failed as failure:
            response = {
                "success": False,
                "error": {"code": failure.args[0], "message": failure.args[1]},
            }
        except asyncio.CancelledError:
            response = {
                "success": False,
                "cancelled": True,
                "error": {"code": "CANCELLED", "message": "The call was cancelled"},
            }
        del self._calls[call.id]
        self.send(id=id, result=response)

    async def request(self, method: str, params: Json) -> Json:
        self._serial += 1
        id = f"q{self._serial}"
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        self.send(id=id, method=method, params=params)
        return await waiting

    def send(self, **message: Json) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        asyncio.get_running_loop().call_soon(
            sys.stdout.flush
        )  # what is asked together arrives together


async def main() -> None:
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await App().run(reader)
    os._exit(0)  # what is still being asked ends here: nobody waits for it


if __name__ == "__main__":
    asyncio.run(main())
