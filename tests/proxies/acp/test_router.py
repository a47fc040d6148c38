"""Which lines the proxy changes, and which it leaves alone: what a client is announced with,
and the one server that a session has more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.acp_harness import FORM, check_params
from support.acp_proxy import compact, proxied

Json = Any


async def test_initialize_adds_forms_for_a_client_without_them() -> None:
    async with proxied() as client:
        meta = (await client.initialize({"fs": {"readTextFile": True}}))["_meta"]
        sent = json.dumps(client.wire.received()[0])
        assert (
            meta["line"]
            == sent.replace(
                '{"readTextFile": true}}', '{"readTextFile": true},"elicitation":{"form":{}}}'
            )
            + "\n"
        )


@pytest.mark.parametrize(
    ("capabilities", "version"), [(FORM, 1), ({}, 2)], ids=["it has forms", "another version"]
)
async def test_initialize_of_other_clients_is_unchanged(capabilities: Json, version: int) -> None:
    async with proxied() as client:
        meta = (await client.initialize(capabilities, version=version))["_meta"]
        assert meta["line"] == json.dumps(client.wire.received()[0]) + "\n"


async def test_session_without_an_app_passes_unchanged() -> None:
    async with proxied() as client:
        await client.initialize()
        result = await client.request("session/new", {"cwd": "/", "mcpServers": []})
        assert result["_meta"]["line"] == json.dumps(client.wire.received()[-1]) + "\n"


async def test_session_with_an_app_gets_one_more_server() -> None:
    theirs = {"name": "abp", "command": "theirs", "args": [], "env": []}
    async with proxied("--app", "demo") as client:
        await client.initialize()
        result = await client.request("session/new", {"cwd": "/", "mcpServers": [theirs]})
        line = result["_meta"]["line"]
        *others, ours = json.loads(line)["params"]["mcpServers"]
        assert others == [theirs]
        check_params("session/new", {"cwd": "/", "mcpServers": [ours]})
        assert ours["name"] == "abp-2"
        assert (
            line
            == json.dumps(client.wire.received()[-1]).replace("}]}}", "}," + compact(ours) + "]}}")
            + "\n"
        )
        folder = Path(ours["args"][-1]).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert ours["env"][0]["value"] not in str(ours["args"])
    assert not folder.exists()


async def test_other_protocol_version_passes_unchanged() -> None:
    async with proxied("--app", "demo") as client:
        await client.initialize(version=2)
        result = await client.request("session/new", {"cwd": "/", "mcpServers": []})
        assert "relay" not in result["_meta"]["line"]
