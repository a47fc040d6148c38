"""Sampling by a model of the user's, from the app or server to the program on the PATH."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.agents import add_cli
from support.apps.exotic_server import SAMPLING
from support.harness import PATIENCE, SERVE, accept, environment, hosted, run
from support.http_server import Reply, Request, serving
from support.mcp_host import Host
from support.mcp_proxy import MCP
from support.paths import APPS, TESTS

Json = Any

TASK: Json = {"method": "sampling/create", "params": {"task": "What colour? In three words."}}
ANSWER = "It is blue."
FORMS: Json = {"elicitation": {"form": {}, "url": {}}}

_KEY = "a1b2c3d4e5f6a7b8c9d0"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with a command line of an agent that answers, and keeps what it was sent."""
    said: list[Json] = [
        {
            "type": "assistant",
            "message": {"id": "m", "content": [{"type": "text", "text": ANSWER}]},
        },
        {
            "type": "result",
            "result": ANSWER,
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 2, "output_tokens": 3},
            "total_cost_usd": 0.5,
        },
    ]
    (programs := tmp_path / "programs").mkdir()
    add_cli(programs, "claude", said, str(tmp_path / "sent"))
    return f"{programs}:{os.environ['PATH']}"


class Person(Host):
    """A host without a model, whose person decides one after the other."""

    capabilities: Json = FORMS

    def decide(self, *decisions: str) -> None:
        left = list(decisions)

        class Answers(dict[str, Json]):
            def __getitem__(self, method: str) -> Json:
                assert method == "elicitation/create"
                return {"action": "accept", "content": {"decision": left.pop(0)}}

        self.answers = Answers()


@pytest.mark.parametrize(("era", "upstream"), [("legacy", "modern"), ("modern", "legacy")])
@pytest.mark.slow
def test_a_server_behind_the_proxy_gets_an_answer(
    era: str, upstream: str, path: str, tmp_path: Path
) -> None:
    server = (sys.executable, str(APPS / "exotic_server.py"), upstream, str(tmp_path / "log"))
    command = [*MCP, "--sampling", "cli:claude", "--page", "off", "--", *server]
    with Person(command, env=environment(PYTHONPATH=str(TESTS), PATH=path)) as host:
        host.stateless = era == "modern"
        host.shake_hands()
        asked: list[Json] = []
        host.decide("send", "refuse")
        result = host.call("sample", asked)["result"]["structuredContent"]["r"]
        assert result["content"] == {"type": "text", "text": ANSWER}
        assert (result["model"], result["stopReason"]) == ("cli:claude", "endTurn")
        assert result["_meta"]["abp-bridge/model"]["cost"] == {"amount": 0.5, "unit": "USD"}
        (question,) = asked
        words = SAMPLING["messages"][0]["content"]["text"]
        assert f"> {words}" in question["params"]["message"]
        refused = host.call("sample", asked)
        assert "did not let it be sent" in json.dumps(refused)
    assert words in (tmp_path / "sent").read_text()
    assert (tmp_path / "sent").read_text().count(words) == 1


@contextmanager
def cli(folder: Path) -> Iterator[str]:
    yield "cli:claude"


@contextmanager
def acp(folder: Path) -> Iterator[str]:
    yield f"acp:{shlex.join([sys.executable, str(APPS / 'acp_model.py'), str(folder / 'heard')])}"


@contextmanager
def address(folder: Path) -> Iterator[str]:
    def answer(request: Request) -> Reply:
        said = {"delta": {"content": ANSWER}, "index": 0}, {"finish_reason": "stop", "delta": {}}
        used = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
        chunks: list[Json] = [{"choices": [{"index": 0, **each}]} for each in said]
        chunks.append({"choices": [], "usage": used})
        about = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
        lines = [f"data: {json.dumps({**about, **each})}\n\n" for each in chunks]
        return Reply("".join([*lines, "data: [DONE]\n\n"]).encode(), kind="text/event-stream")

    with serving(answer) as url:
        yield f"{url}/v1#m-1"


@pytest.mark.parametrize(
    ("era", "app", "model"),
    [
        ("legacy", "demo", cli),
        pytest.param("modern", "demo:page", cli, marks=pytest.mark.browser),
        ("legacy", "demo", acp),
        pytest.param("modern", "demo", address, marks=pytest.mark.process),
    ],
)
def test_an_app_gets_an_answer(
    era: str, app: str, model: Callable[[Path], Any], path: str, tmp_path: Path
) -> None:
    """On a pipe, and as a page in Chromium; from a model of each kind."""
    call = {"arguments": {"capability": "demo.ask", "params": {"request": TASK}}}
    with model(tmp_path) as word:
        command = [*SERVE, "--app", app, "--sampling", word]
        command += ["--record", str(tmp_path / "trace")]
        with Person(command, env=environment(PATH=path)) as host:
            host.stateless = era == "modern"
            host.shake_hands()
            asked: list[Json] = []
            host.decide("send")
            words = json.dumps(host.call("abp_call", asked, **call))
            assert (ANSWER if model is not acp else "Good journey to you.") in words
            assert "> What colour? In three words." in asked[0]["params"]["message"]
            assert len(asked) == 1
            assert host.end() == 0
    if model is address:  # nobody is there any more, and a stand-in answers
        play_again(tmp_path)


def play_again(folder: Path) -> None:
    """What was recorded there."""
    trace, fixture = str(folder / "trace"), str(folder / "fixture.jsonl")
    assert run("replay", "--save", trace, fixture).returncode == 0
    words = Path(fixture).read_text()
    assert "{app model}#m-1" in words
    assert "http://127.0.0.1" not in words
    played = run("replay", fixture, "--patience", "60")  # a busy machine is slow to load libraries
    assert played.returncode == 0, played.stdout


def test_a_shell_gets_an_answer_that_was_changed(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(["review", "edit", "It is red."]))
    asked = ("ask", "sampling", json.dumps(TASK["params"]), "--sampling", "cli:claude")
    done = run(*asked, "--answers", str(answers), "--on", "mock")
    assert done.returncode == 0, done.stderr
    response = json.loads(done.stdout)
    assert response["data"] == {"result": "It is red."}
    assert response["metadata"]["edited"] is True
    assert response["metadata"]["answeredBy"] == "model"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--sampling", "claude"], "'claude' is no model: write"),
        (["--sampling", "cli:clade"], "there is no agent cli:clade: write cli: and one of"),
        (["--sampling", "cli:codex"], "cli:codex always has its tools"),
        (["--sampling", "http://127.0.0.1:1/v1"], "http://127.0.0.1:1/v1#NAME"),
        (["--sampling", f"http://127.0.0.1:1/s/{_KEY}/v1"], "http://127.0.0.1:1/s/…/v1#NAME"),
    ],
)
def test_a_model_that_is_none_is_said_at_the_start(options: list[str], why: str) -> None:
    done = run("serve", *options)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert _KEY not in done.stderr


@pytest.mark.parametrize(
    "model",
    [
        "acp:API_KEY=hunter2 goose acp",
        pytest.param("acp:sh -c 'echo $1 >&2' --api-key hunter2", marks=pytest.mark.process),
    ],
)
async def test_a_key_in_a_models_command_reaches_neither_app_nor_host(
    model: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with hosted("--app", "demo", "--sampling", model, answer=accept(decision="send")) as host:
        await host.ask("sampling/create", task="Sum up")
        await host.status()
    assert "hunter2" not in str(host.wire.sent()), "what the bridge sent"
    assert "hunter2" not in capfd.readouterr().err


@pytest.mark.process
async def test_a_program_that_is_not_there_is_told_when_a_session_begins(
    capfd: pytest.CaptureFixture[str],
) -> None:
    told = ""
    arguments = ("--app", "demo", "--sampling", "acp:no-such-program")
    with anyio.fail_after(PATIENCE):
        async with hosted(*arguments) as host:
            while "abp-bridge agents lists which" not in told:
                await host.status()  # a turn of the bridge's loop, and no more
                told += capfd.readouterr().err
            surfaces = (await host.status())["surfaces"]
    assert "acp:no-such-program cannot be asked: there is no program no-such-program" in told
    places = [each.get("at") for each in surfaces if each["surface"] == "sampling"]
    assert places == ["acp:no-such-program: there is no program no-such-program here"]
