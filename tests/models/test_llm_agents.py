"""Models behind an API: each of the four wires, byte by byte in this process, and over HTTP."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from support.agents import LIMIT, PNG, with_image
from support.harness import PATIENCE, run
from support.http_server import Reply, Request, serving
from support.llm_apis import CALL, KEY, KEYS, TEXTS, WIRES, Line, encode_event, make_llm, set_keys

from abp_bridge.errors import install_command
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.tap import observe_stream
from abp_bridge.models import exchange
from abp_bridge.models.agent import (
    NO_SETTINGS,
    AgentError,
    AgentMessage,
    AgentProtocol,
    AgentResponse,
    Chunk,
    CliConfig,
    ModelSettings,
    StartOptions,
    Usage,
)
from abp_bridge.models.llm import PROVIDERS, LlmAgent
from abp_bridge.models.targets import make_agent
from abp_bridge.settings import misspelt

pytest.importorskip("pydantic_ai", reason="needs extra 'models'")
from abp_bridge.models import model_turn

Json = Any

pytestmark = pytest.mark.slow

HELLO = [AgentMessage("user", "Hello")]
WANTED = ModelSettings(max_tokens=9, temperature=0.5, stop_sequences=("END",))
each_wire = pytest.mark.parametrize("api", WIRES)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    set_keys(monkeypatch)


agent = make_llm


async def send(
    model: AgentProtocol,
    settings: ModelSettings = NO_SETTINGS,
    messages: Sequence[AgentMessage] = HELLO,
    chunks: list[Chunk] | None = None,
) -> AgentResponse:
    session = await model.start(StartOptions())
    hear = (chunks if chunks is not None else []).append
    return await model.send(session, messages, settings=settings, on_chunk=hear, timeout_ms=LIMIT)


async def fail(model: AgentProtocol, settings: ModelSettings = NO_SETTINGS) -> AgentError:
    with pytest.raises(AgentError) as problem:
        await send(model, settings)
    assert KEY not in "".join(traceback.format_exception(problem.value))
    return problem.value


# --- answers --------------------------------------------------------------------------------------


@each_wire
async def test_an_answer_comes_whole_however_it_is_split(api: str) -> None:
    wire, chunks = WIRES[api], list[Chunk]()
    line = Line([bytes([each]) for each in wire.stream()])
    said = [AgentMessage("system", "Be kind"), *HELLO, AgentMessage("assistant", "Yes?"), *HELLO]
    response = await send(agent(api, line), WANTED, said, chunks)
    assert response.content == "".join(TEXTS)
    assert response.stop_reason == wire.said[0]
    assert response.ignored == wire.ignored
    assert [(each.kind, each.text) for each in chunks] == [("text", text) for text in TEXTS]
    [asked] = line.asked
    words = asked.content.decode()
    assert [word in words for word in ("Be kind", "Yes?", "Hello")] == [True] * 3
    assert line.is_closed


STEP = 7  # bytes: a prime, so that cuts are at any place of a line


@each_wire
async def test_answer_cut_anywhere_is_truncated(api: str) -> None:
    """Until the API has said why it stopped; its libraries call such an answer finished."""
    wire = WIRES[api]
    whole, line = wire.stream(), Line([])
    model = agent(api, line)
    begun, ended = whole.index(TEXTS[0].encode()), whole.index(wire.said[0].encode())
    found = []
    for length in range(begun, len(whole), STEP):
        line.pieces = [whole[:length]]
        try:
            response = await send(model)
            assert response.content == "".join(TEXTS)
            found.append("whole")
        except AgentError as problem:
            found.append(problem.code)
    assert set(found[: (ended - begun) // STEP]) == {"TRUNCATED"}
    assert found == sorted(found)


ENDINGS = {
    "too long, as asked": (1, WANTED, "TRUNCATED", "it stopped at its limit of tokens"),
    "too long, unasked": (1, NO_SETTINGS, "TRUNCATED", "it stopped at its limit of tokens"),
    "refused": (2, NO_SETTINGS, "REFUSED", ""),
}


@pytest.mark.parametrize("ending", ENDINGS)
@each_wire
async def test_an_answer_that_is_not_all_of_it_is_none(api: str, ending: str) -> None:
    place, settings, code, words = ENDINGS[ending]
    wire = WIRES[api]
    problem = await fail(agent(api, Line([wire.stream(why=wire.said[place])])), settings)
    assert (problem.code, words in str(problem)) == (code, True)
    if ending != "too long, as asked":
        assert problem.partial is None
    else:
        assert problem.partial is not None
        assert (problem.partial.content, problem.partial.stop_reason) == ("".join(TEXTS), "length")


@each_wire
async def test_a_tool_that_is_called_is_told(api: str) -> None:
    chunks = list[Chunk]()
    response = await send(agent(api, Line([WIRES[api].stream(call=CALL)])), chunks=chunks)
    assert [(each.name, each.arguments) for each in response.tool_calls] == [CALL]
    begun = [each for each in chunks if each.kind == "tool_start"]
    assert [(each.text, each.data["arguments"]) for each in begun] == [CALL]


async def test_turns_are_summed_and_priced_where_a_price_is_known() -> None:
    model = agent("openai", Line([WIRES["openai"].stream()]))
    session = await model.start(StartOptions())
    first = await model.send(session, HELLO, timeout_ms=LIMIT)
    again, _ = await model.resume(session, HELLO, timeout_ms=LIMIT)
    cost = model.estimate_cost(first)
    assert cost is not None
    assert (again, cost.unit, cost.scope, cost.source) == (session, "USD", "turn", "genai-prices")
    assert 0 < cost.amount < 0.01
    summed = Usage("session", 20, 10, replace(cost, amount=2 * cost.amount))
    assert await model.get_usage(session) == summed
    unknown = await send(agent("address", Line([WIRES["address"].stream()])))
    assert unknown.usage == Usage("turn", 10, 5)
    assert model.estimate_cost(unknown) is None
    silent = WIRES["address"].stream().replace(b'"usage"', b'"nothing"')
    assert (await send(agent("address", Line([silent])))).usage is None


async def test_nothing_is_stored_where_that_can_be_said() -> None:
    line = Line([WIRES["openai"].stream()])
    await send(agent("openai", line))
    assert json.loads(line.asked[0].content)["store"] is False


# --- what goes wrong ------------------------------------------------------------------------------

SOON = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
STATUSES: dict[str, tuple[int, dict[str, str], str, tuple[float, float] | None]] = {
    "a wrong key": (401, {}, "AUTH_REQUIRED", None),
    "too often": (429, {"retry-after": "7"}, "RATE_LIMITED", (7, 7)),
    "too often, until then": (429, {"retry-after": SOON}, "RATE_LIMITED", (3_000, 3_600)),
    "no such model": (404, {}, "NOT_AVAILABLE", None),
    "a request like no other": (400, {}, "FAILED", None),
    "a busy server": (503, {"retry-after": "2"}, "FAILED", (2, 2)),
}


@pytest.mark.parametrize("case", STATUSES)
@each_wire
async def test_an_error_says_why_and_when_to_try_again(
    api: str, case: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and without the key, which some servers quote."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ABP_MODEL_KEY", KEY)
    status, headers, code, between = STATUSES[case]
    error = {"message": f"{case}, {KEY}", "code": None, "status": "BAD", "type": "bad"}
    headers = {**headers, "content-type": "application/json"}
    line = Line([json.dumps({"error": error}).encode()], status, headers)
    problem = await fail(agent(api, line))
    assert (problem.code, str(problem)) == (code, f"HTTP {status}: {case}, [key]")
    assert (problem.retry_after is None) == (between is None)
    if between is not None:
        assert between[0] <= (problem.retry_after or 0) <= between[1]
    assert len(line.asked) == 1
    assert KEY not in caplog.text + repr(problem) + repr(agent(api))


@each_wire
async def test_key_as_model_name_or_in_the_address_is_not_quoted(api: str) -> None:
    written, part, heard = "sk-proj-" + 8 * "a1b2c3d4e5", "f6a7b8c9d0e1f2a3b4", Heard()
    error = {"message": f"there is no model {written} at /s/{part}/v1"}
    line = Line([json.dumps({"error": error}).encode()], 404, {"content-type": "application/json"})
    url = f"http://127.0.0.1:9/s/{part}/v1"
    model = LlmAgent(api, written, base_url=url, transport=line, tap=heard.tap)
    problem = await fail(model)
    assert "there is no model [key] at /s/[key]/v1" in str(problem)
    for secret in ("a1b2c3d4", part):
        assert secret not in model.title + repr(problem) + repr((heard.asked, heard.came))


async def test_a_wrong_key_is_one_whatever_the_status() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    error = {"code": 400, "message": "Bad", "status": "INVALID_ARGUMENT", "details": details}
    problem = await fail(agent("google", Line([json.dumps({"error": error}).encode()], 400)))
    assert problem.code == "AUTH_REQUIRED"


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"data: {nonsense}\n\n", "text/event-stream"),
    "other types": (b'data: {"type": 7, "choices": 3, "candidates": "x"}\n\n', "text/event-stream"),
    "too deep": (b"data: " + 90_000 * b"[" + b"\n\n", "text/event-stream"),
    "a page": (b"<html>Welcome</html>", "text/html"),
}


@pytest.mark.parametrize("case", UNREADABLE)
@each_wire
async def test_what_cannot_be_read_is_no_answer(api: str, case: str) -> None:
    body, kind = UNREADABLE[case]
    problem = await fail(agent(api, Line([body], headers={"content-type": kind})))
    assert problem.code in ("PROTOCOL", "TRUNCATED")


@each_wire
async def test_a_connection_that_breaks_is_said_so(api: str) -> None:
    whole = WIRES[api].stream()
    for broken in (httpx2.ReadError(""), httpx2.RemoteProtocolError("closed")):
        line = Line([whole[: len(whole) // 2], broken])
        assert (await fail(agent(api, line))).code == "NETWORK"
    line = Line([httpx2.ReadTimeout("")])
    assert (await fail(agent(api, line))).code == "TIMEOUT"
    silent = Line([], refuses=httpx2.ConnectTimeout(""))
    assert (await fail(agent(api, silent))).code == "NETWORK"


@each_wire
async def test_an_error_in_the_middle_of_an_answer_is_one(api: str) -> None:
    inner = {"type": "overloaded_error", "message": "overloaded", "code": 503, "status": "BUSY"}
    error: Json = {"error": inner, "message": "overloaded"}
    if api in ("openai", "anthropic"):
        error["type"] = "error"
    begun = WIRES[api].stream().partition(b"\n\n")[0] + b"\n\n"
    problem = await fail(agent(api, Line([begun, encode_event(error)])))
    assert problem.code == "FAILED"
    assert "overloaded" in str(problem)


@each_wire
async def test_an_answer_is_bounded(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long = WIRES[api].stream(["a" * 600, "b" * 600])
    monkeypatch.setattr(model_turn, "MAX_ANSWER", 1_000)
    assert "1,000 characters" in str(await fail(agent(api, Line([long]))))
    monkeypatch.setattr(exchange, "MAX_BODY", 1_000)
    problem = await fail(agent(api, Line([long])))
    assert (problem.code, "1,000 bytes" in str(problem)) == ("TRUNCATED", True)
    bomb = Line([b"small"], headers={"content-encoding": "gzip"})
    problem = await fail(agent(api, bomb))
    assert (problem.code, "compressed" in str(problem)) == ("PROTOCOL", True)
    assert bomb.asked[0].headers["accept-encoding"] == "identity"


@each_wire
async def test_redirect_is_not_followed_with_the_key(api: str) -> None:
    line = Line([], 307, {"location": "https://elsewhere.example/v1"})
    problem = await fail(agent(api, line))
    assert (problem.code, "https://elsewhere.example/v1" in str(problem)) == ("FAILED", True)
    assert len(line.asked) == 1


# --- turns ----------------------------------------------------------------------------------------


async def test_two_sessions_at_once_have_their_own_keys_and_answers() -> None:
    """Each waits until the other has asked, too."""
    both = anyio.Event()
    seen: dict[str, str] = {}

    class Both(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            said = json.loads(request.content)["input"][0]["content"]
            seen[said] = request.headers["authorization"]
            if len(seen) == 2:
                both.set()
            with anyio.fail_after(PATIENCE):
                await both.wait()
            line = Line([WIRES["openai"].stream([said])])
            return await line.handle_async_request(request)

    model = LlmAgent("openai", "gpt-5-mini", transport=Both())
    answers: dict[str, str | None] = {}

    async def turn(user: str) -> None:
        own = {"OPENAI_API_KEY": f"sk-of-{user}"}
        session = await model.start(
            StartOptions(user_id=user, cli_config=CliConfig(environment=own))
        )
        said = [AgentMessage("user", user)]
        answers[user] = (await model.send(session, said, timeout_ms=LIMIT)).content
        used = await model.get_usage(session)
        assert used is not None
        assert (used.input, used.output) == (10, 5)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn, "ann")
        tasks.start_soon(turn, "bob")
    assert answers == {"ann": "ann", "bob": "bob"}
    assert seen == {"ann": "Bearer sk-of-ann", "bob": "Bearer sk-of-bob"}


# --- keys and packages ----------------------------------------------------------------------------


async def test_an_address_is_sent_its_own_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line([WIRES["address"].stream()])
    await send(agent("address", line))
    assert "authorization" not in line.asked[0].headers
    monkeypatch.setenv("ABP_MODEL_KEY", "sk-its-own")
    await send(agent("address", line))
    assert line.asked[1].headers["authorization"] == "Bearer sk-its-own"
    assert list(misspelt(["ABP_MODEL_KEY"])) == []
    planted = [str(each.headers) for each in line.asked]
    assert not any(word in each for each in planted for word in (KEY, "org-planted", "stainless"))


@pytest.mark.parametrize("api", KEYS)
async def test_it_is_available_where_its_key_and_its_packages_are(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: AgentProtocol = agent(api)
    assert ((await model.available()).ok, model.transport_type) == (True, "llm")
    monkeypatch.setenv(KEYS[api], f"{KEY} {KEY}")
    why = (await model.available()).why_not
    assert (KEYS[api] in why, "no key" in why, KEY in why) == (True, True, False)
    monkeypatch.delenv(KEYS[api])
    why = (await model.available()).why_not
    assert ("set " in why, KEYS[api] in why) == (True, True)
    assert (await fail(model)).code == "NOT_AVAILABLE"
    monkeypatch.setenv(KEYS[api], KEY)
    with monkeypatch.context() as without:
        without.setattr("abp_bridge.models.llm.find_spec", lambda name: None)
        problem = await fail(model)
        assert problem.code == "NOT_AVAILABLE"
        assert str(problem).endswith(install_command("models"))
    monkeypatch.setitem(sys.modules, PROVIDERS[api].library, None)
    assert install_command("models") in str(await fail(model))


def test_a_model_is_named_by_its_provider_or_its_address() -> None:
    for word in ("openai:m", "anthropic:m", "google:m", "http://h/v1#m", "https://h:1/v1#a/b:c"):
        assert isinstance(make_agent(word, ""), LlmAgent)
    for word in ("openai:", "http://h/v1", "http://h/v1#", "http://me@h/v1#m", "http://h?k=v#m"):
        with pytest.raises(AgentError) as problem:
            make_agent(word, "")
        assert problem.value.code == "NOT_AVAILABLE"


@each_wire
async def test_an_image_goes_along(api: str) -> None:
    line = Line([WIRES[api].stream()])
    assert (await send(agent(api, line), messages=with_image("Look"))).content == "".join(TEXTS)
    [asked] = line.asked
    words = asked.content.decode()
    # By Google's library in the other alphabet of base64.
    assert PNG in words.replace("-", "+").replace("_", "/")
    assert "image/png" in words
    assert "Look" in words


class Heard:
    """What a tap hears, by line: what was asked, and what came back."""

    def __init__(self) -> None:
        self.asked: list[bytes | None] = []
        self.came: list[bytes | None] = []

    def tap(self, source: ByteReader, sink: ByteWriter) -> tuple[ByteReader, ByteWriter]:
        return observe_stream(
            source,
            sink,
            read=lambda line, _: self.came.append(line),
            written=lambda line, _: self.asked.append(line),
        )


# --- over HTTP ------------------------------------------------------------------------------------


@pytest.mark.network
async def test_each_api_is_asked_at_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []

    def answer(request: Request) -> Reply:
        paths.append(request.path)
        ways = {"chat": "address", "responses": "openai", "messages": "anthropic"}
        api = next((api for way, api in ways.items() if way in request.path), "google")
        return Reply(WIRES[api].stream(), "text/event-stream")

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # to this machine there is none
    with serving(answer) as url:
        for api in KEYS:
            monkeypatch.setenv(PROVIDERS[api].base_url, url)
            assert (await send(agent(api))).content == "".join(TEXTS)
        assert (await send(make_agent(f"{url}/v1#m", ""))).content == "".join(TEXTS)
    assert paths == [
        "/responses",
        "/v1/messages",
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        "/v1/chat/completions",
    ]
    for api in KEYS:  # and now nobody is there
        assert (await fail(agent(api))).code == "NETWORK"
    assert (await fail(make_agent(f"{url}/v1#m", ""))).code == "NETWORK"


# --- abp-bridge agents ----------------------------------------------------------------------------


@pytest.mark.process
def test_the_list_says_which_providers_can_be_had_and_loads_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    listed = run("agents")
    assert listed.stdout.splitlines()[-5:] == [
        "openai:NAME     no: there is no key of OpenAI's: set OPENAI_API_KEY",
        "anthropic:NAME  yes",
        "google:NAME     yes",
        "http://...#NAME yes",
        "acp:COMMAND     any agent that speaks ACP, as in 'acp:goose acp'",
    ]
    assert "abp_bridge.models.llm" in listed.stderr
    assert not any(name in listed.stderr for name in ("pydantic", "httpx2", "google.genai", KEY))
