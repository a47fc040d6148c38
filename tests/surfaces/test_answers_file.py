"""Answers written down before the questions: what each kind of entry does, and the file behind a
real bridge.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.harness import MODERN, accept, hosted, run
from support.paths import DOCS

from abp_bridge.core.outcome import Outcome
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.context import NO_CONTEXT
from abp_bridge.session.surface import SurfaceUnsupportedError
from abp_bridge.surfaces.answers_file import AnswersFile, decode_entries

Json = Any

KEY = "planted-key-7f3a"


def question(method: str, **params: Json) -> Any:
    name = method if "/" in method else f"elicitation/{method}"
    return decode_question({"method": name, "params": params}, id="q", origin="https://app.example")


NAME = question("input", prompt="Your name?")
SURE = question("confirm", message="Are you sure?")
SEASON = question("select", prompt="Which season?", options=["spring", "summer"])
FORM = question(
    "input",
    prompt="Who?",
    schema={
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    },
)
PHOTO = question("resource", prompt="A photo?", type="image/*")
POEM = question("sampling/create", task="Write a poem")

ANSWERED: list[tuple[str, list[Json], Any, Json]] = [
    ("a bare value", ["Ada"], NAME, {"value": "Ada"}),
    (
        "the first that matches",
        [{"match": "season", "value": "summer"}, "Ada", "Bea"],
        NAME,
        {"value": "Ada"},
    ),
    ("a part of the message", [{"match": "name", "value": "Ada"}], NAME, {"value": "Ada"}),
    (
        "a regular expression",
        [
            {"match": "/^Which/", "value": "x"},
            {"match": "/^your/", "value": "y"},
            {"match": "/^Y.*\\?$/", "value": "z"},
        ],
        NAME,
        {"value": "z"},
    ),
    (
        "a slash alone is no expression",
        [{"match": "/", "value": "x"}, "Ada"],
        NAME,
        {"value": "Ada"},
    ),
    ("a method", [{"method": "elicitation/confirm", "value": True}, "Ada"], NAME, {"value": "Ada"}),
    (
        "the last word of a method",
        [{"method": "confirm", "value": False}],
        SURE,
        {"confirmed": False},
    ),
    (
        "both",
        [
            {"method": "confirm", "match": "deploy", "value": True},
            {"method": "confirm", "match": "sure", "value": False},
        ],
        SURE,
        {"confirmed": False},
    ),
    ("an option by its label", ["summer"], SEASON, {"selected": "summer"}),
    ("content", [{"content": {"name": "Ada", "age": 36}}], FORM, {"name": "Ada", "age": 36}),
    ("a model's result", ["Ada", {"result": "Roses are red"}], POEM, {"result": "Roses are red"}),
    ("a result is for a model alone", [{"result": "Roses"}, "Ada"], NAME, {"value": "Ada"}),
    (
        "a file as its content",
        [{"value": {"content": "iVBORw==", "mimeType": "image/png", "encoding": "base64"}}],
        PHOTO,
        None,
    ),
]


@pytest.mark.parametrize(
    ("entries", "asked", "content"), [row[1:] for row in ANSWERED], ids=[row[0] for row in ANSWERED]
)
async def test_a_question_is_answered_by_the_first_entry_that_matches(
    entries: list[Json], asked: Any, content: Json
) -> None:
    reply = await AnswersFile(decode_entries(entries)).prompt(asked, NO_CONTEXT)
    assert reply.outcome is Outcome.ACCEPTED
    assert content is None or dict(reply.content) == content


@pytest.mark.parametrize(
    ("word", "outcome"), [("decline", Outcome.DECLINED), ("cancel", Outcome.CANCELLED)]
)
@pytest.mark.parametrize("bare", [True, False])
async def test_no_answer_is_an_answer_too(word: str, outcome: Outcome, bare: bool) -> None:
    assert (
        await AnswersFile(decode_entries([word if bare else {"action": word}])).prompt(
            NAME, NO_CONTEXT
        )
    ).outcome is outcome


REFUSED: list[tuple[str, list[Json], Any, str]] = [
    (
        "nothing is written",
        [],
        NAME,
        "none of the 0 entries matches 'Your name?' (elicitation/input)",
    ),
    ("nothing matches", [{"match": "season", "value": 1}], NAME, "none of the 1 entries matches"),
    (
        "it does not fit",
        ["maybe"],
        SURE,
        "entry 1 does not answer 'Are you sure?': confirmed must be true or false",
    ),
    (
        "a value for several fields",
        ["Ada"],
        FORM,
        "has 2 fields, so its answer must be given as content",
    ),
    (
        "a field that is not asked for",
        [{"content": {"colour": "red"}}],
        NAME,
        "the question has no field 'colour'",
    ),
    (
        "a model is asked",
        ["Ada", "decline", {"value": 1}],
        POEM,
        "matches 'Write a poem' (sampling/create)",
    ),
]


@pytest.mark.parametrize(
    ("entries", "asked", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
async def test_what_is_not_written_down_is_refused_with_the_reason(
    entries: list[Json], asked: Any, why: str
) -> None:
    with pytest.raises(SurfaceUnsupportedError) as refused:
        await AnswersFile(decode_entries(entries)).prompt(asked, NO_CONTEXT)
    assert why in str(refused.value)


async def test_an_entry_is_used_as_often_as_it_says() -> None:
    mock = AnswersFile(
        decode_entries(
            [
                {"value": "once"},
                {"value": "twice", "times": 2},
                {"value": "ever", "times": "always"},
            ]
        )
    )
    given = [(await mock.prompt(NAME, NO_CONTEXT)).content["value"] for _ in range(6)]
    assert given == ["once", "twice", "twice", "ever", "ever", "ever"]


async def test_a_used_up_entry_is_named_in_the_refusal() -> None:
    mock = AnswersFile(decode_entries(["Ada"]), "answers.json")
    await mock.prompt(NAME, NO_CONTEXT)
    with pytest.raises(
        SurfaceUnsupportedError,
        match=r"none of the 1 entries of answers\.json matches .*1 of them are used up",
    ):
        await mock.prompt(NAME, NO_CONTEXT)


async def test_a_file_is_read_from_beside_the_answers(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    reply = await AnswersFile(decode_entries([{"file": "photo.png"}], str(tmp_path))).prompt(
        PHOTO, NO_CONTEXT
    )
    assert reply.content["file"] == {
        "content": "iVBORw==",
        "mimeType": "image/png",
        "encoding": "base64",
        "filename": "photo.png",
    }


async def test_a_file_of_another_kind_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(SurfaceUnsupportedError, match="file must be image/"):
        await AnswersFile(decode_entries([{"file": "notes.txt"}], str(tmp_path))).prompt(
            PHOTO, NO_CONTEXT
        )


async def test_what_was_asked_is_recorded_without_secrets() -> None:
    mock = AnswersFile(decode_entries([KEY, "Ada", {"match": "x", "value": KEY}]))
    await mock.prompt(question("input", prompt="Your API key?"), NO_CONTEXT)
    await mock.prompt(NAME, NO_CONTEXT)
    with pytest.raises(SurfaceUnsupportedError):
        await mock.prompt(SURE, NO_CONTEXT)
    assert [(each.entry, each.outcome, dict(each.content)) for each in mock.asked] == [
        (1, "accepted", {"value": "••••••"}),
        (2, "accepted", {"value": "Ada"}),
        (None, "refused", {}),
    ]
    assert mock.unused == [3]
    assert KEY not in repr(mock.asked)


async def test_the_documented_example_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"")
    section = (DOCS / "asking.md").read_text().split("\n## Answers files\n")[1]
    documented = section.split("```json\n")[1].split("```")[0]
    assert len(decode_entries(json.loads(documented), str(tmp_path))) == 8


# --- behind a real bridge -------------------------------------------------------------------------


def written(folder: Path, *entries: Json) -> str:
    path = folder / "answers.json"
    path.write_text(json.dumps(entries))
    return str(path)


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_written_answers_come_before_the_host(tmp_path: Path, version: str) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    answers = written(
        tmp_path,
        {"match": "key", "value": KEY},
        {"method": "sampling/create", "result": "a poem"},
        {"method": "resource", "file": "notes.txt"},
        {"method": "confirm", "value": True, "times": "always"},
        {"match": "Seat", "action": "decline"},
    )
    async with hosted(
        "--app", "demo", "--answers", answers, answer=accept(value="from the host"), version=version
    ) as host:
        secret = await host.ask("elicitation/input", prompt="Your API key?")
        assert secret["data"] == {"value": KEY}
        assert (secret["metadata"]["answeredBy"], secret["metadata"]["route"]) == ("script", "mock")
        assert (await host.ask("sampling/create", task="A poem, please"))["data"] == {
            "result": "a poem"
        }
        assert (await host.ask("elicitation/resource", prompt="Notes?"))["data"][
            "content"
        ] == "hello"
        for _ in range(2):
            assert (await host.ask("elicitation/confirm", message="Delete?", destructive=True))[
                "data"
            ] == {"confirmed": True}
        assert (await host.ask("elicitation/preference", prompt="Seat?", default="aisle"))[
            "metadata"
        ]["outcome"] == "declined"
        other = await host.ask("elicitation/input", prompt="Something else?")
        assert (other["data"], other["metadata"]["answeredBy"]) == (
            {"value": "from the host"},
            "person",
        )
        assert KEY not in json.dumps(await host.status())


# --- files that cannot be used --------------------------------------------------------------------

BAD: list[tuple[Json, str]] = [
    ({}, "holds no list"),
    ([{"vallue": 1}], "entry 1 has 'vallue'"),
    (
        ["x", {"match": "a"}],
        "entry 2 must have exactly one of value, content, action, file and result",
    ),
    ([{"match": "/(/", "value": 1}], "the match of entry 1 is no regular expression"),
    ([{"match": 1, "value": 1}], "the match of entry 1 must be a part of a question's message"),
    ([{"method": "confrm", "value": 1}], "the method of entry 1 must be one of elicitation/input"),
    ([{"delay": -1, "value": 1}], "the delay of entry 1 must be a number of milliseconds"),
    (
        [{"times": "often", "value": 1}],
        "the times of entry 1 must be a whole number from 1 on, or 'always'",
    ),
    ([{"action": "accept"}], "the action of entry 1 must be 'decline', 'cancel' or 'silence'"),
    ([{"content": []}], "the content of entry 1 must be an object"),
    ([{"file": "none.png"}], "the file of entry 1 names"),
]


@pytest.mark.parametrize(("content", "words"), BAD, ids=[row[1][:40] for row in BAD])
def test_a_file_that_cannot_be_used_says_what_is_wrong_and_where(
    tmp_path: Path, content: Json, words: str
) -> None:
    (tmp_path / "answers.json").write_text(json.dumps(content))
    code, said = start("serve", "--answers", str(tmp_path / "answers.json"))
    assert (code, said.count("\n")) == (2, 1)
    assert words in said
    assert str(tmp_path) in said


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    code, said = start("serve", "--answers", "/dev/zero")
    assert (code, said.count("\n")) == (2, 1)
    assert "/dev/zero is larger than 1000000 bytes." in said


@pytest.mark.parametrize("command", [["serve"], ["acp"], ["ask", "confirm"]])
def test_a_file_that_is_not_there_ends_every_command_at_the_start(
    tmp_path: Path, command: list[str]
) -> None:
    agent = ["--", "true"] if command == ["acp"] else []
    code, said = start(*command, "--answers", str(tmp_path / "none.json"), *agent)
    assert (code, said.count("\n")) == (2, 1)
    assert "none.json cannot be read: No such file or directory. It must be a JSON list" in said


def start(*arguments: str) -> tuple[int, str]:
    """Exit code and stderr of a command that must end by itself, with nothing on stdout."""
    ended = run(*arguments)
    assert ended.stdout == ""
    return ended.returncode, ended.stderr
