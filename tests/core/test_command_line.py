"""A command as a person is shown it: what it runs is always there, and a secret never."""

from __future__ import annotations

import pytest

from abp_bridge.core.command_line import (
    clean_target,
    find_target_secrets,
    show_command,
    show_model,
    show_target,
    show_unknown,
    target_word,
)
from abp_bridge.core.secret_parts import HIDDEN


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
        (["server", "http://[x"], "server http://[x"),
        (["run", "--env=API_KEY=x", "image"], f"run --env=API_KEY={HIDDEN} image"),
        (["remote", "--url=https://h.example/a?key=x"], "remote --url=https://h.example"),
        (["server", "--set=auth.token=x"], f"server --set=auth.token={HIDDEN}"),
        (["server", '{"apiKey":"x"}'], f"server {HIDDEN}"),
        (["server", "host=h;password=x"], f"server host={HIDDEN}"),
        (["curl", "-u", "me:x"], f"curl -u {HIDDEN}"),
        (["docker", "run", "-u", "1000:1000", "image"], "docker run -u 1000:1000 image"),
        (["server", "--authorization", "Bearer", "x"], f"server --authorization {HIDDEN} {HIDDEN}"),
        (
            ["uvx", "--from", "git+https://github.com/o/r@main", "server"],
            "uvx --from git+https://github.com server",
        ),
        (["node", "c:/Users/me/server.js"], "node c:/Users/me/server.js"),
        (["server", "sqlite:///home/me/x.db"], "server sqlite://"),
        (
            ["npx", "@scope/server@latest", "me@host:folder"],
            "npx @scope/server@latest me@host:folder",
        ),
        (["uvx", "customer360analyticsmcp"], "uvx customer360analyticsmcp"),
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
    "mcp:https://me:pass@mcp.example/s3cret?key=s3cret": "mcp:https://mcp.example",
    "mcp:API_KEY=s3cret npx server": "mcp:API_KEY=\u2026 npx server",
    "stdio:https://app.example/run?key=s3cret": "stdio:app.example",
    "stdio:API_KEY=s3cret printer": "stdio:API_KEY=\u2026",
    "http://127.0.0.1:1/#access_token=hunter2": "http://127.0.0.1:1/",
    "http://user:hunt/er2@example.org/x": "http://example.org/x",
    "http://user:hunter2@[::1": "http://[::1",
    "mcp+http://user:hunter2@[::1": "mcp+http://[::1",
    "ws://user:hunt#er2@example.org": "ws://example.org",
    "http://localhost:3000/@vite/x?key=hunter2": "http://localhost:3000/@vite/x",
    "http://user:hunter2/@example.org/x": "http://example.org/x",
    "http://me@[::1]:3000/a": "http://[::1]:3000/a",
    "https://mcp.example/s/a1b2c3d4e5f6a7b8c9/mcp": "https://mcp.example/s/\u2026/mcp",
    "https://mcp.example/s;token=s3cret/token=s3cret": (
        "https://mcp.example/s;token=\u2026/token=\u2026"
    ),
    "https://app.example/internationalization18/x": "https://app.example/internationalization18/x",
    "https://a1b2c3d4e5f6a7b8c9.example/550e8400-e29b-41d4-a716-446655440000/v1": (
        "https://a1b2c3d4e5f6a7b8c9.example/550e8400-e29b-41d4-a716-446655440000/v1"
    ),
}


@pytest.mark.parametrize(("target", "shown"), TARGETS.items())
def test_a_target_is_shown_without_what_may_be_secret(target: str, shown: str) -> None:
    assert show_target(target) == shown


WORDS = {
    "stdio:python app.py": "'stdio:python app.py'",
    "https://example.org/app": "https://example.org/app",
    "https://example.org/app?view=abp": "TARGET",
    "stdio:python app.py --mode abp": "TARGET",
    "stdio:/usr/bin/python app.py": "TARGET",
    "mcp:npx server /data": "TARGET",
    "mcp:npx server --token s3cret": "TARGET",
}


@pytest.mark.parametrize(("target", "word"), WORDS.items())
def test_a_command_to_run_has_a_target_that_is_whole_or_a_word_for_it(
    target: str, word: str
) -> None:
    assert target_word(target) == word


# what is no target -> as an error quotes it, and as a suggestion goes on with it
UNKNOWN = {
    "htps://user:hunter2@example.com/x": ("htps://example.com/x",) * 2,
    " http:/user:hunter2@example.com": ("http:/example.com",) * 2,
    "http//user:hunter2@example.com/?key=hunter2": ("http//example.com/",) * 2,
    "user:hunter2@example.com/x": (f"user:{HIDDEN}", "example.com/x"),
    "stdi:o python --password hunter2": (
        f"stdi:{HIDDEN}",
        f"stdi:o python --password {HIDDEN}",
    ),
    "opnai:hunter2": (f"opnai:{HIDDEN}", "opnai:hunter2"),
    "PASSWORD=hunter2 python app.py": (f"PASSWORD={HIDDEN} python app.py",) * 2,
    "python 'app.py --password hunter2": ("python",) * 2,
    "localhost:3000/a.html": ("localhost:3000/a.html",) * 2,
    "./srv/app.py": ("./srv/app.py",) * 2,
    "": ("", ""),
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_no_target_is_quoted_without_what_may_be_secret(text: str) -> None:
    assert (show_unknown(text), clean_target(text)) == UNKNOWN[text]


def test_a_model_at_an_address_is_shown_with_its_name() -> None:
    assert show_model("http://127.0.0.1:1/v1#llama") == "http://127.0.0.1:1/v1#llama"
    assert show_model("acp:agent --token hunter2") == f"acp:agent --token {HIDDEN}"
    assert show_model("acp:/opt/bin/agent") == "acp:agent"
    assert show_model("openai:gpt-5") == "openai:gpt-5"
    assert show_model("google:models/gemini-3-pro-2026-01-01") == (
        "google:models/gemini-3-pro-2026-01-01"
    )


@pytest.mark.parametrize(
    "key", ["sk-proj-a1b2c3d4e5f6a7b8c9", "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4"]
)
def test_a_key_that_is_written_for_a_models_name_is_hidden(key: str) -> None:
    assert show_model(f"openai:{key}") == f"openai:{HIDDEN}"
    assert show_model(f"http://127.0.0.1:1/v1#{key}") == f"http://127.0.0.1:1/v1#{HIDDEN}"
    assert find_target_secrets(f"openai:{key}") == [key]
