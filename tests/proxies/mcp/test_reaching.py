"""Who is asked behind the proxy: the host if it shows questions, else a surface that the user set
up. If there is none, the server gets `cancel`.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from support.harness import run
from support.mcp_proxy import FORM, Proxied, proxied
from support.paths import PYTHON
from support.programs import Desktop

Json = Any


@pytest.mark.network
def test_page_opens_for_a_host_that_cannot_ask(tmp_path: Path) -> None:
    desktop = Desktop(tmp_path)
    with proxied(tmp_path, env=desktop.env) as host:
        call = host.begin_call("okta")
        person = desktop.visit()
        assert f"{PYTHON} mcp_server.py read deeds</bdi> asks" in person.page
        person.send(action="yes")
        assert host.text(call).startswith("done")
        assert len(host.deeds) == 1


@pytest.mark.network
@pytest.mark.parametrize("pressed", ["decline", "cancel"])
def test_decline_on_the_page_leaves_the_deed_undone(pressed: str, tmp_path: Path) -> None:
    desktop = Desktop(tmp_path)
    with proxied(tmp_path, env=desktop.env) as host:
        call = host.begin_call("okta")
        person = desktop.visit()
        assert "the app" not in person.page.lower(), "it is a server"
        person.send(action=pressed)
        assert "Whoever asked has been told" in person.page
        host.response(call)
        assert not host.deeds
        assert [given(host)["action"]] == [pressed]


def given(host: Proxied) -> Json:
    """The only answer that the server got."""
    (answer,) = [each["result"] for each in host.to_server() if "action" in each.get("result", {})]
    return answer


@pytest.mark.parametrize("server", ["mongodb", "okta", "azure", "fastmcp", "supabase"])
def test_question_without_a_user_is_cancelled_and_reported(
    server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with proxied(tmp_path, "--without-person", "--page", "off") as host:
        result = host.response(host.begin_call(server))["result"]
        assert not host.deeds
        assert given(host) == {"action": "cancel", "_meta": {"abp": {"answeredBy": "nobody"}}}
        assert "nobody answered, and it was told 'cancel'" in result["content"][-1]["text"]
        host.end()
    assert "nobody can be asked" in capfd.readouterr().err


def test_unanswered_question_is_reported_where_the_model_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codex: Json = {"name": "codex-mcp-client", "version": "0.169.0"}
    copilot: Json = {"name": "copilot-cli", "version": "1.0.102"}
    for number, client in enumerate((codex, copilot)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Proxied(folder, "--without-person", "--page", "off") as host:
            monkeypatch.setattr(Proxied, "client", client)
            host.initialize()
            result = host.response(host.begin_call("report"))["result"]
            host.check()
        first, *_, said = [each["text"] for each in result["content"]]
        assert "nobody answered" in said
        if client is codex:  # it shows its model nothing of the content beside this
            assert result["structuredContent"].pop("abpBridge")["message"] == said
        else:  # it puts nothing between texts
            assert said.startswith("\n")
        assert (first, result["structuredContent"]) == ("cancel", {"result": "cancel"})


def test_report_in_structured_content_fits_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Proxied, "client", {"name": "claude-code", "version": "2.1"})
    with proxied(tmp_path, "--without-person", "--page", "off") as host:
        (schema,) = [
            each["outputSchema"]
            for each in host.result("tools/list")["tools"]
            if each["name"] == "report"
        ]
        closed = host.response(host.begin_call("report"))["result"]
        assert "nobody answered" in closed["structuredContent"]["abpBridge"]["message"]
        jsonschema.validate(closed["structuredContent"], schema)
        listed = host.response(host.begin_call("names"))["result"]
        assert "structuredContent" not in listed
        _, said, note = (each["text"] for each in listed["content"])
        assert json.loads(said) == ["cancel"]
        assert "nobody answered" in note


def test_instant_yes_of_a_policy_does_nothing(tmp_path: Path) -> None:
    floor = {"ABP_PERSON_FLOOR": "1h"}
    with proxied(tmp_path, "--page", "off", env=floor, capabilities={"elicitation": FORM}) as host:
        call = host.begin_call("okta")
        host.reply(host.asked()["id"], {"action": "accept", "content": {"confirm": "Deactivate"}})
        said = host.response(call)["result"]["content"][-1]["text"]
        assert not host.deeds
        assert given(host)["action"] == "cancel"
        assert "The host answered by itself" in said


@pytest.mark.network
def test_instant_yes_of_a_policy_opens_the_page(tmp_path: Path) -> None:
    desktop, options = Desktop(tmp_path), ("--person-floor", "1h")
    with proxied(tmp_path, *options, env=desktop.env, capabilities={"elicitation": FORM}) as host:
        call = host.begin_call("okta")
        host.reply(host.asked()["id"], {"action": "accept", "content": {"confirm": "Deactivate"}})
        person = desktop.visit()
        assert "what was answered elsewhere does not count as a person's" in person.page
        assert "The host answered by itself" in person.page
        person.send(action="no")
        assert host.text(call) == "cancelled"
        assert given(host)["_meta"]["abp"]["answeredBy"] == "person"


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"action": "accept", "content": {}}},
        {"result": {"action": "perhaps"}},
        {"error": {"code": -32601, "message": "Method not found"}},
        {},
    ],
)
def test_invalid_answer_never_reaches_the_server(answer: Json, tmp_path: Path) -> None:
    with Proxied(tmp_path, "--page", "off") as host:
        host.initialize(elicitation=FORM)
        call = host.begin_call("okta")
        while (message := host.read()).get("id") != call:
            host.write(
                json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode() + b"\n"
            )
        assert not host.deeds
        assert given(host)["action"] == "cancel"


@pytest.mark.parametrize("words", [["npx", "-y", "thing"], ["--port", "3", "uvx"]])
def test_server_options_need_two_dashes(words: list[str]) -> None:
    ended = run("mcp", *words)
    assert ended.returncode == 2
    assert "put -- before that command: abp-bridge mcp [OPTION]... -- SERVER" in ended.stderr


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        ("--page off", "--page off opens no browser for our own page (--page open does)"),
        ("--page open", "neither DISPLAY nor WAYLAND_DISPLAY, and $BROWSER"),
        ("--ask-on host", "--ask-on host leaves out every other way"),
    ],
)
def test_initialize_without_a_surface_gives_a_setup_hint(
    options: str, cure: str, tmp_path: Path
) -> None:
    with Proxied(tmp_path, *options.split()) as host:
        error = host.initialize()["error"]
        for word in (cure, "--tty", "--questions-api", "--without-person"):
            assert word in error["message"]
        host.end()
        assert host.lines_to_server() == [], "the server heard nothing of this host"


# --- what a question may do ---


FREE: Json = {
    "message": "Which?",
    "requestedSchema": {
        "type": "object",
        "properties": {"a": {"type": "string", "title": "A"}, "b": {"type": "number"}},
        "required": ["a"],
    },
}


@pytest.mark.network
def test_recording_has_both_sides_and_no_secret(tmp_path: Path) -> None:
    desktop, file = Desktop(tmp_path), tmp_path / "trace.jsonl"
    fields: Json = {"apiToken": {"type": "string"}}
    asked: Json = {
        "message": "Your token",
        "requestedSchema": {"type": "object", "properties": fields, "required": ["apiToken"]},
    }
    options, forms = ("--record", str(file)), {"elicitation": FORM}
    with proxied(tmp_path, *options, env=desktop.env, capabilities=forms) as host:
        call = host.begin_call("ask", method="elicitation/create", params=asked)
        desktop.visit().send(**{"field-0": "planted-7f3a"})
        assert "planted-7f3a" in host.text(call)
        host.end()
    assert "planted-7f3a" not in file.read_text()
    said = host.log_file.read_text().rpartition("\n< ")[0]
    assert "planted-7f3a" not in said, "only the server's own result has it"
    drawn = run("trace", str(file)).stdout
    for words in ("server", "elicitation/create", "tools/call", "page"):
        assert words in drawn
    replayed = run("replay", str(file))
    assert replayed.returncode == 0, replayed.stdout


LINK: Json = {
    "mode": "url",
    "message": "Sign in",
    "url": "https://e.example/x?s=1",
    "elicitationId": "E1",
}


@pytest.mark.network
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://0x7f.1/x", "This address leads to 127.0.0.1, which it spells as '0x7f.1'."),
        ("https://xn--pple-43d.com/", "xn--pple-43d.com stands for '\u0430pple.com'"),
    ],
)
def test_odd_link_is_shown_with_its_real_target(url: str, said: str, tmp_path: Path) -> None:
    desktop = Desktop(tmp_path)
    hosts: list[Json] = [{"elicitation": {"form": {}, "url": {}}}, {}]
    for capabilities in hosts:
        with proxied(tmp_path, env=desktop.env, capabilities=capabilities) as host:
            host.begin_call("ask", method="elicitation/create", params={**LINK, "url": url})
            shown = host.asked()["params"]["message"] if capabilities else desktop.visit().page
            assert said in shown


@pytest.mark.network
def test_link_is_shown_on_the_page_and_never_opened(tmp_path: Path) -> None:
    desktop = Desktop(tmp_path)
    with proxied(tmp_path, env=desktop.env, capabilities={"elicitation": FORM}) as host:
        call = host.begin_call("ask", method="elicitation/create", params=LINK)
        person = desktop.visit()
        assert (
            f'<a href="{LINK["url"]}" dir="ltr" target="_blank" rel="noopener noreferrer">'
            in person.page
        )
        assert f"{PYTHON} mcp_server.py read deeds</bdi> asks" in person.page
        person.send(action="yes")
        assert json.loads(host.text(call))["result"]["action"] == "accept"


@pytest.mark.parametrize(
    "odd",
    [
        {**LINK, "url": "javascript:alert(1)"},
        {"message": "a list", "requestedSchema": {"type": "array"}},
        None,
    ],
)
def test_invalid_question_is_cancelled(odd: Json, tmp_path: Path) -> None:
    with Proxied(tmp_path, "--page", "off") as host:
        host.initialize(elicitation=FORM)
        result = host.response(host.begin_call("ask", method="elicitation/create", params=odd))[
            "result"
        ]
        assert json.loads(result["content"][0]["text"])["result"] == {"action": "cancel"}
        assert "was told 'cancel'" in result["content"][1]["text"]


UNSEEN = "a\u202eb\u200bc\x1b[2J"
PLANTED: Json = {
    "type": "object",
    "properties": {
        UNSEEN: {"type": "string", "default": UNSEEN},
        "colour": {"oneOf": [{"const": UNSEEN, "title": "Red"}, {"const": "b", "title": "Blue"}]},
    },
}


def test_hidden_characters_never_reach_the_host_raw(tmp_path: Path) -> None:
    """And the server gets its own names and values back."""
    with proxied(tmp_path, "--page", "off", capabilities={"elicitation": FORM}) as host:
        asked: Json = {"message": "Which?", "requestedSchema": PLANTED}
        call = host.begin_call("look", method="elicitation/create", params=asked)
        question = host.asked()
        drawn = json.dumps(question, ensure_ascii=False)
        assert not {each for each in drawn if not each.isprintable()}
        name, colour = question["params"]["requestedSchema"]["properties"]
        options = question["params"]["requestedSchema"]["properties"][colour]["oneOf"]
        content = {name: "x", colour: options[0]["const"]}
        host.reply(question["id"], {"action": "accept", "content": content})
        got = json.loads(host.text(call))["result"]["content"]
        assert got == {UNSEEN: "x", "colour": UNSEEN}


# --- ends ---


def test_question_ends_with_the_only_open_call(tmp_path: Path) -> None:
    with proxied(tmp_path, "--page", "off", capabilities={"elicitation": FORM}) as host:
        asked = {"jsonrpc": "2.0", "id": 99, "method": "elicitation/create", "params": FREE}
        call = host.begin_call("say", lines=[json.dumps(asked) + "\n"])
        question = host.asked()
        host.response(call)
        assert host.notified("notifications/cancelled")["requestId"] == question["id"]
        host.reply(question["id"], {"action": "accept", "content": {"a": "late"}})
        host.wait_read()
        (heard,) = [each for each in host.to_server() if each.get("id") == 99]
        assert heard["result"]["action"] == "cancel"


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.mark.parametrize(
    "end", ["stdin", *(pytest.param(each, marks=pytest.mark.process) for each in SIGNALS)]
)
def test_host_that_disconnects_during_a_question_has_not_answered(
    end: signal.Signals | str, tmp_path: Path
) -> None:
    """A server of Okta's kind treats the end of its input as a yes."""
    with proxied(tmp_path, "--page", "off", capabilities={"elicitation": FORM}) as host:
        host.begin_call("okta")
        host.asked()
        if isinstance(end, signal.Signals):
            host.process.send_signal(end)
            host.process.wait(host.patience)
        else:
            host.end()
        assert given(host) == {"action": "cancel"}
        assert not host.deeds
