"""A command as a person is shown it: what it runs is always there, and a secret never."""

from __future__ import annotations

import pytest

from abp_bridge.core.command_line import show_command

HIDDEN = "\u2026"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (
            ["npx", "-y", "mongodb-mcp-server@3", "--connectionString", "mongodb://u:p@h/db?k=1"],
            f"npx -y mongodb-mcp-server@3 --connectionString {HIDDEN}",
        ),
        (["docker", "run", "-i", "--rm", "mcp/postgres"], "docker run -i --rm mcp/postgres"),
        (["docker", "run", "-e", "TOKEN=x", "image"], f"docker run -e TOKEN={HIDDEN} image"),
        (["/usr/bin/uvx", "awslabs.aws-api-mcp-server"], "uvx awslabs.aws-api-mcp-server"),
        (["npx", "@scope/server", "/home/me/data/"], "npx @scope/server data"),
        (["python", "-u", "-m", "server", "--token", "x"], f"python -u -m server --token {HIDDEN}"),
        (["python", "server.py", "--password=x"], f"python server.py --password={HIDDEN}"),
        (["env", "A=b", "sk-a1b2c3d4e5f6a7b8c9", "x"], f"env A=b {HIDDEN} x"),
        (["sh", "-c", "cd /x && run --key x"], f"sh -c {HIDDEN}"),
        (
            ["remote", "--header", "Authorization: Bearer x"],
            f"remote --header Authorization:{HIDDEN}",
        ),
        (["server", "me:hunter2@db"], f"server {HIDDEN}"),
        (["server", "http://[x"], f"server {HIDDEN}"),
        (["remote", "https://me:x@mcp.example/key?k=1"], "remote https://mcp.example"),
        (["uv"], "uv"),
        (["/tmp/abp-bridge"], "abp-bridge"),
    ],
)
def test_a_command_is_shown_without_what_may_be_secret(command: list[str], shown: str) -> None:
    assert show_command(command) == shown


def test_of_a_long_command_both_ends_are_shown() -> None:
    options = [each for number in range(40) for each in ("-v", f"volume-{number}")]
    shown = show_command(["docker", "run", *options, "mcp/postgres"])
    assert shown.startswith(f"docker run {HIDDEN} ")
    assert shown.endswith(" mcp/postgres")
    assert len(shown) < 90
