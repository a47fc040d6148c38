"""The redactor hides a secret however it is spelled, whatever answers it, under any name."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.traces import written

from abp_bridge import abp, acp, mcp
from abp_bridge.conformance.format import Entry
from abp_bridge.conformance.recorder import Recorder
from abp_bridge.conformance.redactor import Redactor, RedactorFullError, SecretAnswers
from abp_bridge.core.json_value import as_object
from abp_bridge.settings import Settings

Json = Any
Spell = Callable[[str], str]


def redactor(**env: str) -> Redactor:
    return Redactor(env=env, places={})


# number, what may be written of it elsewhere
NUMBERS: dict[str, tuple[Json, Json]] = {
    "as a number": (271828, 271828),
    "as text": (271828, "PIN 271828 taken"),
    "typed, and told as a number": ("271828", 271828),
    "typed with noughts before": ("0042", 42),
    "a fraction in text": (271828.5, "it was 271828.5"),
    "in an order": (1234, [1, 1234]),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_a_number_is_a_secret_too(case: str) -> None:
    secret, said = NUMBERS[case]
    words = redactor()
    words.learn(secret)
    found = json.dumps(words.clean({"said": said}))
    assert str(secret).lstrip("0") not in found
    assert "[secret]" in found


def test_short_secret_is_hidden_if_it_is_a_whole_word() -> None:
    words = redactor()
    words.learn(42)
    assert words.clean(
        {"text": "it is 42, not 1421", "lines": '{"x": "PIN\\n42"}', "id": "abp-142", "seats": 42}
    ) == {
        "text": "it is [secret], not 1421",
        "lines": '{"x": "PIN\\n[secret]"}',
        "id": "abp-142",
        "seats": 42,
    }


def test_members_that_json_rpc_needs_are_not_hidden() -> None:
    words = redactor()
    for secret in ("json", "method", "result", "tools", "capabilities"):
        words.learn(secret)
    message: Json = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/list",
        "params": {"words": "the json method"},
    }
    assert words.clean_message(message) == message | {"params": {"words": "the [secret] [secret]"}}
    assert words.clean_message({"jsonrpc": "2.0", "method": "notifications/json?"}) == {
        "jsonrpc": "2.0",
        "method": "notifications/[secret]?",
    }
    assert words.clean_message([{"jsonrpc": "2.0", "id": 7, "result": {"x": "json"}}]) == [
        {"jsonrpc": "2.0", "id": 7, "result": {"x": "[secret]"}}
    ]


def dispatched() -> set[str]:
    """Return the methods that hosts and proxies dispatch."""
    found: set[str] = set()
    for room in (abp, acp, mcp):
        for each in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            for table in vars(importlib.import_module(each.name)).values():
                if isinstance(table, dict) and table and all(map(callable, table.values())):
                    found |= {name for name in table if isinstance(name, str) and "/" in name}
    return found


def test_every_method_that_is_dispatched_stays() -> None:
    assert {"session/fork", "session/prompt", "tools/list", "$/cancel_request"} <= dispatched()
    for method in sorted(dispatched()):
        words = redactor()
        for part in method.split("/"):
            words.learn(part)
        assert words.clean_message({"method": method}) == {"method": method}


MARKED = re.compile("«([^»]*)»")


# what is said in text, with « » around what is hidden of it
HIDDEN = (
    'POST {"password": "«hunter2»", "na',
    '"pin": «4711»',
    "{'password': '«hunter2»'}",
    "'pins': «['4711']}»",
    r'"{\"password\": \"«hunter2»\"}"',
    "run --password «hunter2» --verbose",
    "run --client-secret='«hunter two»'",
    'Authorization: «Digest ann, response="hunter2"»\nAccept: all',
    "Set-Cookie: «sid=abc; csrf=hunter2»",
    "?password=«hunter2»&x=1",
    "user: ann\npassword: «correct horse»\n",
    "export DB_PASSWORD='«hunter two»'",
    "password: «|\n  hunter2»",
    "it ran with PASSWORD=«hunter2» then",
    "and with an api key = '«hunter two»' now",
    "usuario: ana\ncontraseña: «hunter2»",
    "<user>ann</user><password>«hunter2»</password>",
    "/login?user=ann&api%5Fkey=«hunter2»#top",
    "https://b.example/f?X-Amz-Signature=«Zq7hunterX9»&x=1",
    "https://«ann:hunter2»@example.com/",
    "with Bearer «abc.def.ghi»",
    "with basic «YW5uOmh1bnRlcjI=»",
    "it is «eyJhbGciOiJub25l.eyJzdWIiOiJhbm4i.c2lnbmVk»!",
    "key: «-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----».",
    "cut «-----BEGIN PRIVATE KEY-----\nabc»",
    *(
        f"with «{start}{'a1B2' * 9}»,"
        for start in ("sk-", "ghp_", "github_pat_", "glpat-", "xoxb-", "AIza", "hf_", "npm_")
    ),
    "with «AKIAABCDEFGHIJKLMNOP»,",
)


@pytest.mark.parametrize("example", HIDDEN)
def test_only_the_secret_of_a_text_is_hidden(example: str) -> None:
    said, hidden = MARKED.sub(r"\1", example), MARKED.sub("[secret]", example)
    assert said != hidden
    assert redactor().clean_text(said) == hidden


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many secrets a redactor remembers: few."""
    monkeypatch.setattr("abp_bridge.conformance.redactor.MAX_KNOWN", 100)
    return 100


def test_more_secrets_than_can_be_kept_end_a_recording(most: int) -> None:
    words = redactor()
    for number in range(most):
        words.learn(f"secret {number:05}")
    assert words.clean({"password": "hunter"}) == {"password": "[secret]"}, (
        "what is anybody's word is only blanked where it stands"
    )
    with pytest.raises(RedactorFullError):
        words.learn("one more")


def test_no_member_vanishes_though_its_name_is_a_secret() -> None:
    words = redactor()
    words.learn(["hunter2hunter2", "correct horse 7"])
    said = {"hunter2hunter2": 1, "correct horse 7": 2, "[secret] 2": 3, "plain": 4}
    assert [*as_object(words.clean(said))] == ["[secret]", "[secret] 2", "[secret] 2 2", "plain"]


def test_an_id_stays_if_it_is_a_number() -> None:
    words = redactor()
    words.learn([271828, "hunter2hunter2"])
    assert words.clean_message({"id": 271828, "result": 271828}) == {
        "id": 271828,
        "result": "[secret]",
    }
    assert words.clean_message({"id": "call hunter2hunter2"}) == {"id": "call [secret]"}


# --- what says of itself that it is one -----------------------------------------------------------

# What is said, and what must not be left of it.
TOLD: dict[str, tuple[Json, str]] = {
    "a short text": ({"password": "abc"}, "abc"),
    "a number": ({"pin": 4711, "passcode": 123456.5}, "4711 123456"),
    "a list": ({"api_keys": ["first-key-1", 2222]}, "first 2222"),
    "an object": (
        {"credentials": {"type": "basic", "user": "annabel", "value": "hunter2"}},
        "annabel hunter2",
    ),
    "an object that looks like a field": (
        {"password": {"type": "string", "value": "hunter2"}},
        "hunter2",
    ),
    "a field's default": ({"password": {"type": "string", "default": "hunter2hunter2"}}, "hunter2"),
    "other spellings of names": (
        {"userPassword": "aaa111", "DB_PASSWORD": "bbb222", "X-Api-Key": "ccc333"},
        "aaa111 bbb222 ccc333",
    ),
    "variables of a program": (
        {"env": [{"name": "GITHUB_TOKEN", "value": "aaa111"}, {"name": "LANG", "value": "C"}]},
        "aaa111",
    ),
    "headers": (
        {
            "headers": [
                {"name": "Authorization", "value": "Basic aaa111"},
                {"key": "X-Api-Key", "value": 4711},
            ]
        },
        "aaa111 4711",
    ),
    "an echo": ([{"password": "hunter2hunter2"}, "it was hunter2hunter2!"], "hunter2"),
    "JSON in text": (
        {"text": '{"user": "ann", "password":"hunter2hunter2"}', "again": "hunter2hunter2"},
        "hunter2",
    ),
    "JSON in JSON in text": (
        {"text": json.dumps({"body": json.dumps({"password": 'hun"ter2'})})},
        "hun ter2",
    ),
    "JSON in a secret, and its echo": (
        {"api_key": json.dumps({"token": "Zq7hunterX9"}), "echo": "it is Zq7hunterX9"},
        "Zq7",
    ),
    "JSON in text, short": ({"text": '{"password":"abc","n":1}'}, "abc"),
    "a number in JSON in text": ({"text": '{"passcode": 4711}'}, "4711"),
    "JSON that is cut off": ('{"password": "hunt', "hunt"),
    "an address": ("https://ann:hunter2@example.com/?token=abcdef", "hunter2 abcdef"),
}


@pytest.mark.parametrize("case", TOLD)
def test_value_under_a_telling_name_is_hidden(case: str) -> None:
    said, planted = TOLD[case]
    found = json.dumps(redactor().clean(said))
    assert "[secret]" in found
    assert [each for each in planted.split() if each in found] == []


@pytest.mark.parametrize(
    "said",
    [
        {"password": {"type": "string", "minLength": 8, "title": "Your password"}},
        {"properties": {"password": {"title": "Password"}}, "required": ["password"]},
        {"secret": True, "password": None, "token": ""},
        {"progressToken": "p1", "nextCursor": "abc", "tokens": 812, "stopReason": "max_tokens"},
        {"name": "KEY", "value": "C major"},
        {"keys": ["a"], "keyboard": "qwerty", "name": "Ann", "value": "x"},
        "secrets never pass through the host: a form does",
        "The password of your account?",
        "Press any key, then a token of thanks",
        "std::secret::new()",
        '{"password": null, "secret": false}',
    ],
    ids=str,
)
def test_text_about_secrets_is_unchanged(said: Json) -> None:
    assert redactor().clean(said) == said


ORDINARY: dict[str, tuple[Json, dict[str, str]]] = {
    "a number under a telling name": ({"token": 812}, {}),
    "an object under a telling name": ({"credentials": {"user": "ann", "kind": "basic"}}, {}),
    "a word of the protocol under a telling name": ({"password": "boolean"}, {}),
    "TOKENIZERS_PARALLELISM=false": ({"ok": False}, {"TOKENIZERS_PARALLELISM": "false"}),
    "SSL_MODE=required": (None, {"SSL_MODE": "required"}),
    "MCP_PROTOCOL_VERSION=2025-11-25": (None, {"MCP_PROTOCOL_VERSION": "2025-11-25"}),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_value_that_only_looks_like_a_secret_changes_no_message(case: str) -> None:
    told, env = ORDINARY[case]
    words = redactor(**env)
    words.clean_message({"jsonrpc": "2.0", "method": "x", "params": {"newValue": told}})
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    params = {"message": "Book it for ann?", "requestedSchema": schema, "seats": 812}
    messages: tuple[Json, ...] = (
        {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params},
        {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {"ok": False}}},
        {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25"}},
    )
    for message in messages:
        assert words.clean_message(message) == message


def test_the_environment_is_found_in_other_words_too() -> None:
    key = 'key "0815"/x'
    words = redactor(
        SOME_API_KEY=key,
        PLACE_OF_WORK="Atlantis Lab",
        GITHUB_TOKEN="ab4d",
        EDITOR_PATH="/usr/bin/vi",
    )
    assert words.clean_text(f"x{json.dumps(key)[1:-1]}y") == "x[env SOME_API_KEY]y"
    assert (
        words.clean_text("at=Atlantis%20Lab&t=ab4d, ab4de, /usr/bin/vi")
        == "at=[env PLACE_OF_WORK]&t=[env GITHUB_TOKEN], ab4de, /usr/bin/vi"
    )


def test_paths_of_this_machine_are_whole_names() -> None:
    words = Redactor(env={}, places={"/home/ann": "~", "/home/ann/project": "[cwd]"})
    assert (
        words.clean_text("/home/ann/project/x, /home/ann, /home/anna") == "[cwd]/x, ~, /home/anna"
    )


# --- which answers are secrets --------------------------------------------------------------------

PASSWORD: Json = {
    "method": "elicitation/input",
    "params": {"prompt": "Your password?", "schema": {"type": "string"}},
}
NAME: Json = {
    "method": "elicitation/input",
    "params": {"prompt": "Your name?", "schema": {"type": "string"}},
}


FORM: Json = {
    "method": "elicitation/create",
    "params": {
        "message": "Log in",
        "requestedSchema": {"type": "object", "properties": {"password": {"type": "string"}}},
    },
}


def call(method: str, **params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(id: Json, value: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def accepted(**content: Json) -> Json:
    return {"action": "accept", "content": content}


class Heard:
    """A recorder that returns what it would write of a message."""

    def __init__(self) -> None:
        self._redactor = redactor()
        self._answers = SecretAnswers(self._redactor.learn)

    def hear(self, way: str, message: Json) -> str:
        sender, _, to = way.partition("->")
        entry = Entry("message", message, sender, to)
        return json.dumps(self._redactor.clean_message(self._answers.without_secrets(entry)))

    def asked(self, id: Json, question: Json) -> None:
        self.hear("app->bridge", {"jsonrpc": "2.0", "id": id, **question})

    def answered(self, id: Json, value: Json) -> str:
        return self.hear("bridge->app", result(id, {"success": True, "data": {"value": value}}))


def test_two_questions_with_one_id_are_both_kept_back() -> None:
    for first, second in ((PASSWORD, NAME), (NAME, PASSWORD), (PASSWORD, PASSWORD)):
        heard = Heard()
        heard.asked("q1", first)
        heard.asked("q1", second)
        assert "hunter2" not in heard.answered("q1", "hunter2") + heard.answered(
            "q1", "hunter2 again"
        )


def test_answer_to_a_question_too_old_to_remember_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("abp_bridge.conformance.redactor.MAX_OPEN", 50)
    heard = Heard()
    heard.asked("old", NAME)
    heard.asked("secret", PASSWORD)
    for number in range(50):
        heard.asked(number, NAME)
    assert "annabel" not in heard.answered("old", "annabel")
    assert "hunter2" not in heard.answered("secret", "hunter2")
    assert "bertram" in heard.answered(49, "bertram")


def test_an_id_that_is_used_again_is_no_secret_for_that() -> None:
    heard = Heard()
    heard.asked("q1", PASSWORD)
    assert "hunter2" not in heard.answered("q1", "hunter2")
    heard.asked("q1", NAME)
    assert "annabel" in heard.answered("q1", "annabel")


def test_one_party_is_not_taken_for_another() -> None:
    heard = Heard()
    heard.asked(1, PASSWORD)
    assert "annabel" in heard.hear("host->bridge", result(1, accepted(value="annabel")))
    assert "hunter2" not in heard.answered(1, "hunter2")


DATA: Json = {"success": True, "data": {"value": "hunter2"}}
STRAY = {
    "an id of another type": result("1", DATA),
    "an unknown id": result(99, DATA),
    "no id": {"type": "elicitation/response", "payload": DATA},
    "no request": call("notifications/x", inputResponses={"q9": accepted(x="hunter2")}),
}


@pytest.mark.parametrize("answer", STRAY.values(), ids=STRAY)
def test_stray_answer_may_be_one_to_a_question_for_a_secret(answer: Json) -> None:
    heard = Heard()
    heard.asked(1, PASSWORD)
    assert "hunter2" not in heard.hear("bridge->app", answer)
    assert "hunter2" not in heard.hear("bridge->host", call("x", said="hunter2"))


def test_unreadable_line_may_answer_a_question_for_a_secret(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "trace"), Settings(), "serve", environ={})
    recorder.message("bridge", "host", MCP)
    recorder._on_line(
        "host",
        "bridge",
        b'{"jsonrpc": "2.0", "id": 1, "result": {"content": {"value": "hunter2"}}, "at": NaN}',
        88,
    )
    text = (tmp_path / "trace").read_text()
    assert "hunter2" not in text
    assert "[cut 88 characters]" in text


def test_of_the_bridges_own_variables_those_that_hold_a_key_are_hidden(tmp_path: Path) -> None:
    environ = {"ABP_MODEL_KEY": "correct horse battery", "ABP_PAGE": "link to it"}
    recorder = Recorder(str(tmp_path / "trace"), Settings(), "serve", environ=environ)
    said = " and ".join(environ.values())
    recorder.message("app", "bridge", {"jsonrpc": "2.0", "method": "x", "params": {"said": said}})
    text = (tmp_path / "trace").read_text()
    assert environ["ABP_PAGE"] in text
    assert environ["ABP_MODEL_KEY"] not in text


def test_a_file_that_an_app_calls_sensitive_is_not_written_down() -> None:
    heard = Heard()
    heard.asked(1, call("elicitation/resource", prompt="Your policy", sensitive=True))
    file = {"success": True, "data": {"content": "hunter2", "mimeType": "text/plain"}}
    assert "hunter2" not in heard.hear("bridge->app", result(1, file))


def test_messages_in_a_batch_are_messages() -> None:
    heard = Heard()
    asked = [{"jsonrpc": "2.0", "id": 1, **PASSWORD}, {"jsonrpc": "2.0", "id": 2, **NAME}]
    heard.hear("app->bridge", asked)
    values = ((1, "hunter2"), (2, "annabel"))
    said = heard.hear("bridge->app", [result(id, {"data": {"value": each}}) for id, each in values])
    assert "hunter2" not in said
    assert "annabel" in said


def test_error_of_the_host_about_a_secret_is_hidden() -> None:
    heard = Heard()
    heard.hear("bridge->host", {"jsonrpc": "2.0", "id": 1, **FORM})
    error = {"error": {"code": "X", "message": "hunter2 is short"}}
    assert "hunter2" not in heard.hear("host->bridge", result(1, error))


def test_reason_why_the_bridge_refuses_a_question_for_a_secret_is_kept() -> None:
    heard = Heard()
    heard.asked("q1", PASSWORD)
    details = {"reason": "secrets never do"}
    refusal = {"code": "NOT_SUPPORTED", "message": "Nobody could be asked", "details": details}
    said = heard.hear("bridge->app", result("q1", {"success": False, "error": refusal}))
    assert "Nobody could be asked" in said
    assert "secrets never do" in said


def test_each_member_of_an_answer_leaves_a_mark() -> None:
    heard = Heard()
    heard.asked("q1", PASSWORD)
    data = {"hunter2 one": "x", "hunter2 two": "y"}
    said = json.loads(heard.hear("bridge->app", result("q1", {"success": True, "data": data})))
    assert said["result"]["data"] == {"[secret]": "[secret]", "[secret] 2": "[secret]"}


# what answers a question for a password
ANSWERS: dict[str, Json] = {
    "a text": {"result": "hunter2"},
    "a list": {"result": ["hunter2"]},
    "data": {"result": {"success": True, "data": {"value": "hunter2"}}},
    "content": {"result": {"action": "accept", "content": {"value": "hunter2"}}},
    "a member of its own": {"result": {"success": True, "value": "hunter2"}},
    "an error": {
        "error": {"code": -32602, "message": "hunter2 is too short", "data": {"value": "hunter2"}}
    },
    "an error of its own": {"error": "hunter2"},
    "an error's code": {"error": {"code": "hunter2", "message": "no"}},
    "an action of its own": {"result": {"action": "hunter2"}},
}


@pytest.mark.parametrize("case", ANSWERS)
def test_any_answer_to_a_question_for_a_secret_is_hidden(case: str) -> None:
    heard = Heard()
    heard.asked("q1", PASSWORD)
    assert "hunter2" not in heard.hear(
        "bridge->app", {"jsonrpc": "2.0", "id": "q1", **ANSWERS[case]}
    )


PLAIN: Json = {
    "method": "elicitation/create",
    "params": {
        "message": "Your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}


def test_answers_in_the_next_request_are_answers() -> None:
    heard = Heard()
    asks = {"resultType": "input_required", "inputRequests": {"q1": FORM, "q2": PLAIN}}
    heard.hear("bridge->host", result(1, {**asks, "requestState": "sealed"}))
    answers = {"q1": accepted(password="hunter2hunter2"), "q2": accepted(name="annabel")}
    back = call("tools/call", name="x", requestState="sealed", inputResponses=answers)
    said = heard.hear("host->bridge", {**back, "id": 2})
    assert "hunter2" not in said
    assert "annabel" in said
    again = result(2, {"content": "they said hunter2hunter2"})
    assert "hunter2" not in heard.hear("bridge->host", again)


# --- what an adversary would try ------------------------------------------------------------------

S = "Zq7hunterX9"
ASK: dict[str, Json] = {"jsonrpc": "2.0", "id": 1, **PASSWORD}
PASSWORD_FORM: dict[str, Json] = {
    "message": "Password?",
    "requestedSchema": {"type": "object", "properties": {"value": {"type": "string"}}},
}
MCP: Json = {**call("elicitation/create", **PASSWORD_FORM), "id": 1}


Passed = tuple[str, str, Json]


def said(value: Json) -> tuple[Passed, ...]:
    return (("app", "bridge", call("notifications/x", x=value)),)


def suggesting(**more: Json) -> tuple[Passed, ...]:
    schema = {"type": "string", **more}
    return (("app", "bridge", {**ASK, "params": {**ASK["params"], "schema": schema}}),)


PLANTS: dict[str, tuple[Passed, ...]] = {
    "null error beside the result": (
        ("bridge", "host", MCP),
        ("host", "bridge", {**result(1, accepted(value=S)), "error": None}),
    ),
    "the question's own default": suggesting(default=S),
    "the question's own examples": suggesting(examples=[S]),
    "a member's name in the answer": (
        ("app", "bridge", ASK),
        ("bridge", "app", result(1, {"data": {"value": {S: 1}}})),
    ),
    "a field that was not asked": (
        ("bridge", "host", MCP),
        ("host", "bridge", result(1, accepted(value="x", password=S))),
        *said(S),
    ),
    "a member beside the result": (
        ("app", "bridge", ASK),
        ("bridge", "app", {**result(1, {}), "extra": S}),
    ),
    "an environment of an MCP server by its name": said(
        {"mcpServers": {"files": {"env": {"LEVEL": S}}}}
    ),
    "a header of an MCP server by its name": said(
        {"mcpServers": {"files": {"headers": {"X-Level": S}}}}
    ),
    "an argument after its option": said({"args": ["--api-key", S]}),
    "a value that looks like a schema": said({"credentials": {"type": "object", "user": S}}),
    "an object in JSON in text": said(f'log: {{"credentials": {{"user": "{S}"}}}}'),
    "a list in text": said(f'["x", {{"api_keys": ["{S}"]}}, '),
    "a setting with a comma": said(f"DB_PASSWORD=ab,{S}"),
    "a setting that begins with <": said(f"DB_PASSWORD=<{S}"),
    "HTML": said(f'<input type="password" value="{S}">'),
    "an escaped link": said(f"?to=http%3A%2F%2F127.0.0.1%3A1%2Fopen%2F{S}{S}"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_secret_is_not_written_down(name: str, tmp_path: Path) -> None:
    assert S not in written(tmp_path, *PLANTS[name])


CODES = "Recovery codes:\n" + "\n".join(f"a{n:02}c{n:02}" for n in range(45))
ECHOES: dict[str, tuple[Json, Json, str]] = {
    "short lines of a long secret": (CODES, CODES, "a07c07"),
    "trimmed": ("hunter2 ", "it was hunter2", "hunter2"),
    "trimmed, long": ("  hunter2hunter2", "it was hunter2hunter2", "hunter2"),
    "a number beyond 2**53": ("6212345678901234567", {"card": 6212345678901234567}, "6212345"),
    "overlapping": (["abcdefgh", "efghijkl"], "abcdefghijkl", "ijkl"),
    "longer than is looked for": ("x" * 9000, "x" * 9000, "xxxx"),
    "JSON in the middle of it": ("pa[12]{}x", "it was pa[12]{}x.", "pa["),
    "JSON ends in it": ('x"]y!z', '["it was x"]y!z', "y!z"),
    "another normal form": ("p\u00e4sswort", "pa\u0308sswort", "sswort"),
}


@pytest.mark.parametrize("name", ECHOES)
def test_echo_of_a_secret_is_hidden(name: str) -> None:
    secret, said, left = ECHOES[name]
    words = Redactor(env={}, places={})
    words.learn(secret)
    assert left not in json.dumps(words.clean(said))
