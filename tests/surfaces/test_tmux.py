"""The terminal as a surface, in a terminal that draws: every shape of question by keys in tmux, by
`abp-bridge ask` and by `serve --tty`.
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

KEY = "planted-key-7f3a"
ASK = [sys.executable, "-m", "abp_bridge", "ask"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
FORM: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Their name"},
        "age": {"type": "integer"},
        "size": {"enum": ["S", "L"]},
    },
    "required": ["name", "age"],
}

LIST = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {name: FORM["properties"][name] for name in ("name", "size")},
        "required": ["name"],
    },
    "minItems": 1,
    "maxItems": 2,
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
    "text": asked("input", {"value": "Zoë"}, ("Answer:", ("Zoë", "Enter")), prompt="Your name?"),
    "format": asked(
        "input",
        {"value": "a@b.org"},
        ("Answer:", ("nobody", "Enter")),
        ("must be an e-mail address", ("C-u", "a@b.org", "Enter")),
        prompt="Mail?",
        schema={"type": "string", "format": "email"},
    ),
    "number": asked(
        "input",
        {"value": 4.5},
        ("Answer:", ("4.5", "Enter")),
        prompt="How much?",
        schema={"type": "number"},
    ),
    "boolean": asked(
        "input",
        {"value": False},
        ("Decline to answer", ("Down", "Enter")),
        prompt="By train?",
        schema={"type": "boolean"},
    ),
    "confirm": asked(
        "confirm", {"confirmed": True}, ("Decline to answer", ("Enter",)), message="Go on?"
    ),
    "destructive confirm": asked(
        "confirm",
        {"confirmed": False},
        ("cannot be undone", ()),
        ("Decline to answer", ("Enter",)),
        message="Delete it?",
        destructive=True,
    ),
    "select": asked(
        "select",
        {"selected": "b"},
        ("Decline to answer", ("Down", "Enter")),
        prompt="Which?",
        options=["a", "b"],
    ),
    "select with search": asked(
        "select",
        {"selected": "September"},
        ("Decline to answer", ("sep",)),
        ("/ sep", ("Enter",)),
        prompt="Month?",
        options=MONTHS,
    ),
    "multi-select": asked(
        "input",
        {"value": ["b", "c"]},
        ("○ c", ("Down", "Enter")),
        ("must name at least 2", ("Space", "Down", "Space")),
        ("● c", ("Enter",)),
        prompt="Which ones?",
        schema={"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 2, "maxItems": 2},
    ),
    "several fields": asked(
        "input",
        {"value": {"name": "Grace", "age": 44}},
        ("Their name:", ("Grace", "Enter")),
        ("age:", ("44", "Enter")),
        ("Leave this out", ("Down", "Down", "Enter")),
        prompt="Who?",
        schema=FORM,
    ),
    "list of flat objects": asked(
        "input",
        {"value": [{"name": "Ada"}, {"name": "Bo", "size": "L"}]},
        ("Entry 1 (at least 1, at most 2).", ()),
        ("Their name:", ("Ada", "Enter")),
        ("Leave this out", ("Down", "Down", "Enter")),
        ("No (default)", ("Up", "Enter")),
        ("Entry 2 (", ()),
        ("Entry 2 (at least 1, at most 2).\n  Enter answers", ("Bo", "Enter")),
        ("» S", ("Down", "Enter")),
        prompt="Who comes?",
        schema=LIST,
    ),
    "nested JSON": asked(
        "input",
        {"value": {"a": [1]}},
        ("Answer:", ('{"a": [1]}', "Enter")),
        prompt="Data?",
        schema={"type": "object"},
    ),
    "secret": asked(
        "input",
        {"value": KEY},
        ("API key:", (KEY,)),
        ("***", ("Enter",)),
        prompt="Key?",
        schema={"type": "string", "title": "API key"},
    ),
    "preference": asked(
        "preference",
        {"value": "aisle"},
        ("Answer: window", ("C-u", "aisle", "Enter")),
        prompt="Seat?",
        default="window",
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
def test_every_shape_is_asked_at_the_terminal_of_a_shell_whose_pipes_are_elsewhere(
    shell: Shell, name: str
) -> None:
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


def test_ctrl_c_cancels_the_question_and_not_the_shell(shell: Shell) -> None:
    shell.ask("confirm", "Go on?")
    shell.pane.until("Decline to answer")
    shell.pane.press("C-c")
    response, code = shell.response()
    assert (response["metadata"]["outcome"], code) == ("cancelled", 1)


def test_whoever_is_fast_at_a_terminal_is_a_person_all_the_same(shell: Shell) -> None:
    shell.ask("confirm", "Go on?", env="ABP_PERSON_FLOOR=60000 ")
    shell.pane.until("Decline to answer")
    shell.pane.press("C-c")
    response, code = shell.response()
    assert (response["metadata"]["answeredBy"], response["metadata"]["outcome"], code) == (
        "person",
        "cancelled",
        1,
    )


def test_a_window_that_changes_its_size_keeps_the_question(shell: Shell) -> None:
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


def test_what_runs_in_the_background_does_not_stop_at_a_terminal_that_is_in_use(
    shell: Shell,
) -> None:
    shell.ask("--on", "terminal", "confirm", "Go on?", behind=" & wait")
    response, _ = shell.response()
    assert "another program has this terminal now" in response["error"]["message"]


def test_a_file_is_given_by_its_name_which_tab_completes(shell: Shell) -> None:
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


def test_leave_to_read_a_named_file_is_asked_with_the_safe_answer_first(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "report.txt").write_text("figures")
    request = json.dumps({"prompt": "The report, please", "uri": f"file://{tmp_path}/report.txt"})
    for keys, code, data in (
        (("Enter",), 1, None),
        (
            ("Down", "Enter"),
            0,
            {"content": "figures", "mimeType": "text/plain", "filename": "report.txt"},
        ),
    ):
        shell.ask("--root", str(tmp_path), "resource", request)
        shell.pane.until("May it read")
        shell.pane.until("Decline to answer")
        shell.pane.press(*keys)
        response, ended = shell.response()
        assert (response.get("data"), ended) == (data, code)


def test_a_named_file_outside_of_what_was_granted_is_not_read_but_said(
    shell: Shell, tmp_path: Path
) -> None:
    shell.ask("resource", json.dumps({"prompt": "The report, please", "uri": "/etc/passwd"}))
    shell.pane.until("lies in no folder that was granted")
    shell.pane.until("File:")
    shell.pane.press("C-d")
    assert shell.response()[0]["metadata"]["outcome"] == "declined"


def test_a_model_is_not_asked_for_at_a_terminal(shell: Shell) -> None:
    shell.ask("--on", "terminal", "sampling", "Write a poem")
    response, code = shell.response()
    assert (response["error"]["code"], code) == ("NOT_SUPPORTED", 1)
    assert "a terminal asks the person, not a model" in response["error"]["message"]


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


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_asked_at_a_terminal_of_its_own_beside_the_host(
    scene: Scene, name: str
) -> None:
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


def test_ctrl_c_at_that_terminal_cancels_the_question_and_nothing_else(scene: Scene) -> None:
    answer = scene.ask("elicitation/confirm", message="Go on?")
    scene.pane.until("Decline to answer")
    scene.pane.press("C-c")
    assert answer()["metadata"]["outcome"] == "cancelled"
    answer = scene.ask("elicitation/confirm", message="And now?")
    scene.pane.until("Decline to answer")
    scene.pane.press("Enter")
    assert answer()["data"] == {"confirmed": True}


def test_that_window_too_may_change_its_size(scene: Scene) -> None:
    """Nobody tells us: it is not the terminal we were started from."""
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


def test_two_questions_at_one_terminal_come_one_after_the_other(scene: Scene) -> None:
    first = scene.ask("elicitation/input", prompt="First?")
    scene.pane.until("Answer:")
    second = scene.portal.start_task_soon(
        lambda: scene.host.ask("elicitation/input", prompt="Second?")
    )
    while len(scene.status()["questions"]["open"]) < 2:
        pass
    assert "Second?" not in scene.pane.shown
    scene.pane.press("1", "Enter")
    assert first()["data"] == {"value": "1"}
    scene.pane.until("Second?\n  Enter answers")
    scene.pane.press("2", "Enter")
    assert second.result(60)["data"] == {"value": "2"}


def test_a_question_that_is_withdrawn_is_taken_off_the_terminal(scene: Scene) -> None:
    answer = scene.ask("elicitation/input", prompt="Quick?", timeout=1_500)
    assert answer()["error"]["code"] == "TIMEOUT"
    shown = scene.pane.until("(withdrawn)")
    assert "Enter answers" not in shown


def test_without_a_cursor_it_asks_line_by_line_there() -> None:
    with at_a_pane(TERM="dumb") as plain:
        pane = plain.pane
        answer = plain.ask("elicitation/input", prompt="Your password?")
        pane.until("Answer:")
        pane.press(KEY, "Enter")
        assert answer()["data"] == {"value": KEY}
        assert KEY not in pane.ever_shown
        answer = plain.ask("elicitation/input", prompt="Your name?")
        pane.until("Answer:")
        pane.press("Ada")
        pane.until("Answer: Ada")
        pane.press("C-c")
        assert answer()["metadata"]["outcome"] == "cancelled"
        answer = plain.ask("elicitation/select", prompt="Which?", options=["a", "b"])
        pane.until("Number:")
        pane.press("2", "Enter")
        assert answer()["data"] == {"selected": "b"}
