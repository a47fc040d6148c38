"""A planted key, by every way that a secret can go: it reaches the app, and is found
nowhere else.
"""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from support.acp_harness import client
from support.browser import type_on_the_page
from support.harness import MODERN, PATIENCE, VERSIONS, hosted, text
from support.paths import APPS
from support.puppets import scripted
from support.terminal import Tty

Json = Any

KEY = "planted-key-5be1"
VAULT = scripted(APPS / "vault.json")
CODEX = types.Implementation(name="codex-mcp-client", version="0.169.0")


class Planted:
    """Where the key may have gone: `wire` is what host and bridge said, the folder and stderr what
    they left.
    """

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.wire: list[Any] = []
        self.shown = ""
        self._capfd = capfd

    @property
    def arguments(self) -> list[str]:
        log = ["--log-level", "debug", "--log-file", str(self.folder / "log")]
        return ["--app", VAULT, "--output-dir", str(self.folder / "results"), *log]

    @property
    def env(self) -> dict[str, str]:
        (self.folder / "tmp").mkdir(exist_ok=True)
        return {"TMPDIR": str(self.folder / "tmp")}

    def has(self, response: Json) -> None:
        """The app has it."""
        assert response["data"] == hashlib.sha256(KEY.encode()).hexdigest(), response
        assert response["metadata"]["answeredBy"] in ("person", "script")

    def check(self) -> None:
        printed = self._capfd.readouterr()
        places = {
            "the wire": json.dumps(self.wire),
            "stderr": printed.err,
            "stdout": printed.out,
            "the screen": self.shown,
        }
        places |= {
            str(path): path.read_text(errors="replace")
            for path in self.folder.rglob("*")
            if path.is_file()
        }
        assert [place for place, words in places.items() if KEY in words] == []
        assert self.wire, "nothing was looked at"


@pytest.fixture
def planted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Planted]:
    made = Planted(tmp_path, capfd)
    yield made
    made.check()


async def visit(words: str) -> None:
    await anyio.to_thread.run_sync(type_on_the_page, words, KEY)


@pytest.mark.parametrize("version", [*VERSIONS, MODERN])
@pytest.mark.slow
async def test_by_a_host_with_url_mode(planted: Planted, version: str) -> None:
    async def answer(params: Any) -> types.ElicitResult:
        tasks.start_soon(visit, params.url)
        return types.ElicitResult(action="accept")

    async with (
        hosted(*planted.arguments, answer=answer, version=version, env=planted.env) as host,
        anyio.create_task_group() as tasks,
    ):
        planted.has(json.loads(text(await host.call("unlock"))))
        planted.wire += [host.wire.lines, await host.status()]


@pytest.mark.slow
async def test_by_a_host_with_forms_only(planted: Planted) -> None:
    async def answer(params: Any) -> types.ElicitResult:
        await visit(params.message)
        return types.ElicitResult(action="accept", content={})

    async with hosted(
        *planted.arguments, "--page", answer=answer, client_info=CODEX, env=planted.env
    ) as host:
        planted.has(json.loads(text(await host.call("unlock"))))
        planted.wire += [host.wire.lines, await host.status()]


@pytest.mark.slow
async def test_by_a_host_that_cannot_ask(planted: Planted) -> None:
    with Tty() as terminal:
        ways = ["--page", "--ask-on", "page", "--tty", terminal.name]
        async with hosted(*planted.arguments, *ways, env=planted.env) as host:
            told = text(await host.call("unlock"))
            await visit(terminal.until("code "))
            call = re.search(r'\{"call": "([^"]+)"\}', told)
            assert call is not None
            planted.has(
                json.loads(text(await host.client.call_tool("abp_wait", {"call": call[1]})))
            )
            planted.wire += [host.wire.lines, await host.status()]


@pytest.mark.slow
async def test_by_an_acp_client_with_url_mode(planted: Planted) -> None:
    def answer(method: str, params: Json) -> Json:
        tasks.start_soon(visit, params["url"])
        return {"action": "accept"}

    async with (
        client(*planted.arguments, handler=answer, env=planted.env) as editor,
        anyio.create_task_group() as tasks,
    ):
        await editor.initialize({"elicitation": {"url": {}}})
        _, words = await editor.prompt(await editor.new(), "/unlock")
        planted.has(json.loads(words))
        planted.wire.append(editor.wire.lines)


@pytest.mark.slow
async def test_by_an_acp_client_with_buttons_only(planted: Planted) -> None:
    async def answer(method: str, params: Json) -> Json:
        assert method == "session/request_permission"
        await visit(json.dumps(params))
        return {"outcome": {"outcome": "selected", "optionId": "done"}}

    async with client(*planted.arguments, "--page", handler=answer, env=planted.env) as editor:
        await editor.initialize({})
        _, words = await editor.prompt(await editor.new(), "/unlock")
        planted.has(json.loads(words))
        planted.wire.append(editor.wire.lines)


@pytest.mark.slow
async def test_at_a_terminal(planted: Planted) -> None:
    ours, theirs = pty.openpty()

    def type_there() -> None:
        shown = b""
        while b"API key:" not in shown:
            assert select.select([ours], [], [], PATIENCE)[0], shown
            shown += os.read(ours, 65_536)
        os.write(ours, KEY.encode() + b"\r")
        while select.select([ours], [], [], 0.5)[0]:
            shown += os.read(ours, 65_536)
        planted.shown = shown.decode(errors="replace")

    terminal = {**planted.env, "TERM": "xterm-256color"}
    async with (
        hosted(*planted.arguments, "--tty", os.ttyname(theirs), env=terminal) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(anyio.to_thread.run_sync, type_there)
        planted.has(json.loads(text(await host.call("unlock"))))
        planted.wire += [host.wire.lines, await host.status()]
    assert planted.shown
    os.close(ours)
    os.close(theirs)


async def test_by_an_answers_file(
    planted: Planted, tmp_path_factory: pytest.TempPathFactory
) -> None:
    answers = tmp_path_factory.mktemp("written") / "answers.json"
    answers.write_text(json.dumps([{"match": "API key", "value": KEY}]))
    async with hosted(*planted.arguments, "--answers", str(answers), env=planted.env) as host:
        planted.has(json.loads(text(await host.call("unlock"))))
        planted.wire += [host.wire.lines, await host.status()]


async def test_a_host_with_none_of_these_is_never_asked(planted: Planted) -> None:
    """A form, buttons and a model are all there, and none of them is asked for a secret: the app is
    told why.
    """

    async def fill_in(params: Any) -> types.ElicitResult:
        raise AssertionError(params)

    async with hosted(
        *planted.arguments, "--ask-via-model", answer=fill_in, client_info=CODEX, env=planted.env
    ) as host:
        response = json.loads(text(await host.call("unlock")))
        planted.wire += [host.wire.lines, await host.status()]
    reason = response["error"]["message"]
    assert response["error"]["code"] == "NOT_SUPPORTED"
    for why in (
        "mcp-url: this host opens no addresses on this machine",
        "model-relay: secrets never pass through the model",
        "page: not set up",
    ):
        assert why in reason


@pytest.mark.slow
async def test_an_answer_in_a_form_that_was_not_asked_for_is_not_taken(planted: Planted) -> None:
    """A host that sends the key with its accept of the address: it is nobody's answer, and goes
    nowhere.
    """

    async def answer(params: Any) -> types.ElicitResult:
        tasks.start_soon(visit, params.url)
        return types.ElicitResult.model_validate(
            {"action": "accept", "content": {"value": "the host's own"}}
        )

    async with (
        hosted(*planted.arguments, answer=answer, env=planted.env) as host,
        anyio.create_task_group() as tasks,
    ):
        planted.has(json.loads(text(await host.call("unlock"))))
        planted.wire += [host.wire.lines, await host.status()]
