"""Servers as they are: the question reaches the user, and the server acts only after a yes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.harness import run
from support.mcp_host import Host
from support.mcp_messages import ANSWERS, ASKABLE
from support.mcp_proxy import DESKTOP, MCP, SERVER
from support.paths import APPS, PYTHON
from support.sign_in_server import sign_in_server
from support.sql_server import BIG, TOKEN, TOOL, SqlServer, sql_server

Json = Any

kinds = pytest.mark.parametrize("stateless", [False, True], ids=["stateful", "stateless"])
DROP = {"name": "execute_sql", "arguments": {"query": "DROP TABLE ü"}}


@contextmanager
def proxied(
    stateless: bool, *arguments: str, capabilities: Json = None, answer: Json = None, **env: str
) -> Iterator[Host]:
    command = [*MCP, *arguments]
    with Host(command, env={**DESKTOP, **env}) as host:
        host.stateless = stateless
        host.capabilities = ASKABLE if capabilities is None else capabilities
        host.answers = {**ANSWERS, "elicitation/create": answer or {"action": "decline"}}
        yield host


def deeds(tmp_path: Path) -> list[str]:
    file = tmp_path / "deeds"
    return file.read_text().splitlines() if file.exists() else []


YES = {"action": "accept", "content": {"confirm": "Deactivate"}}


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.slow
def test_stateful_server_asks_a_stateless_host(tmp_path: Path, yes: bool) -> None:
    files = (str(tmp_path / "read"), str(tmp_path / "deeds"))
    answer = YES if yes else None
    with proxied(True, "--", *SERVER, *files, answer=answer) as host:
        asked: list[Json] = []
        host.shake_hands()
        response = host.call("okta", asked)
        assert f"{PYTHON} mcp_server.py read deeds asks:" in asked[0]["params"]["message"]
        assert response["result"]["resultType"] == "complete"
        assert len(deeds(tmp_path)) == yes


def test_stateless_host_that_cannot_ask_gets_a_setup_hint(tmp_path: Path) -> None:
    files = (str(tmp_path / "read"), str(tmp_path / "deeds"))
    with proxied(True, "--page", "off", "--", *SERVER, *files, capabilities={}) as host:
        assert "--page" in host.shake_hands()["error"]["message"]


def test_era_option_is_used() -> None:
    stub = (sys.executable, str(APPS / "exotic_server.py"), "modern")
    with proxied(False, "--era", "legacy", "--", *stub) as host:
        assert host.shake_hands()["error"]["code"] == -32022


@pytest.mark.process
def test_the_official_sdk_is_loaded_for_an_address_only(tmp_path: Path) -> None:
    stub = (sys.executable, str(APPS / "exotic_server.py"), "legacy")
    timed = (sys.executable, "-X", "importtime", "-m", "abp_bridge", "mcp", "--", *stub)
    with Host(timed, env=DESKTOP, log=tmp_path / "log") as host:
        assert "result" in host.shake_hands()
        host.end()
    lines = (tmp_path / "log.stderr").read_text().splitlines()
    loaded = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert "abp_bridge.mcp.proxy.proxy" in loaded
    assert not loaded & {"mcp", "mcp_types", "httpx2"}


# --- over HTTP ---


@pytest.fixture
def sql() -> Iterator[SqlServer]:
    with sql_server() as server:
        yield server


@contextmanager
def over_http(sql: SqlServer, stateless: bool, *arguments: str, **more: Any) -> Iterator[Host]:
    with proxied(stateless, "--url", sql.url, *arguments, ABP_MCP_TOKEN=TOKEN, **more) as host:
        host.shake_hands()
        yield host


@pytest.mark.network
@kinds
def test_http_server_asks_before_it_drops(sql: SqlServer, stateless: bool) -> None:
    asked: list[Json] = []
    with over_http(sql, stateless) as host:
        assert host.result("tools/list")["tools"] == [TOOL]
        answer = host.call("execute_sql", asked, arguments=DROP["arguments"])
        assert answer["result"]["content"][0]["text"] == "not run"
        assert sql.ran == []
    address = sql.url.split("/")[2]
    assert f"{address} asks: Run DROP TABLE ü?" in asked[0]["params"]["message"]


@pytest.mark.network
@kinds
def test_http_server_acts_after_a_yes(sql: SqlServer, stateless: bool) -> None:
    with over_http(
        sql, stateless, answer={"action": "accept", "content": {"confirmed": "Run"}}
    ) as host:
        result = host.call("execute_sql", arguments=DROP["arguments"])["result"]
        assert result["x"] == BIG
        assert sql.ran == ["DROP TABLE ü"]
        first, again = [message for _, message in sql.heard if message["method"] == "tools/call"]
        assert first["id"] != again["id"]
        assert again["params"].pop("requestState") == sql.sign("DROP TABLE ü")
        assert again["params"].pop("inputResponses")
        assert again["params"] == first["params"]


@pytest.mark.network
def test_token_is_not_recorded(sql: SqlServer, tmp_path: Path) -> None:
    record = tmp_path / "trace"
    with over_http(sql, False, "--record", str(record), "--log-level", "debug") as host:
        host.result("tools/list")
        host.end()
    assert TOKEN not in record.read_text()


@pytest.mark.process
@pytest.mark.network
def test_server_that_needs_a_login_opens_the_browser(tmp_path: Path) -> None:
    visit = tmp_path / "visit.py"
    visit.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n")
    env = {"BROWSER": f"{sys.executable} {visit}", "XDG_DATA_HOME": str(tmp_path)}
    with sign_in_server() as server:
        command = [*MCP, "--url", server.url]
        with Host(command, env=env, log=tmp_path / "log") as host:
            assert "result" in host.shake_hands()
        assert server.granted == ["authorization_code"]
    said = (tmp_path / "log.stderr").read_text()
    assert "the server wants you to sign in" in said
    assert "secret" not in said


@pytest.mark.network
def test_unreachable_http_server_is_an_error_for_the_host() -> None:
    with proxied(False, "--url", "http://127.0.0.1:9/mcp") as host:
        assert "cannot be reached" in host.shake_hands()["error"]["message"]


@pytest.mark.parametrize("url", ["mcp.example", "ftp://mcp.example", "https://", "https:///mcp"])
def test_invalid_url_option_is_refused(url: str) -> None:
    done = run("mcp", "--url", url)
    assert done.returncode == 2
    assert "--url: it must be an address such as https://" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("--url", "http://127.0.0.1:9/mcp", "--", "server")])
def test_exactly_one_server_is_required(arguments: tuple[str, ...]) -> None:
    done = run("mcp", *arguments)
    assert done.returncode == 2
    assert "name one server" in done.stderr


@pytest.mark.slow
def test_instant_yes_of_a_stateless_host_does_nothing(tmp_path: Path) -> None:
    """Only the time in which the host has the question counts."""
    files = (str(tmp_path / "read"), str(tmp_path / "deeds"))
    floor = {"ABP_PERSON_FLOOR": "1h"}
    with proxied(True, "--page", "off", "--", *SERVER, *files, answer=YES, **floor) as host:
        host.shake_hands()
        said = host.call("okta")["result"]["content"][-1]["text"]
        assert "The host answered by itself" in said
        assert deeds(tmp_path) == []
