"""What in a command or an address is a secret, however its program says it again."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abp_bridge.core.command_line import (
    find_target_secrets,
    show_command,
    show_target,
    show_unknown,
)
from abp_bridge.core.secret_parts import (
    HIDDEN,
    describe,
    find_secrets,
    hide,
    hide_keys,
    read_address,
)

KEY = "a1b2c3d4e5f6a7b8c9"

# a command -> what its program may say of it -> what is quoted of that
SAID_AGAIN = [
    ("server --api-key hunter2", "bad key hunter2", f"bad key {HIDDEN}"),
    ("server --api-key=hunter2", "HUNTER2?", f"{HIDDEN}?"),
    ("API_KEY=hunter2 server", "key=hunter2", f"key={HIDDEN}"),
    ("remote --header 'Authorization: Bearer tok-hunter2'",
     '{"Authorization": "Bearer tok-hunter2"} tok-hunter2',
     f'{{"Authorization": "{HIDDEN}"}} {HIDDEN}'),
    ("server --authorization Bearer hunter2", "no hunter2", f"no {HIDDEN}"),
    ("server postgres://me:hunter2pw@db/x", "me, hunter2pw", f"me, {HIDDEN}"),
    ("server postgres://hunter2@db/x", "no user hunter2", f"no user {HIDDEN}"),
    ("server --db=postgres://me:hunt%20er@db/x", "hunt er", HIDDEN),
    ("server --url=https://h/x?key=hunter2key", "GET https://h/x?key=hunter2key",
     f"GET https://h/x{HIDDEN}"),
    ("server https://h/x?page=about", "the page about x?page=about", f"the page about x{HIDDEN}"),
    ("server https://h/x?sealed&id=123456", "sealed 123456", "sealed 123456"),
    (f"server https://h/s/{KEY}/mcp", f"GET /s/{KEY}/mcp 404", f"GET /s/{HIDDEN}/mcp 404"),
    ("server https://h/s/%61%31b2c3d4e5f6a7b8c9/mcp", f"/s/{KEY}/", f"/s/{HIDDEN}/"),
    ("server https://h/x;token=hunter2/y", "hunter2", HIDDEN),
    ("server me:hunter2@host", "password hunter2", f"password {HIDDEN}"),
    ("curl -u me:hunter2 host", "me hunter2", f"me {HIDDEN}"),
    ("curl -u 1000:1000 host", "1000:1000", "1000:1000"),
    ("sh -c 'run --token hunter2'", "no hunter2", f"no {HIDDEN}"),
    ("""server '{"apiKey":"hunter2"}'""", "hunter2", HIDDEN),
    ("server 'host=h;password=hunter2'", "hunter2 at h", f"{HIDDEN} at h"),
    ("server --set=auth.token=hunter2", "hunter2", HIDDEN),
    ("server --dsn postgres://me:hunter2pw@db", "hunter2pw", HIDDEN),
    ("curl -u me:hunter2 host", "Basic bWU6aHVudGVyMg==", f"Basic bWU6{HIDDEN}=="),
    ("curl --user=me:hunter2 host", "me hunter2", f"me {HIDDEN}"),
    ("curl -ume:hunter2 host", "me hunter2", f"me {HIDDEN}"),
    ("curl -U me:hunter2 host", "me hunter2", f"me {HIDDEN}"),
    ("curl --proxy-user me:hunter2 host", "me hunter2", f"me {HIDDEN}"),
    ("docker run -u1000:1000 host", "1000 1000", "1000 1000"),
    ("server me:hunt/er:2@host", "hunt/er:2", HIDDEN),
    ("docker run img:latest@sha256:abc", "the latest", "the latest"),
    ("server localhost:3000/@vite/x", "3000/", "3000/"),
    ("""server '{"apiKey": "hunter2"}'""", "hunter2", HIDDEN),
    ("""server '{"url":"https://me:hunter2@h/"}'""", "hunter2", HIDDEN),
    ("server --url=https://me:pass@h/x?key=hunter2key", "hunter2key pass", f"{HIDDEN} {HIDDEN}"),
    ("server --header 'Cookie: sid=hunter2; a=b'", "sid is hunter2", f"sid is {HIDDEN}"),
    ("server 'user: me, password: hunter2'", "hunter2", HIDDEN),
    ("server --use-token false", "it is false", "it is false"),
    ("server --title 'My App'", "My App", "My App"),
    ("server 'http://h/?version=2025-06-18&transport=streamable-http&at=127.0.0.1:3000'",
     "2025-06-18 streamable-http 127.0.0.1:3000", "2025-06-18 streamable-http 127.0.0.1:3000"),
    ("uvx --from git+https://github.com/o/r@main s", "github.com/o/r", "github.com/o/r"),
    ("node c:/Users/me/server.js", "c:/Users/me/server.js", "c:/Users/me/server.js"),
    ("server --password=https://h/x?key=hunter2", "hunter2", HIDDEN),
    ("server https://me:12/hunter2@h.example/x", "12/hunter2", HIDDEN),
    ("remote --header Authorization: Bearer hunter2", "hunter2", HIDDEN),
    ("server 'a\u00a0b'", "a\u00a0b", "a\u00a0b"),
    ("""sh -c "it's run --token hunter2\"""", "hunter2", HIDDEN),
    (f"server {'=a' * 3000}", "=a=a", "=a=a"),
    (f"server --k{'=b' * 11}", "b", "b"),
    ("server --pin 12", "12", "12"),
    ("/bin/server /a/folder -v", "server: /a/folder", "server: /a/folder"),
    (f"server {'k' * 20}/{'k' * 20}", f"{'k' * 20}/{'k' * 20}", HIDDEN),
]  # fmt: skip


@pytest.mark.parametrize(("command", "said", "quoted"), SAID_AGAIN)
def test_what_a_program_says_again_is_quoted_without_secrets(
    command: str, said: str, quoted: str
) -> None:
    assert hide(said, find_secrets(shlex.split(command))) == quoted


def test_where_there_is_no_secret_nothing_is_hidden() -> None:
    assert hide("as it is", ()) == "as it is"


# a target -> what of it its app may say again
TARGETS = {
    f"mcp+https://mcp.example/s/{KEY}/mcp": [KEY],
    "mcp:server --token hunter2": ["hunter2"],
    "mcp:/bin/server --token hunter2": ["hunter2"],
    "stdio:server --token hunter2": ["hunter2"],
    "openai:gpt-5": [],
    f"https://mcp.example/v1#{KEY}": [KEY],
    f"sk-{KEY}": [f"sk-{KEY}"],
    "http://user:hunt/er2@example.org/x": ["hunt/er2"],
    "http:/user:hunter2@example.org": ["hunter2"],
    "https://h.example/o/r@main": [],
}


@pytest.mark.parametrize("target", TARGETS)
def test_the_secrets_of_a_target_are_those_that_are_not_shown(target: str) -> None:
    assert find_target_secrets(target) == TARGETS[target]
    assert not [each for each in TARGETS[target] if each in show_target(target)]


@pytest.mark.parametrize(
    "name",
    [
        "gemini-3-pro-2026-01-01",
        "claude-sonnet-4-5-20250929",
        "Qwen3-Coder-480B-A35B-Instruct-GGUF",
        "DeepSeek-R1-Distill-Qwen-32B",
        "550e8400-e29b-41d4-a716-446655440000",
        "internationalization18",
        "customer360analyticsmcp",
        "a-page-of-many-words-without-an-end",
    ],
)
def test_what_people_and_programs_call_things_is_no_key(name: str) -> None:
    assert hide_keys(name) == name


@pytest.mark.parametrize(
    "key",
    [
        f"sk-proj-{KEY}",
        "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "AKIAIOSFODNN7EXAMPLE",
        "deadbeefdeadbeef1234",
    ],
)
def test_what_looks_like_a_key_is_one(key: str) -> None:
    assert hide_keys(f"v1/{key}/x") == f"v1/{HIDDEN}/x"


def test_an_address_is_read_in_its_parts() -> None:
    address = read_address("https://me:pw@[::1]:80/a/@b?c#d")
    assert address == ("https://", "me:pw", "[::1]:80", "/a/@b", "?c#d")
    assert read_address("https://m/e:p@h/a#d") == ("https://", "m/e:p", "h", "/a", "#d")
    assert read_address("server") is None


SECRETS = st.from_regex(r"[a-z]{3,6}[0-9]{2,4}[A-Z]{2,4}", fullmatch=True)
PLACES = [
    "server --password {}",
    "curl --user=me:{} host",
    "server --token={}",
    "server -H 'X-Api-Key: {}'",
    "server --header='Authorization: Bearer {}'",
    "env SECRET={} server",
    "server https://me:{}@h.example/x",
    "server 'https://h.example/x?token={}&a=b'",
    "server --url=wss://h.example/x?key={}",
    "server me:{}@h.example",
    "sh -c 'server --password {}'",
    "server user=me;password={}",
]


@given(st.sampled_from(PLACES), SECRETS)
def test_a_secret_is_neither_shown_nor_quoted(place: str, secret: str) -> None:
    command = shlex.split(place.format(secret))
    assert secret not in show_command(command)
    assert secret not in hide(f"it was {secret}, {secret.upper()}", find_secrets(command))


@given(
    st.text()
    | st.lists(st.sampled_from(["a", "=", ":", "-u", "@", "//", " ", "'", "\\"])).map("".join)
)
def test_whatever_was_written_can_be_shown_and_searched(text: str) -> None:
    for each in (text, f"mcp:x {text}", f"https://{text}"):
        shown = f"{show_target(each)}{show_unknown(each)}{hide_keys(each)}"
        assert len(hide(shown, find_target_secrets(each))) <= len(shown) + 1


@pytest.mark.parametrize(
    "long",
    ["http://h.example/" + "a_" * 100_000, "x a" + "=a" * 100_000, "a:" + "b" * 200_000 + "@h"],
    ids=["an address", "names", "a user"],
)
def test_what_is_too_long_to_be_searched_is_hidden_whole(long: str) -> None:
    assert HIDDEN in show_unknown(long)
    assert HIDDEN in show_unknown(long[:5_000])
    assert len(show_target(long)) < 2_500
    assert find_target_secrets(long)


def test_what_has_no_secret_has_none() -> None:
    command = ["server", "https://h.example/", "--file=a.json", "plain", "~/folder"]
    assert [word.secrets for word in describe(command)] == [()] * 5
