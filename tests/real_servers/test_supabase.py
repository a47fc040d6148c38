"""Supabase's server asks in one era and over HTTP only: here before a host of either era."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.era_host import Host
from support.harness import environment
from support.mcp_proxy import DESKTOP, MCP

from .supabase import PROJECT, TOKEN, Supabase, run_supabase

Json = Any

DROP = {"project_id": PROJECT, "query": "DROP TABLE users"}


@pytest.fixture(scope="module")
def supabase() -> Iterator[Supabase]:
    with run_supabase() as server:
        yield server


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
def test_sql_that_drops_runs_on_a_yes_only(
    supabase: Supabase, era: str, answer: Json, ran: int
) -> None:
    supabase.ran.clear()
    command = [*MCP, "--url", supabase.url, "--page", "off"]
    with Host(command, env=environment(**DESKTOP, ABP_MCP_TOKEN=TOKEN)) as host:
        host.era, host.answers = era, {"elicitation/create": answer}
        host.shake_hands()
        asked: list[Json] = []
        host.call("execute_sql", asked, arguments=DROP)
        assert "destructive operations" in asked[0]["params"]["message"]
    assert supabase.ran == [DROP["query"]] * ran
