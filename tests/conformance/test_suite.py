"""The conformance suite from npm, run against the bridge for each revision of MCP."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
import uvicorn
from anyio.abc import Process, TaskGroup, TaskStatus
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
)
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.jsonrpc import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from support import npm
from support.harness import environment
from support.npm import Package
from support.peer import read_lines
from support.puppets import scripted

from .names import SCRIPT, Names

Json = Any

HERE = Path(__file__).parent
EXPECTED = (HERE / "expected.yml").read_text()
PROXIED = (HERE / "proxied.yml").read_text()
BRIDGE = Path(sys.executable).with_name("abp-bridge")
SERVER = [str(BRIDGE), "serve", "--app", scripted(SCRIPT)]
PROXY = [str(BRIDGE), "mcp", "--page", "off", "--without-person", "--log-level", "error"]
COMMANDS = {
    "bridge": SERVER,
    # the same with the proxy in between, by the era that it speaks to the bridge
    "legacy": [*PROXY, "--era", "legacy", "--", *SERVER],
    "modern": [*PROXY, "--era", "modern", "--", *SERVER],
}
# What the proxy says where nobody can be asked, and it was started all the same.
ANNOUNCED = r"the bridge said on stderr: abp-bridge: nobody can be asked \(.*\): each .* 'cancel'"
pytestmark = [pytest.mark.process, pytest.mark.network]
REVISIONS = ["2025-11-25", "2026-07-28"]
LIMIT = 900.0  # seconds for one revision

CACHE = npm.CACHE / "conformance"
SUITE = Package(
    "@modelcontextprotocol/conformance",
    "0.2.0-alpha.12",
    "@modelcontextprotocol/conformance/dist/index.js",
)
NODE = Package("node", "24.21.0", "node/bin/node")
NODE_NEEDED = 22


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the suite checked, with its verdict, such as SUCCESS or WARNING."""

    scenario: str
    id: str
    verdict: str
    words: str

    @property
    def name(self) -> str:
        return f"{self.scenario}:{self.id}"

    @property
    def failed(self) -> bool:
        return self.verdict in ("FAILURE", "WARNING")


@dataclass
class Run:
    """What came of one revision. `expected` is the baseline of known failures."""

    expected: str

    content: bool = True
    checks: list[Check] = field(default_factory=list)
    complaints: Sequence[str] = ()
    required: Sequence[str] = ()

    @property
    def reasons(self) -> dict[str, str]:
        return dict(re.findall(r"^  - (\S+) # (.+)$", self.expected, re.MULTILINE))


@pytest.fixture(scope="module", params=product(REVISIONS, COMMANDS), ids="-".join)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The suite's whole run for one revision, or the scenarios of it that are asked for."""
    revision, command = request.param
    folder = tmp_path_factory.mktemp(request.param[1])
    only = request.config.getoption("--scenario")
    return anyio.run(_run, command, revision, only, folder)


def test_required_scenarios_pass(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n {dict(Counter(check.verdict for check in run.checks))}")
    assert run.checks, "the suite looked at nothing"
    assert [
        (check.name, check.words)
        for check in run.checks
        if check.failed and check.scenario in run.required and check.name not in run.reasons
    ] == []


def test_expected_failures_still_fail(run: Run) -> None:
    wrong = {check.name for check in run.checks if check.failed}
    passed = {check.name for check in run.checks if check.verdict == "SUCCESS"} - wrong
    assert not passed & set(run.reasons), "take it out of what is expected"


def test_bridges_keep_the_rules(run: Run) -> None:
    assert run.complaints == []


def test_suite_is_content(run: Run) -> None:
    assert run.content


async def _run(name: str, revision: str, only: Sequence[str], folder: Path) -> Run:
    program = npm.program(SUITE, CACHE / "suite")
    env = environment()
    adapter = Adapter(COMMANDS[name], env, folder, by_client=name != "bridge")
    more = PROXIED.partition(f"{name}:\n")[2].partition("\nmodern:")[0]
    run = Run(f"{EXPECTED}\n{more}\n", required=_required(program, revision))
    async with adapter.served() as url:
        for scenario in only or [""]:
            content, checks = await _suite(program, url, revision, scenario, folder, run.expected)
            run.content = run.content and content
            run.checks += checks
    said = adapter.complaints
    run.complaints = [each for each in said if not re.fullmatch(ANNOUNCED, each)]
    return run


def _required(program: Path, revision: str) -> list[str]:
    listed = (program.parents[1] / "requirements" / f"{revision}.yaml").read_text()
    part = listed.partition("\nserver:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  - (\S+)$", part, re.MULTILINE)


async def _suite(
    program: Path, url: str, revision: str, scenario: str, folder: Path, expected: str
) -> tuple[bool, list[Check]]:
    """Run all of `revision`, or one scenario: (whether all was as expected, the checks)."""
    folder = folder / (scenario or "all")
    folder.mkdir(parents=True)
    baseline = folder / "expected.yml"
    baseline.write_text(expected)
    one = ["--scenario", scenario, "--spec-version", revision]
    what = one if scenario else ["--requirements", revision]
    command = [_node(), program, "server", "--url", url, *what, "-o", folder]
    with (folder / "output.txt").open("wb") as output:
        process = await anyio.open_process(
            [*map(str, command), "--expected-failures", str(baseline)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
        )
        try:
            with anyio.move_on_after(LIMIT):
                await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                code = await process.wait()
    paths = sorted(folder.glob("server-*/checks.json"))
    return code == 0, [check for path in paths for check in _checks(path)]


def _checks(path: Path) -> list[Check]:
    scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name.removeprefix("server-"))
    return [
        Check(scenario, each["id"], each["status"], each.get("errorMessage") or "")
        for each in json.loads(path.read_text())
    ]


def _node() -> str:
    if (found := shutil.which("node")) is not None:
        version = subprocess.run([found, "--version"], check=True, capture_output=True, text=True)
        if (match := re.match(r"v(\d+)\.", version.stdout)) and int(match[1]) >= NODE_NEEDED:
            return found
    return str(npm.program(NODE, CACHE / "node"))


# --- stdio bridges over HTTP ----------------------------------------------------------------------
#
# Streamable HTTP onto pipes: sessions, streams, headers and status codes. A legacy client has a
# bridge, which is its session. Modern clients share one, or those with the same capabilities do.

PATIENCE = 30.0  # seconds for the bridge to say anything at all about a request
MODERN = "2026-07-28"
# What clients can do that the suite gives little time: their bridges are there before them.
FIRST: tuple[Json, ...] = ({}, {"elicitation": {}})
_HOSTS = ("localhost", "127.0.0.1", "::1")


class Refusal(Exception):
    """A request that goes no further: (HTTP status, JSON-RPC code, words)."""

    def __init__(self, status: int, code: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.code = code


class Server(uvicorn.Server):
    """Leaves signals to the whole, which ends the suite and the bridges, too."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Adapter:
    """Serves a stdio MCP server over HTTP; `complaints` are what bridges did wrong."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path, *, by_client: bool
    ) -> None:
        """With `by_client` each modern client has a bridge, as a proxy serves one host."""
        self._command = command
        self._by_client = by_client
        self._env = env
        self._folder = folder
        self._serial = count(1)
        self._sessions: dict[str, Pipe] = {}
        self._shared: dict[str, Pipe] = {}  # by what its clients can do
        self._sharing = anyio.Lock()
        self._tasks: TaskGroup
        self._pipes: list[Pipe] = []

    @property
    def complaints(self) -> list[str]:
        return [f"the bridge {each}" for pipe in self._pipes for each in pipe.complaints]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve on a free port until the block ends."""
        route = Route("/mcp", self._guarded, methods=["GET", "POST", "DELETE"])
        config = uvicorn.Config(
            Starlette(routes=[route]),
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = Server(config)
            async with anyio.create_task_group() as serving:
                serving.start_soon(server.serve, [listener])
                async with anyio.create_task_group() as self._tasks:
                    try:
                        for able in FIRST if self._by_client else ():
                            await self._common(able)
                        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
                    finally:
                        for pipe in self._pipes:
                            pipe.close()
                server.should_exit = True

    async def _start(self, kind: str) -> Pipe:
        record = self._folder / f"{kind}-{next(self._serial)}.stderr"
        pipe = Pipe(self._command, self._env, record)
        self._pipes.append(pipe)
        await self._tasks.start(pipe.run)
        return pipe

    # --- HTTP ---

    async def _guarded(self, request: Request) -> Response:
        """Answer every request, and refuse those from elsewhere."""
        try:
            if not _is_local(f"//{request.headers.get('host', '')}") or not _is_local(
                request.headers.get("origin")
            ):
                raise Refusal(403, INVALID_REQUEST, "only this machine may ask")
            match request.method:
                case "POST":
                    return await self._post(request)
                case "GET":
                    return await self._listen(request)
                case "DELETE":
                    return await self._leave(request)
            raise Refusal(405, INVALID_REQUEST, "there is POST, GET and DELETE")
        except Refusal as problem:
            return _error(None, problem)

    async def _post(self, request: Request) -> Response:
        try:
            message = json.loads(await request.body())
        except ValueError:
            raise Refusal(400, PARSE_ERROR, "this is no JSON") from None
        if not isinstance(message, dict):
            raise Refusal(400, INVALID_REQUEST, "this is no JSON-RPC message")
        take = self._post_modern if _is_modern(request, message) else self._post_legacy
        try:
            return await take(request, message)
        except Refusal as problem:
            return _error(message.get("id"), problem)

    # --- legacy: a session is a bridge ---

    async def _post_legacy(self, request: Request, message: Message) -> Response:
        if message.get("method") == "initialize":
            session = secrets.token_hex(16)
            bridge = self._sessions[session] = await self._start("legacy")
            return await _reply(request, bridge, message, headers={"mcp-session-id": session})
        bridge = self._session(request)
        if "method" in message and "id" in message:
            return await _reply(request, bridge, message)
        if message.get("method") == "notifications/cancelled":
            bridge.cancel_request((message.get("params") or {}).get("requestId"))
        else:
            bridge.send(message)
        if message.get("method") == "notifications/initialized":
            await bridge.prepare()
        return Response(status_code=202)

    def _session(self, request: Request) -> Pipe:
        id = request.headers.get("mcp-session-id")
        if id is None:
            raise Refusal(400, INVALID_REQUEST, "there is no Mcp-Session-Id")
        if id not in self._sessions:
            raise Refusal(404, INVALID_REQUEST, "there is no such session")
        return self._sessions[id]

    async def _listen(self, request: Request) -> Response:
        if "mcp-session-id" not in request.headers:
            raise Refusal(405, INVALID_REQUEST, "only a legacy session has such a stream")
        bridge = self._session(request)
        if bridge.rest is not None:
            raise Refusal(409, INVALID_REQUEST, "the session has its stream already")
        messages = bridge.rest = asyncio.Queue()

        async def events() -> AsyncIterator[str]:
            try:
                while (message := await messages.get()) is not None:
                    yield _event(message)
            finally:
                bridge.rest = None

        return _stream(events())

    async def _leave(self, request: Request) -> Response:
        if "mcp-session-id" not in request.headers:
            raise Refusal(405, INVALID_REQUEST, "only a legacy session can be ended")
        self._session(request).close()
        del self._sessions[request.headers["mcp-session-id"]]
        return Response(status_code=204)

    # --- modern: one bridge for all, or for all that can do the same ---

    async def _post_modern(self, request: Request, message: Message) -> Response:
        if "method" not in message:
            raise Refusal(400, INVALID_REQUEST, "clients send no responses")
        if "id" not in message:
            return Response(status_code=202)  # none is defined for HTTP
        _compare(request, message)
        able = meta(message).get(CLIENT_CAPABILITIES_META_KEY)
        bridge = await self._common(able if self._by_client and isinstance(able, Mapping) else {})
        return await _reply(request, bridge, message, is_modern=True)

    async def _common(self, able: Json) -> Pipe:
        name = json.dumps(able)
        async with self._sharing:
            if name not in self._shared or self._shared[name].over:
                bridge = self._shared[name] = await self._start("modern")
                await bridge.prepare(
                    **{PROTOCOL_VERSION_META_KEY: MODERN, CLIENT_CAPABILITIES_META_KEY: able}
                )
            return self._shared[name]


def _is_local(address: str | None) -> bool:
    try:
        return address is None or urlsplit(address).hostname in _HOSTS
    except ValueError:
        return False


def _is_modern(request: Request, message: Message) -> bool:
    version = request.headers.get("mcp-protocol-version")
    return PROTOCOL_VERSION_META_KEY in meta(message) or (
        version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
    )


def _compare(request: Request, message: Message) -> None:
    """Check that the headers repeat what the message says (SEP-2243)."""
    found = classify_inbound_request(message, headers=dict(request.headers))
    if isinstance(found, InboundLadderRejection) and found.code == HEADER_MISMATCH:
        raise Refusal(400, HEADER_MISMATCH, f"Header mismatch: {found.message}")


async def _reply(
    request: Request,
    bridge: Pipe,
    message: Message,
    *,
    is_modern: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The response: JSON if it is a single message, else a stream."""
    exchange = bridge.ask(message)

    def left() -> None:
        if is_modern:
            bridge.cancel(exchange)

    first = await _first(request, exchange, left)
    if "method" not in first:
        code = first.get("error", {}).get("code")
        status = ERROR_CODE_HTTP_STATUS.get(code, 200) if is_modern else 200
        return JSONResponse(first, status, headers)

    async def events() -> AsyncIterator[str]:
        try:
            yield _event(first)
            while (heard := await exchange.messages.get()) is not None:
                yield _event(heard)
        finally:
            left()

    return _stream(events(), headers)


async def _first(request: Request, exchange: Exchange, left: Callable[[], None]) -> Message:
    """The first message about a request, while its client waits."""
    refusal = Refusal(499, INTERNAL_ERROR, "the client left")
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            left()
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        try:
            return await _next(exchange.messages)
        except Refusal as problem:
            refusal = problem
        finally:
            tasks.cancel_scope.cancel()
    raise refusal


async def _next(messages: Messages) -> Message:
    try:
        with anyio.fail_after(PATIENCE):
            message = await messages.get()
    except TimeoutError:
        raise Refusal(504, INTERNAL_ERROR, f"the bridge said nothing for {PATIENCE:g} s") from None
    if message is None:
        why = "nothing comes of it: the bridge has ended, or the request was cancelled"
        raise Refusal(502, INTERNAL_ERROR, why)
    return message


def _stream(events: AsyncIterator[str], headers: Mapping[str, str] | None = None) -> Response:
    return StreamingResponse(
        events,
        media_type="text/event-stream",
        headers={"cache-control": "no-store", **(headers or {})},
    )


def _event(message: Message) -> str:
    return f"event: message\ndata: {json.dumps(message, ensure_ascii=False)}\n\n"


def _error(id: Json, problem: Refusal) -> Response:
    error = {"code": problem.code, "message": str(problem)}
    return JSONResponse({"jsonrpc": "2.0", "id": id, "error": error}, problem.status)


# --- one bridge on its pipes ----------------------------------------------------------------------
#
# Several HTTP exchanges share a bridge. Each request gets an id and a progress token of the pipe,
# as clients may choose the same ones. A message without a request goes to the youngest call.

Message = dict[str, Json]
Messages = asyncio.Queue[Message | None]

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
END = 3.0  # seconds for the bridge to end after its stdin; then SIGTERM, then SIGKILL
FIRST_ID = 1_000_000  # no request of the bridge's own has such an id
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_UNASKED = (
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
)


class Exchange:
    """A request in flight. `messages` ends with the response and None."""

    def __init__(self, request: Message) -> None:
        self.request = request
        self.token = meta(request).get("progressToken")
        self.messages: Messages = asyncio.Queue()


class Pipe:
    """A bridge on its pipes, whose stderr goes to a file."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], stderr: Path) -> None:
        self.names = Names()
        self._command = command
        self._env = env
        self._stderr = stderr
        self._ids = count(FIRST_ID)
        self._exchanges: dict[Json, Exchange] = {}  # by the pipe's ids, the oldest first
        # What the bridge says of these may have crossed with our word.
        self._cancelled: set[Json] = set()
        self._outgoing: asyncio.Queue[Message] = asyncio.Queue()
        self._end = anyio.Event()
        self.over = False
        self.rest: Messages | None = None  # for what belongs to no exchange
        self.complaints: list[str] = []

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        with self._stderr.open("wb") as sink:
            process = await anyio.open_process(
                self._command, stderr=sink, env=self._env, start_new_session=True
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, process)
                tasks.start_soon(self._read, process)
                task_status.started()
                try:
                    await self._end.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._await_end(process)
                    tasks.cancel_scope.cancel()
        if process.returncode:
            self.complaints.append(f"ended with {process.returncode}")
        if said := self._stderr.read_text(errors="replace").strip():
            self.complaints.append(f"said on stderr: {said[:2_000]}")

    async def prepare(self, **about: Json) -> None:
        """Connect the app and publish what the suite reads as resources."""
        for name, arguments in (("abp_connect", {}), ("abp_call", {"capability": "prepare"})):
            params = {"name": name, "arguments": arguments, "_meta": about}
            request = {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}
            exchange = self.ask(request)
            while "method" in (answer := await _next(exchange.messages)):
                pass
            if answer.get("result", {}).get("isError") is not False:
                raise Refusal(502, INTERNAL_ERROR, f"{name} gave {json.dumps(answer)}")

    def close(self) -> None:
        """Ask for the end; `run` returns when it has come."""
        self._end.set()

    def ask(self, request: Message) -> Exchange:
        exchange = Exchange(request)
        id = next(self._ids)
        self._exchanges[id] = exchange
        sent = {**self.names.inward(request), "id": id}
        if exchange.token is not None:
            sent["params"] = {**sent["params"], "_meta": {**meta(request), "progressToken": id}}
        self.send(sent)
        if self.over:
            exchange.messages.put_nowait(None)
        return exchange

    def send(self, message: Message) -> None:
        self._outgoing.put_nowait(message)

    def cancel(self, exchange: Exchange) -> None:
        exchange.messages.put_nowait(None)
        for id in [id for id, each in self._exchanges.items() if each is exchange]:
            del self._exchanges[id]
            self._cancelled.add(id)
            params = {"requestId": id, "reason": "the client left"}
            self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def cancel_request(self, id: Json) -> None:
        for exchange in [each for each in self._exchanges.values() if each.request["id"] == id]:
            self.cancel(exchange)

    # --- from the bridge ---

    def _take(self, message: Message) -> None:
        id = message.get("id")
        if "method" in message:
            messages, message = self._addressed(message)
            if messages is not None:
                messages.put_nowait(self.names.outward(message))
        elif (exchange := self._exchanges.pop(id, None)) is not None:
            restored = {**_restored(message, exchange), "id": exchange.request["id"]}
            exchange.messages.put_nowait(self.names.outward(restored, exchange.request))
            exchange.messages.put_nowait(None)
        elif id not in self._cancelled:
            self._complain("answered what nobody asks, or twice", message)

    def _addressed(self, message: Message) -> tuple[Messages | None, Message]:
        params = message["params"] if isinstance(message.get("params"), Mapping) else {}
        marks = (meta(message).get(SUBSCRIPTION), params.get("progressToken"))
        for id in (*marks, params.get("requestId")):
            if isinstance(id, int) and id >= FIRST_ID:
                if (exchange := self._exchanges.get(id)) is not None:
                    return exchange.messages, _restored(message, exchange)
                if id not in self._cancelled:
                    self._complain("spoke of a request after its answer", message)
                return None, message
        wanted = "subscriptions/listen" if message["method"] in _UNASKED else "tools/call"
        for exchange in reversed(self._exchanges.values()):
            if exchange.request["method"] == wanted:
                return exchange.messages, message
        return self.rest, message

    def _complain(self, problem: str, message: Json) -> None:
        self.complaints.append(f"{problem}: {str(message)[:200]}")

    # --- the process ---

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in read_lines(process.stdout):
            try:
                message = json.loads(line)
            except ValueError:
                self._complain("wrote a line that is no JSON", line)
            else:
                self._take(message)
        self._end.set()

    async def _write(self, process: Process) -> None:
        assert process.stdin is not None
        while message := await self._outgoing.get():
            try:
                await process.stdin.send(json.dumps(message, ensure_ascii=False).encode() + b"\n")
            except GONE:
                return

    async def _await_end(self, process: Process) -> None:
        self.over = True
        for each in (self.rest, *(exchange.messages for exchange in self._exchanges.values())):
            if each is not None:
                each.put_nowait(None)
        assert process.stdin is not None
        with suppress(*GONE):
            await process.stdin.aclose()
        for less_gently in (process.terminate, process.kill):
            with anyio.move_on_after(END):
                await process.wait()
                return
            self.complaints.append(f"was still there {END:g} s after it was to end")
            with suppress(ProcessLookupError):
                less_gently()
        await process.wait()


def meta(message: Message) -> Mapping[str, Json]:
    params = message.get("params")
    found = params.get("_meta") if isinstance(params, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _restored(message: Message, exchange: Exchange) -> Message:
    own = {"progressToken": exchange.token, "requestId": exchange.request["id"]}
    for part in ("params", "result"):
        if isinstance(body := message.get(part), Mapping):
            names = {word: own[word] for word in own if word in body and part == "params"}
            about = body.get("_meta")
            if isinstance(about, Mapping) and SUBSCRIPTION in about:
                names["_meta"] = {**about, SUBSCRIPTION: exchange.request["id"]}
            message = {**message, part: {**body, **names}}
    return message
