"""Which row of the table of hosts a host gets."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.session.profiles import CAREFUL, PROFILES, profile

Json = Any

# What Goose declares as an ACP client, without a name.
GOOSE = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "auth": {"terminal": False},
}


@pytest.mark.parametrize(
    ("name", "declared", "row"),
    [
        ("Codex-MCP-Client", {}, PROFILES["codex-mcp-client"]),
        ("qwen-cli-mcp-client-My Apps", {}, PROFILES["qwen-cli-mcp-client"]),
        ("acpx-2", {}, CAREFUL),
        (None, GOOSE, PROFILES["goose"]),
        (" ", GOOSE, PROFILES["goose"]),
        (None, {**GOOSE, "terminal": True}, CAREFUL),
        (None, None, CAREFUL),
        (7, {}, CAREFUL),
        ("an editor", GOOSE, CAREFUL),  # who gives a name is who it says
    ],
)
def test_a_host_is_known_by_its_name_or_else_by_what_it_declares(
    name: Json, declared: Json, row: Json
) -> None:
    assert profile(name, declared) is row
