"""An address that a server wants its person at first (error -32042): the host shows it where it
says that it can, else the bridge does, and no model reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.apps.exotic_server import URL
from support.era_host import Host
from support.mcp_proxy import MCP, Proxied, proxied
from support.paths import APPS, PYTHON
from support.programs import Desktop

Json = Any

ERAS = ("legacy", "modern")
STUB = (sys.executable, str(APPS / "exotic_server.py"), "legacy")
NAMED = {**URL, "elicitationId": "E1"}
eras = pytest.mark.parametrize("era", ERAS)


@contextmanager
def visiting(
    tmp_path: Path, era: str, capabilities: Json, *arguments: str, **env: str
) -> Iterator[Host]:
    """A host on the proxy, whose log has all that it reads."""
    with Host([*MCP, *arguments, "--", *STUB], env=env, log=tmp_path / "host.log") as host:
        host.era, host.capabilities = era, capabilities
        assert "result" in host.shake_hands()
        yield host


def read_by(host: Host, tmp_path: Path) -> str:
    host.request("vendor/thing")
    return (tmp_path / "host.log").read_text()


@pytest.mark.network
@eras
@pytest.mark.parametrize(
    ("pressed", "said"), [("yes", "they were sent there"), ("decline", "did not go there")]
)
def test_url_error_opens_the_page_for_a_host_without_urls(
    tmp_path: Path, era: str, pressed: str, said: str
) -> None:
    desktop = Desktop(tmp_path)
    with visiting(tmp_path, era, {}, **desktop.env) as host:
        id = host.begin("tools/call", {"name": "visit", "arguments": {}})
        person = desktop.visit()
        assert f'<a href="{URL["url"]}"' in person.page
        assert f"{PYTHON} exotic_server.py legacy</bdi> asks" in person.page
        person.send(action=pressed)
        result = host.response(id)["result"]
        assert result["isError"] is True
        assert said in result["content"][0]["text"]
        assert URL["url"] not in read_by(host, tmp_path)
        again = host.call("visit")["result"]
        assert again["structuredContent"] == {"r": "visited"}


@pytest.mark.network
def test_repeated_url_error_is_shown_once(
    tmp_path: Path,
) -> None:
    desktop = Desktop(tmp_path)
    with visiting(tmp_path, "legacy", {}, **desktop.env) as host:
        id = host.begin("tools/call", {"name": "visit", "arguments": {"times": 2}})
        desktop.visit().send(action="yes")
        assert "they were sent there" in host.response(id)["result"]["content"][0]["text"]
        assert read_by(host, tmp_path).count(f'"id": {id}, "') == 1


@pytest.mark.network
@eras
def test_url_error_of_a_resource_is_reported_as_an_error(tmp_path: Path, era: str) -> None:
    desktop = Desktop(tmp_path)
    with visiting(tmp_path, era, {}, **desktop.env) as host:
        id = host.begin("resources/read", {"uri": "stub://visit"})
        desktop.visit().send(action="yes")
        error = host.response(id)["error"]
        assert (error["code"], "sent there" in error["message"]) == (-32600, True)
        assert URL["url"] not in read_by(host, tmp_path)


@eras
def test_url_error_without_a_user_is_reported_without_the_url(tmp_path: Path, era: str) -> None:
    with visiting(tmp_path, era, {}, "--page", "off", "--without-person") as host:
        result = host.call("visit")["result"]
        assert (result["isError"], "did not go there" in result["content"][0]["text"]) == (
            True,
            True,
        )
        assert URL["url"] not in read_by(host, tmp_path)


def test_url_error_passes_unchanged_to_a_host_with_urls(tmp_path: Path) -> None:
    with visiting(tmp_path, "legacy", {"elicitation": {"url": {}}}, "--page", "off") as host:
        error = host.call("visit")["error"]
        assert error == {
            "code": -32042,
            "message": "visit first",
            "data": {"elicitations": [NAMED]},
        }
        sent = {"jsonrpc": "2.0", "id": 0, "error": error}
        assert json.dumps(sent["error"]) in read_by(host, tmp_path)


@pytest.mark.slow
def test_url_error_becomes_a_question_for_a_stateless_host(tmp_path: Path) -> None:
    with visiting(tmp_path, "modern", {"elicitation": {"url": {}}}, "--page", "off") as host:
        asked: list[Json] = []
        assert host.call("visit", asked)["result"]["structuredContent"] == {"r": "visited"}
        assert [each["params"]["url"] for each in asked] == [URL["url"]]


@pytest.mark.network
def test_cancelled_call_withdraws_its_address(tmp_path: Path) -> None:
    desktop = Desktop(tmp_path)
    with visiting(tmp_path, "legacy", {}, **desktop.env) as host:
        id = host.begin("tools/call", {"name": "visit"})
        person = desktop.visit()
        host.send("notifications/cancelled", {"requestId": id})
        assert host.call("visit")["result"]["structuredContent"] == {"r": "visited"}
        person.open(person.url)
        assert URL["url"] not in person.page
        assert f'"id": {id}, "result"' not in read_by(host, tmp_path)


ERROR = '"error":{"code":%s,"message":"m","data":{"%s":[{"mode":"url","url":"%s"}]}}'
LINES = ['{"jsonrpc":"2.0","id":%s,%s}', '[{"jsonrpc":"2.0","id":%s,%s}]']


def begin_open_call(host: Proxied) -> int:
    """A call that stays open, while the server takes others."""
    call = host.begin_call("ask", method="roots/list", params={})
    host.until(lambda message: message.get("method") == "roots/list")
    return call


def said_to(host: Proxied) -> str:
    read = host.log_file.read_text().splitlines()
    return "\n".join(each for each in read if not each.startswith("> "))


@pytest.mark.parametrize("name", ["elicitations", "\\u0065licitations"])
@pytest.mark.parametrize("code", ["-32042", "-3.2042e4"])
@pytest.mark.parametrize("line", LINES)
def test_disguised_url_error_never_reaches_the_host(
    tmp_path: Path, line: str, code: str, name: str
) -> None:
    with proxied(tmp_path, "--page", "off", "--without-person") as host:
        visiting = begin_open_call(host)
        line = line % (visiting, ERROR % (code, name, URL["url"])) + "\n"
        call = host.begin_call("say", lines=[line])
        assert "did not go there" in host.text(visiting)
        assert host.text(call) == "said"
        assert URL["url"] not in said_to(host)


@pytest.mark.network
@pytest.mark.parametrize("line", LINES)
def test_url_error_for_an_unknown_request_is_dropped(
    tmp_path: Path, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    desktop = Desktop(tmp_path)
    line = line % (900, ERROR % (-32042, "elicitations", URL["url"])) + "\n"
    with proxied(tmp_path, env=desktop.env) as host:
        assert host.text(host.begin_call("say", lines=[line])) == "said"
        host.request("tools/list")
        assert URL["url"] not in said_to(host)
        logged = capfd.readouterr().err
        assert "an error with addresses is dropped: none is open for 900" in logged


DONE = '{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{%s}}\n'
WANTED = {"code": -32042, "message": "m", "data": {"elicitations": [{**NAMED, "mode": "url"}]}}
AT = f'"error":{json.dumps(WANTED)}'


@pytest.mark.network
def test_answer_of_the_server_ends_its_visit(tmp_path: Path) -> None:
    desktop = Desktop(tmp_path)
    with proxied(tmp_path, env=desktop.env) as host:
        early, late = begin_open_call(host), begin_open_call(host)
        host.begin_call("say", lines=[LINES[0] % (early, AT) + "\n"])
        person = desktop.visit()
        result = LINES[0] % (early, '"result":{"content":[{"type":"text","text":"early"}]}')
        host.begin_call("say", lines=[f"{result}\n"])
        assert host.text(early) == "early"
        person.send(action="yes")
        assert "Thank you" not in person.page, "it was taken down"
        said = host.begin_call("say", lines=[LINES[0] % (late, AT) + "\n"])
        assert host.text(said) == "said"
        host.begin_call("say", lines=[DONE % '"elicitationId":"E1"'])
        assert "were sent there" in host.text(late)
        assert said_to(host).count("were sent there") == 1
