"""Supabase's server asks in one era and over HTTP only: here before a host of either era."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.http_server import Reply, Request, json_reply, serving
from support.mcp_host import Host
from support.mcp_proxy import DESKTOP, MCP

from .servers import installed

Json = Any

TOKEN = f"sbp_{'0' * 40}"
PROJECT = "abcdefghijklmnopqrst"
DROP = {"project_id": PROJECT, "query": "DROP TABLE users"}


@dataclass
class Supabase:
    """A running server at `url`, and the SQL that the API behind it `ran`."""

    url: str
    ran: list[str] = field(default_factory=list)

    def answer(self, request: Request) -> Reply:
        self.ran.append(request.json["query"])
        return json_reply([], 201)


@pytest.fixture(scope="module")
def supabase() -> Iterator[Supabase]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    server = Supabase(f"http://127.0.0.1:{port}/mcp")
    with serving(server.answer) as at:
        places = ["--api-url", at, "--secret-url-template", f"{at}/{{ref}}/{{name}}"]
        command = [str(installed("supabase")), "--http", "--port", port, *places]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            assert "listening" in process.stdout.readline()
            try:
                yield server
            finally:
                process.terminate()


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        ({"action": "accept", "content": {"confirmed": "Yes, do it"}}, 1),
        ({"action": "accept", "content": {"confirmed": "No"}}, 0),
        ({"action": "accept", "content": {}}, 0),
        ({"action": "decline"}, 0),
        ({"action": "cancel"}, 0),
    ],
)
def test_drop_runs_on_a_yes_only(supabase: Supabase, era: str, answer: Json, ran: int) -> None:
    supabase.ran.clear()
    command = [*MCP, "--url", supabase.url, "--page", "off"]
    with Host(command, env={**DESKTOP, "ABP_MCP_TOKEN": TOKEN}) as host:
        host.stateless, host.answers = era == "modern", {"elicitation/create": answer}
        host.shake_hands()
        asked: list[Json] = []
        host.call("execute_sql", asked, arguments=DROP)
        assert "destructive operations" in asked[0]["params"]["message"]
    assert supabase.ran == [DROP["query"]] * ran
