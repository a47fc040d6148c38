"""What in a command or an address is a secret, however its program says it again."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abp_bridge.core.redact.command import (
    HIDDEN,
    clean_target,
    find_secrets,
    find_target_secrets,
    find_word_secrets,
    hide,
    hide_keys,
    read_address,
    show_command,
    show_model,
    show_target,
    show_unknown,
    target_word,
)

KEY = "a1b2c3d4e5f6a7b8c9"

# a command -> what its program may say of it -> what is quoted of that
SAID_AGAIN = [
    ("server --api-key hunter2", "bad key hunter2", f"bad key {HIDDEN}"),
    ("API_KEY=hunter2 server", "key=hunter2", f"key={HIDDEN}"),
    ("remote --header 'Authorization: Bearer tok-hunter2'",
     '{"Authorization": "Bearer tok-hunter2"} tok-hunter2',
     f'{{"Authorization": "{HIDDEN}"}} {HIDDEN}'),
    ("server --authorization Bearer hunter2", "no hunter2", f"no {HIDDEN}"),
    ("server postgres://me:hunter2pw@db/x", "me, hunter2pw", f"me, {HIDDEN}"),
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
    ("curl --user=me:hunter2 host", "me hunter2", f"me {HIDDEN}"),
    ("curl -u 1000:1000 host", "1000:1000", "1000:1000"),
    ("sh -c 'run --token hunter2'", "no hunter2", f"no {HIDDEN}"),
    ("""server '{"apiKey":"hunter2"}'""", "hunter2", HIDDEN),
    ("server --set=auth.token=hunter2", "hunter2", HIDDEN),
    ("curl -u me:hunter2 host", "Basic bWU6aHVudGVyMg==", f"Basic bWU6{HIDDEN}=="),
    ("curl -ume:hunter2 host", "me hunter2", f"me {HIDDEN}"),
    ("server me:hunt/er:2@host", "hunt/er:2", HIDDEN),
    ("docker run img:latest@sha256:abc", "the latest", "the latest"),
    ("server localhost:3000/@vite/x", "3000/", "3000/"),
    ("""server '{"url":"https://me:hunter2@h/"}'""", "hunter2", HIDDEN),
    ("server --url=https://me:pass@h/x?key=hunter2key", "hunter2key pass", f"{HIDDEN} {HIDDEN}"),
    ("server --header 'Cookie: sid=hunter2; a=b'", "sid is hunter2", f"sid is {HIDDEN}"),
    ("server 'user: me, password: hunter2'", "hunter2", HIDDEN),
    ("server --use-token false", "it is false", "it is false"),
    ("server 'http://h/?version=2025-06-18&transport=streamable-http&at=127.0.0.1:3000'",
     "2025-06-18 streamable-http 127.0.0.1:3000", "2025-06-18 streamable-http 127.0.0.1:3000"),
    ("uvx --from git+https://github.com/o/r@main s", "github.com/o/r", "github.com/o/r"),
    ("server --password=https://h/x?key=hunter2", "hunter2", HIDDEN),
    ("server https://me:12/hunter2@h.example/x", "12/hunter2", HIDDEN),
    ("remote --header Authorization: Bearer hunter2", "hunter2", HIDDEN),
    ("server 'a\u00a0b'", "a\u00a0b", "a\u00a0b"),
    (f"server {'=a' * 3000}", "=a=a", "=a=a"),
    (f"server --k{'=b' * 11}", "b", "b"),
    ("/bin/server /a/folder -v", "server: /a/folder", "server: /a/folder"),
    (f"server {'k' * 20}/{'k' * 20}", f"{'k' * 20}/{'k' * 20}", HIDDEN),
]  # fmt: skip


@pytest.mark.parametrize(("command", "said", "quoted"), SAID_AGAIN)
def test_words_of_a_program_are_quoted_without_its_secrets(
    command: str, said: str, quoted: str
) -> None:
    assert hide(said, find_secrets(shlex.split(command))) == quoted


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
def test_name_of_a_model_or_program_is_not_a_key(name: str) -> None:
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
def test_word_that_looks_like_a_key_is_hidden(key: str) -> None:
    assert hide_keys(f"v1/{key}/x") == f"v1/{HIDDEN}/x"


def test_an_address_is_read_in_its_parts() -> None:
    address = read_address("https://me:pw@[::1]:80/a/@b?c#d")
    assert address == ("https://", "me:pw", "[::1]:80", "/a/@b", "?c#d")
    assert read_address("https://m/e:p@h/a#d") == ("https://", "m/e:p", "h", "/a", "#d")
    assert read_address("server") is None


@given(
    st.text()
    | st.lists(st.sampled_from(["a", "=", ":", "-u", "@", "//", " ", "'", "\\"])).map("".join)
)
def test_any_text_can_be_shown_and_searched(text: str) -> None:
    for each in (text, f"mcp:x {text}", f"https://{text}"):
        shown = f"{show_target(each)}{show_unknown(each)}{hide_keys(each)}"
        assert len(hide(shown, find_target_secrets(each))) <= len(shown) + 1


@pytest.mark.parametrize(
    "long",
    ["http://h.example/" + "a_" * 100_000, "x a" + "=a" * 100_000, "a:" + "b" * 200_000 + "@h"],
    ids=["an address", "names", "a user"],
)
def test_text_too_long_to_search_is_hidden_whole(long: str) -> None:
    assert HIDDEN in show_unknown(long)
    assert HIDDEN in show_unknown(long[:5_000])
    assert len(show_target(long)) < 2_500
    assert find_target_secrets(long)


def test_command_without_secrets_has_none() -> None:
    command = ["server", "https://h.example/", "--file=a.json", "plain", "~/folder"]
    assert [word.secrets for word in find_word_secrets(command)] == [()] * 5


# --- as it may be shown ---


SHOWN = {
    "npx -y mongodb-mcp-server@3 --connectionString mongodb://u:p@h/db?k=1": (
        "npx -y mongodb-mcp-server@3 --connectionString …"
    ),
    "docker run -e TOKEN=x image": "docker run -e TOKEN=… image",
    "/usr/bin/uvx awslabs.aws-api-mcp-server": "uvx awslabs.aws-api-mcp-server",
    "python -u -m server --token x": "python -u -m server --token …",
    "env A=b sk-a1b2c3d4e5f6a7b8c9 x": "env A=b … x",
    "sh -c 'cd /x && run --key x'": "sh -c …",
    "remote --header 'Authorization: Bearer x'": "remote --header Authorization:…",
    "server http://[x": "server http://[x",
    "remote --url=https://h.example/a?key=x": "remote --url=https://h.example",
    """server '{"apiKey":"x"}'""": "server …",
    "server 'host=h;password=x'": "server host=…",
    "server --authorization Bearer x": "server --authorization … …",
    "uvx --from git+https://github.com/o/r@main server": "uvx --from git+https://github.com server",
    "server sqlite:///home/me/x.db": "server sqlite://",
    "npx @scope/server@latest me@host:folder": "npx @scope/server@latest me@host:folder",
    "remote https://me:x@mcp.example/key?k=1": "remote https://mcp.example",
    "uv": "uv",
    f"python /{'folder/' * 20}server.py": "python server.py",
    "server /a/sk0a1b2c3d4e5f6a7b8c9/b": "server …",
    f"server {'k' * 20}/{'k' * 20}": "server …",
    f"docker run -i --rm {'-v some-volume ' * 9} mcp/postgres db": (
        f"docker run -i --rm{' -v some-volume' * 3} … mcp/postgres db"
    ),
    f"docker run -i ghcr.io/o/server:1 {'--flag its-value ' * 9}": (
        f"docker run -i ghcr.io/o/server:1{' --flag its-value' * 2} --flag …"
    ),
    f"uvx --from package server {'--option /a/folder ' * 9}": (
        f"uvx --from package server{' --option folder' * 3} …"
    ),
    f"program {'long-' * 18} {'more-' * 18}": (
        f"program {'long-' * 8} … [50 more characters not shown] …"
    ),
}


@pytest.mark.parametrize(("command", "shown"), SHOWN.items())
def test_command_is_shown_without_what_may_be_secret(command: str, shown: str) -> None:
    assert show_command(shlex.split(command)) == shown


SHOWN_TARGETS = {
    "https://me:pass@example.org/app?key=s3cret": "https://example.org/app",
    "https://example.org/app": "https://example.org/app",
    "stdio:/usr/bin/python3 /srv/app.py --token s3cret": "stdio:python3 app.py",
    "STDIO:/srv/printer --token s3cret": "stdio:printer",
    "mcp:/usr/bin/npx -y server --token s3cret": "mcp:npx -y server --token …",
    "acp:goose acp": "acp:goose acp",
    "acp:goose 'acp --token s3cret": "acp:goose",
    "mcp:https://me:pass@mcp.example/s3cret?key=s3cret": "mcp:https://mcp.example",
    "mcp:API_KEY=s3cret npx server": "mcp:API_KEY=… npx server",
    "stdio:https://app.example/run?key=s3cret": "stdio:app.example",
    "stdio:API_KEY=s3cret printer": "stdio:API_KEY=…",
    "http://127.0.0.1:1/#access_token=hunter2": "http://127.0.0.1:1/",
    "http://user:hunt/er2@example.org/x": "http://example.org/x",
    "http://user:hunter2@[::1": "http://[::1",
    "mcp+http://user:hunter2@[::1": "mcp+http://[::1",
    "http://localhost:3000/@vite/x?key=hunter2": "http://localhost:3000/@vite/x",
    "http://me@[::1]:3000/a": "http://[::1]:3000/a",
    "https://mcp.example/s/a1b2c3d4e5f6a7b8c9/mcp": "https://mcp.example/s/…/mcp",
    "https://mcp.example/s;token=s3cret/token=s3cret": ("https://mcp.example/s;token=…/token=…"),
    "https://app.example/internationalization18/x": "https://app.example/internationalization18/x",
    "https://a1b2c3d4e5f6a7b8c9.example/550e8400-e29b-41d4-a716-446655440000/v1": (
        "https://a1b2c3d4e5f6a7b8c9.example/550e8400-e29b-41d4-a716-446655440000/v1"
    ),
}


@pytest.mark.parametrize(("target", "shown"), SHOWN_TARGETS.items())
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
    "stdi:o python --password hunter2": (f"stdi:{HIDDEN}", f"stdi:o python --password {HIDDEN}"),
    "opnai:hunter2": (f"opnai:{HIDDEN}", "opnai:hunter2"),
    "PASSWORD=hunter2 python app.py": (f"PASSWORD={HIDDEN} python app.py",) * 2,
    "python 'app.py --password hunter2": ("python",) * 2,
    "localhost:3000/a.html": ("localhost:3000/a.html",) * 2,
    "": ("", ""),
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown_target_is_quoted_without_secrets(text: str) -> None:
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
