"""The table of settings: each is read the same way from a flag and from the environment, and
written back as it was given.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from support.harness import run

from abp_bridge.settings import (
    REMOVED,
    TABLE,
    Settings,
    SettingsError,
    misspelt,
    read_settings,
    to_environment,
)
from abp_bridge.settings.values import read_duration

TIMES = {"30s": 30.0, "500ms": 0.5, "2min": 120.0, "1h": 3600.0, " 1.5 s ": 1.5, "0": 0.0}


@pytest.mark.parametrize("text", TIMES)
def test_duration_with_a_unit_is_the_same_everywhere(text: str) -> None:
    assert read_duration(text, "ms") == read_duration(text, "s") == TIMES[text]


def test_duration_without_a_unit_is_milliseconds_in_the_environment_and_seconds_in_a_flag() -> None:
    assert read_duration("1500", "ms") == 1.5
    assert read_duration("1.5", "s") == 1.5
    assert read_settings({"ABP_CALL_TIMEOUT": "1500"}).call_timeout == 1.5
    assert read_settings({"ABP_CALL_TIMEOUT": "2min"}).call_timeout == 120.0


@pytest.mark.parametrize("text", ["", "soon", "s", "5 m", "5 days", "--5", "1e", "nan", "inf"])
def test_invalid_duration_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="it must be a number of milliseconds, or have a unit"):
        read_duration(text, "ms")


@pytest.mark.parametrize("text", ["-1", "86400001", "25h", "1e300"])
def test_duration_is_at_most_a_day(text: str) -> None:
    with pytest.raises(ValueError, match=r"from 0 to 86400000 milliseconds \(a day\)"):
        read_duration(text, "ms")


def test_duration_of_zero_is_a_minimum_and_not_a_timeout() -> None:
    assert TABLE["min_human_latency"].parse("0", "s") == 0.0
    with pytest.raises(ValueError, match="it must be more than 0"):
        TABLE["park_timeout"].parse("0", "s")


MEANT = {
    "stido:python app.py": "'stdio:python app.py'",
    "mpc:npx -y server": "'mcp:npx -y server'",
    "mcp+htps://a.example/mcp": "mcp+https://a.example/mcp",
    "htps://app.example/x": "https://app.example/x",
    "https:/app.example": "https://app.example",
    "app.example:8080/x": "https://app.example:8080/x",
    "demo:pag": "demo:page",
    "goose": "stdio:goose or mcp:goose or acp:goose",
    "./app.py": "'stdio:python3 ./app.py' or 'mcp:python3 ./app.py' or 'acp:python3 ./app.py'",
    "my.mjs": "'stdio:node my.mjs' or 'mcp:node my.mjs' or 'acp:node my.mjs'",
    "python3 app.py": "'stdio:python3 app.py' or 'mcp:python3 app.py' or 'acp:python3 app.py'",
    "gopher://x": "",
    "": "",
}


@pytest.mark.parametrize("target", MEANT)
def test_invalid_app_is_answered_with_what_may_be_meant(target: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({}, apps=(target,))
    assert MEANT[target] == "".join(str(refused.value).partition(" Did you mean ")[2:])[:-1]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "telepathy",
            "'telepathy' is no surface; there are mock, host, terminal, questions-api, page,"
            " sampling, model-relay",
        ),
        ("mock", "mock is not set up: give --answers FILE too"),
        ("page", "page is not set up: give --page too"),
        ("model-relay", "model-relay is not set up: give --ask-via-model (of serve, acp) too"),
    ],
)
def test_surface_order_names_only_surfaces_that_are_set_up(name: str, why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"--ask-on: {why}")):
        read_settings({}, ask_on=("host", name))


# --- misspelt and removed settings ----------------------------------------------------------------

MISSPELT = {
    "ABP_HEADLES": "ABP_HEADLESS",
    "ABP_CALLTIMEOUT": "ABP_CALL_TIMEOUT",
    "abp_page": "ABP_PAGE",
    "ABP_HEADFUL": "ABP_HEADLESS",
    "ABP_APP": "--app",
    "ABP_ALLOW": "--allow",
    "ABP_TIMEOUT": "ABP_QUESTION_TIMEOUT",
    "ABP_ROOT": "ABP_ROOTS",
}


def test_misspelt_variable_is_named_with_the_right_one() -> None:
    others = ("ABPBRIDGE", "ABP_PAGE", "PATH", "ABP_DOWNLOAD_TIMEOUT", "ABP_SOMETHING")
    assert dict(misspelt([*MISSPELT, *others])) == MISSPELT


EVERY_COMMAND = (
    ["serve"],
    ["acp", "--", "true"],
    ["ask", "sampling", "A poem", "--on", "page"],
    ["demo", "--answers", "/nonexistent"],
    ["matrix"],
    ["replay", "/nonexistent"],
    ["trace", "/nonexistent"],
)


@pytest.mark.process  # `acp` starts the agent
@pytest.mark.parametrize("words", EVERY_COMMAND, ids=[words[0] for words in EVERY_COMMAND])
def test_misspelt_variable_is_a_warning_of_every_command(words: list[str]) -> None:
    said = run(*words, env={"ABP_QUESTION_PASSWORD": "planted-key-5be1"}).stderr
    meant = "ABP_QUESTION_PASSWORD in the environment is no setting: is ABP_QUESTIONS_PASSWORD"
    assert said.count(meant) == 1
    assert "planted" not in said


FLAGS = [name for name in REMOVED if name.startswith("--")]
VARIABLES = [name for name in REMOVED if name.startswith("ABP_")]
MODELS = [name for name in REMOVED if name.startswith("cli:")]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("words", [["serve"], ["try", "demo"], []])
def test_removed_flag_is_named_with_what_replaces_it(words: list[str], flag: str) -> None:
    ended = run(*words, f"{flag}=x", "--", "true")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"abp-bridge: {flag} was removed.\n{REMOVED[flag]}.\n"
    assert flag not in {row.flag for row in TABLE.values()}


@pytest.mark.process
def test_removed_flag_of_another_program_passes() -> None:
    ended = run("acp", "--", "true", *FLAGS)
    assert "was removed" not in ended.stderr


@pytest.mark.parametrize("variable", VARIABLES)
def test_removed_variable_is_named_with_what_replaces_it(variable: str) -> None:
    assert read_settings({variable: ""}) == Settings()
    assert list(misspelt([variable])) == []
    ended = run("serve", env={variable: "x"})
    assert ended.returncode == 2
    assert ended.stderr == f"abp-bridge: {variable} was removed.\n{REMOVED[variable]}.\n"


@pytest.mark.parametrize("model", MODELS)
def test_removed_model_is_named_with_what_replaces_it(model: str) -> None:
    said = f"abp-bridge: {model} was removed.\n{REMOVED[model]}.\n"
    ended = run("serve", "--sampling", model)
    assert (ended.returncode, ended.stderr) == (2, said)


# --- the table ------------------------------------------------------------------------------------


def test_settings_are_written_as_the_environment_that_makes_them_again(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {
        "output_dir": "/tmp/x",
        "headless": False,
        "browser_timeout": 1.5,
        "host_tool_timeout": 86_400.0,
        "min_human_latency": 0.0,
        "page": "open",
        "tty": "/dev/pts/3",
        "questions_api": 0,
        "questions_password": "secret",
        "ask_via_model": True,
        "ask_on": ("terminal", "host"),
        "mcp_modern": False,
        "roots": (str(tmp_path), "/"),
    }
    made = Settings(**chosen)
    again = read_settings({**to_environment(made), "ABP_QUESTIONS_PASSWORD": "secret"})
    assert again == dataclasses.replace(made, output_dir=None)
    exact = {"ABP_CALL_TIMEOUT": "1234567", "ABP_PERSON_FLOOR": "0.3"}
    assert to_environment(read_settings(exact)) == exact


def test_flag_overrules_even_an_invalid_variable() -> None:
    assert read_settings({"ABP_PAGE": "upside down"}, page="link").page == "link"
    with pytest.raises(SettingsError, match="ABP_PAGE='upside down' cannot be used: it must be"):
        read_settings({"ABP_PAGE": "upside down"})


def test_empty_variable_is_ignored() -> None:
    """Hosts set the variables of a server that their user has not filled in."""
    names = [row.variable for row in TABLE.values() if row.variable]
    assert read_settings(dict.fromkeys(names, "")) == Settings()


def test_tilde_in_a_path_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts pass variables as they are in their files, and no shell expands `--root=~/x`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    there = str(tmp_path / "x")
    Path(there).mkdir()
    paths = {name: row for name, row in TABLE.items() if row.path}
    made = read_settings({row.variable: "~/x" for row in paths.values()})
    expected = {**dict.fromkeys(paths, there), "roots": (there,)}
    assert {name: getattr(made, name) for name in paths} == expected
    flags: dict[str, Any] = {**dict.fromkeys(paths, "~/x"), "roots": ["~/x", "/"]}
    assert read_settings({}, **flags) == dataclasses.replace(made, roots=(there, "/"))
    assert read_settings({"ABP_TOOL_CACHE": "off"}).tool_cache == "off"


def test_tilde_in_the_log_file_makes_no_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    env = {"HOME": str(tmp_path / "home"), "ABP_LOG_FILE": "~/log"}
    assert run("ask", "sampling", "A poem", "--on", "page", cwd=tmp_path, env=env).returncode == 1
    assert [each.name for each in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home/log").exists()


def test_every_setting_can_be_given_and_has_help() -> None:
    for name, row in TABLE.items():
        assert row.help, name
        assert row.flag or row.variable, name
        assert bool(row.metavar) or row.const is not None or bool(row.choices) or not row.flag, name


@pytest.mark.parametrize("command", ["serve", "acp", "ask", "demo", "matrix", "replay", "trace"])
def test_command_has_the_options_of_the_table(command: str) -> None:
    words = set(re.findall(r"^\s+(--[a-z-]+)", run(command, "--help").stdout, re.MULTILINE))
    own = {"--answers"}  # the demo's is another option
    flags = {row.flag for row in TABLE.values()} - own
    assert words & flags == {r.flag for r in TABLE.values() if command in r.commands} - own - {""}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"ABP_BROWSER_URL": "http://127.0.0.1:9222", "ABP_SAMPLING": "none"},
            ["login", "not-an-address", "--profile", "x"],
        ),
        ({"ABP_SAMPLING": "none", "ABP_ANSWERS": "/nowhere"}, ["check", "not-an-app"]),
    ],
)
def test_variable_that_a_command_does_not_use_does_not_stop_it(
    variables: dict[str, str], words: list[str]
) -> None:
    ended = run(*words, env=variables)
    assert "not-an-a" in ended.stderr, ended.stderr
    assert not any(name in ended.stderr for name in ("--browser-url", "--sampling", "/nowhere"))
