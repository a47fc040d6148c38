"""A command as a person is shown it: what it runs is always there, and a secret never."""

from __future__ import annotations

import pytest

from abp_bridge.core.command_line import show_command, show_target

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
        (["python", f"/{'folder/' * 20}server.py"], "python server.py"),
        (["server", "/a/sk0a1b2c3d4e5f6a7b8c9/b"], f"server {HIDDEN}"),
        (["server", f"{'k' * 20}/{'k' * 20}"], f"server {HIDDEN}"),
    ],
)
def test_a_command_is_shown_without_what_may_be_secret(command: list[str], shown: str) -> None:
    assert show_command(command) == shown


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (
            ["docker", "run", "-i", "--rm", *["-v", "some-volume"] * 9, "mcp/postgres", "db"],
            f"docker run -i --rm{' -v some-volume' * 3} {HIDDEN} mcp/postgres db",
        ),
        (
            ["docker", "run", "-i", "ghcr.io/o/server:1", *["--flag", "its-value"] * 9],
            f"docker run -i ghcr.io/o/server:1{' --flag its-value' * 2} --flag {HIDDEN}",
        ),
        (
            ["uvx", "--from", "package", "server", *["--option", "/a/folder"] * 9],
            f"uvx --from package server{' --option folder' * 3} {HIDDEN}",
        ),
    ],
)
def test_of_a_long_command_what_it_runs_is_shown(command: list[str], shown: str) -> None:
    assert show_command(command) == shown


def test_of_a_command_of_long_words_the_first_two_are_shown() -> None:
    shown = show_command(["program", "long-" * 18, "more-" * 18])
    assert shown == f"program {'long-' * 8} {HIDDEN} [50 more characters not shown] {HIDDEN}"


TARGETS = {
    "https://me:pass@example.org/app?key=s3cret": "https://example.org/app",
    "https://example.org/app": "https://example.org/app",
    "stdio:/usr/bin/python3 /srv/app.py --token s3cret": "stdio:python3 app.py",
    "STDIO:/srv/printer --token s3cret": "stdio:printer",
    "stdio:printer --token s3cret": "stdio:printer",
    "mcp:/usr/bin/npx -y server --token s3cret": "mcp:npx -y server --token \u2026",
    "acp:goose acp": "acp:goose acp",
    "acp:goose 'acp --token s3cret": "acp:goose",
    "mcp:": "mcp:",
}


@pytest.mark.parametrize(("target", "shown"), TARGETS.items())
def test_a_target_is_shown_without_what_may_be_secret(target: str, shown: str) -> None:
    assert show_target(target) == shown
