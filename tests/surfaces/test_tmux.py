"""The terminal as a surface, in a terminal that draws: questions by keys in tmux, by `ask` and by
`serve --tty`.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from support.harness import Hosted, call_from, hosted
from support.terminal import Pane

Json = Any

pytestmark = [pytest.mark.process, pytest.mark.terminal]

KEY = "planted-key-7f3a"
ASK = [sys.executable, "-m", "abp_bridge", "ask"]
FORM: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Their name"},
        "age": {"type": "integer"},
        "size": {"enum": ["S", "L"]},
    },
    "required": ["name", "age"],
}


@dataclass(frozen=True)
class Shape:
    """One question, what a person does about it (what they see, then the keys they press), and the
    data that the app gets.
    """

    method: str
    params: Json
    acts: tuple[tuple[str, tuple[str, ...]], ...]
    data: Json


def asked(method: str, data: Json, *acts: tuple[str, tuple[str, ...]], **params: Json) -> Shape:
    return Shape(f"elicitation/{method}", params, acts, data)


SHAPES = {
    "several fields": asked(
        "input",
        {"value": {"name": "Grace", "age": 44}},
        ("Their name:", ("Grace", "Enter")),
        ("age:", ("44", "Enter")),
        ("Leave this out", ("Down", "Down", "Enter")),
        prompt="Who?",
        schema=FORM,
    ),
    "secret": asked(
        "input",
        {"value": KEY},
        ("API key:", (KEY,)),
        ("***", ("Enter",)),
        prompt="Key?",
        schema={"type": "string", "title": "API key"},
    ),
}


def act(pane: Pane, shape: Shape) -> None:
    for seen, keys in shape.acts:
        pane.until(seen)
        pane.press(*keys)


# --- by abp-bridge ask ----------------------------------------------------------------------------


class Shell:
    """A shell in a pane, in which `abp-bridge ask` runs with its stdin and stdout elsewhere."""

    def __init__(self, pane: Pane, folder: Path) -> None:
        self.pane = pane
        self.home = folder
        self._out = folder / "out"
        self._number = 0

    def ask(self, *words: str, env: str = "", behind: str = "") -> None:
        self._number += 1
        command = (
            f"{env}{shlex.join([*ASK, *words])} </dev/null >{self._out} 2>{self._out}.err{behind};"
            f" echo code-$?-{self._number}"
        )
        (self._out.parent / "run.sh").write_text(command)
        self.pane.clear()
        self.pane.press(f". {self._out.parent}/run.sh", "Enter")

    def response(self) -> tuple[Json, int]:
        shown = self.pane.until(f"-{self._number}\n")
        code = int(shown.rpartition(f"-{self._number}\n")[0].rpartition("code-")[2])
        ways = "abp-bridge: nobody was asked; to be asked: "
        said = Path(f"{self._out}.err").read_text().splitlines()
        assert all(line.startswith(ways) for line in said)
        return json.loads(self._out.read_text()), code


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("ask")
    with Pane(
        ["sh", "-i"], {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(folder)}
    ) as pane:
        yield Shell(pane, folder)


@pytest.mark.parametrize("name", SHAPES)
def test_ask_with_redirected_pipes_uses_the_terminal_of_its_shell(shell: Shell, name: str) -> None:
    shape = SHAPES[name]
    shell.ask(shape.method, json.dumps(shape.params))
    act(shell.pane, shape)
    response, code = shell.response()
    assert (response["data"], code) == (shape.data, 0)
    assert (
        response["metadata"]["answeredBy"],
        response["metadata"]["route"].partition(" ")[0],
    ) == ("person", "terminal")
    assert KEY not in shell.pane.ever_shown


def test_ctrl_c_cancels_the_question_of_ask_but_not_the_shell(shell: Shell) -> None:
    shell.ask("confirm", "Go on?")
    shell.pane.until("Decline to answer")
    shell.pane.press("C-c")
    response, code = shell.response()
    assert (response["metadata"]["outcome"], code) == ("cancelled", 1)


def test_resized_window_keeps_the_question_of_ask(shell: Shell) -> None:
    words = (
        "Which of all these many long words do you like best, and why would that be so, if I may"
        " ask?"
    )
    shell.ask("select", words, "the first of them", "the second of them")
    shell.pane.until("Decline to answer")
    shell.pane.press("Down")
    shell.pane.until("» the second")
    shell.pane.resize(50, 30)
    shell.pane.until("» the second")
    shell.pane.resize(110, 40)
    assert "Decline to answer" in shell.pane.until("» the second")
    shell.pane.press("Enter")
    assert shell.response()[0]["data"] == {"selected": "the second of them"}
    shell.pane.resize(100, 40)


def test_ask_in_the_background_is_refused_at_a_terminal_in_use(shell: Shell) -> None:
    shell.ask("--on", "terminal", "confirm", "Go on?", behind=" & wait")
    response, _ = shell.response()
    assert "another program has this terminal now" in response["error"]["message"]


def test_tab_completes_the_name_of_a_file(shell: Shell) -> None:
    (shell.home / "photo.png").write_bytes(b"\x89PNG")
    (shell.home / "notes.txt").write_text("not a photo")
    shell.ask("resource", "A photo?", "image/*")
    shell.pane.until("File:")
    shell.pane.press("~/notes.txt", "Enter")
    shell.pane.until("notes.txt is text/plain; it must be image/*")
    shell.pane.press("C-u", "~/ph", "Tab")
    shell.pane.until("File: ~/photo.png")
    shell.pane.press("Enter")
    response, code = shell.response()
    assert (response["data"], code) == (
        {
            "content": "iVBORw==",
            "mimeType": "image/png",
            "encoding": "base64",
            "filename": "photo.png",
        },
        0,
    )
    assert "File: photo.png (image/png)" in shell.pane.shown


# --- by abp-bridge serve --tty --------------------------------------------------------------------


@dataclass
class Scene:
    """A bridge whose person sits at a terminal of their own, on which somebody else's
    program runs.
    """

    pane: Pane
    host: Hosted
    portal: BlockingPortal

    def ask(self, method: str, **params: Json) -> Callable[[], Json]:
        self.pane.clear()
        asking = self.portal.start_task_soon(lambda: self.host.ask(method, **params))
        return lambda: asking.result(60)

    def status(self) -> Json:
        return call_from(self.portal, self.host.status)


@contextmanager
def at_a_pane(**env: str) -> Iterator[Scene]:
    with (
        Pane(["sleep", "infinity"], {}) as pane,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            hosted("--app", "demo", "--tty", pane.tty, env=env, shared=True)
        ) as host,
    ):
        yield Scene(pane, host, portal)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with at_a_pane() as opened:
        yield opened


@pytest.mark.parametrize("name", ["several fields", "secret"])
def test_question_is_asked_at_a_terminal_beside_the_host(scene: Scene, name: str) -> None:
    shape = SHAPES[name]
    answer = scene.ask(shape.method, **shape.params)
    act(scene.pane, shape)
    response = answer()
    assert response["data"] == shape.data
    assert (
        response["metadata"]["answeredBy"],
        response["metadata"]["route"].partition(" ")[0],
    ) == ("person", "terminal")
    assert KEY not in scene.pane.ever_shown
    assert KEY not in json.dumps(scene.status())


def test_resized_window_keeps_the_question_of_serve(scene: Scene) -> None:
    """No signal comes: it is not the terminal that the bridge was started from."""
    answer = scene.ask(
        "elicitation/select", prompt="Which?", options=["the first of them", "the second of them"]
    )
    scene.pane.until("Decline to answer")
    scene.pane.press("Down")
    scene.pane.until("» the second")
    scene.pane.resize(50, 20)
    scene.pane.until("» the second")
    scene.pane.resize(100, 40)
    scene.pane.until("» the second")
    scene.pane.press("Enter")
    assert answer()["data"] == {"selected": "the second of them"}
