"""The table of settings: each is read the same way from a flag and from the environment, and said
again as it was given.
"""

from __future__ import annotations

import dataclasses
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
def test_a_time_with_a_unit_is_the_same_everywhere(text: str) -> None:
    assert read_duration(text, "ms") == read_duration(text, "s") == TIMES[text]


def test_a_bare_time_is_milliseconds_in_the_environment_and_seconds_after_a_flag() -> None:
    assert read_duration("1500", "ms") == 1.5
    assert read_duration("1.5", "s") == 1.5
    assert read_settings({"ABP_CALL_TIMEOUT": "1500"}).call_timeout == 1.5
    assert read_settings({"ABP_CALL_TIMEOUT": "2min"}).call_timeout == 120.0


@pytest.mark.parametrize("text", ["", "soon", "s", "5 m", "5 days", "--5", "1e", "nan", "inf"])
def test_what_is_no_time_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match="it must be a number of milliseconds, or have a unit"):
        read_duration(text, "ms")


@pytest.mark.parametrize("text", ["-1", "86400001", "25h", "1e300"])
def test_a_time_is_at_most_a_day(text: str) -> None:
    with pytest.raises(ValueError, match=r"from 0 to 86400000 milliseconds \(a day\)"):
        read_duration(text, "ms")


def test_a_misspelt_setting_is_named_with_the_right_one() -> None:
    names = ["ABP_HEADLES", "ABP_CALLTIMEOUT", "abp_page", "ABPBRIDGE", "ABP_PAGE", "PATH"]
    assert list(misspelt([*names, "ABP_DOWNLOAD_TIMEOUT", "ABP_RELAY_TOKEN"])) == [
        ("ABP_HEADLES", "ABP_HEADLESS"),
        ("ABP_CALLTIMEOUT", "ABP_CALL_TIMEOUT"),
        ("abp_page", "ABP_PAGE"),
    ]


MEANT = {
    "stido:python app.py": "'stdio:python app.py'",
    "mpc:npx -y server": "'mcp:npx -y server'",
    "apc:goose acp": "'acp:goose acp'",
    "mcp+htps://a.example/mcp": "mcp+https://a.example/mcp",
    "htps://app.example/x": "https://app.example/x",
    "https:/app.example": "https://app.example",
    "app.example:8080/x": "https://app.example:8080/x",
    "localhost:3000": "http://localhost:3000",
    "demo:pag": "demo:page",
    "goose": "stdio:goose or mcp:goose or acp:goose",
    "./app.py": "'stdio:python3 ./app.py' or 'mcp:python3 ./app.py' or 'acp:python3 ./app.py'",
    "app.py": "'stdio:python3 app.py' or 'mcp:python3 app.py' or 'acp:python3 app.py'",
    "my.mjs": "'stdio:node my.mjs' or 'mcp:node my.mjs' or 'acp:node my.mjs'",
    "python3 app.py": "'stdio:python3 app.py' or 'mcp:python3 app.py' or 'acp:python3 app.py'",
    "gopher://x": "",
    "": "",
}


@pytest.mark.parametrize("target", MEANT)
def test_the_name_of_an_app_that_is_none_is_answered_with_what_may_be_meant(target: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({}, apps=(target,))
    assert MEANT[target] == "".join(str(refused.value).partition(" Did you mean ")[2:])[:-1]


def test_no_time_at_all_is_a_floor_and_no_limit() -> None:
    assert TABLE["min_human_latency"].parse("0", "s") == 0.0
    with pytest.raises(ValueError, match="it must be more than 0"):
        TABLE["park_timeout"].parse("0", "s")


def test_a_variable_that_is_called_as_an_option_is_named_with_what_is_meant() -> None:
    names = ["ABP_HEADFUL", "ABP_APP", "ABP_ALLOW", "ABP_TIMEOUT", "ABP_ROOT", "ABP_SOMETHING"]
    assert list(misspelt(names)) == [
        ("ABP_HEADFUL", "ABP_HEADLESS"),
        ("ABP_APP", "--app"),
        ("ABP_ALLOW", "--allow"),
        ("ABP_TIMEOUT", "ABP_QUESTION_TIMEOUT"),
        ("ABP_ROOT", "ABP_ROOTS"),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "--pgae", "link"], "--pgae is no option (is --page meant?)"),
        (["serve", "--confi", "all"], "--confi is no option (is --confirm meant?)"),
        (["serve", "--samplign", "x"], "--samplign is no option (is --sampling meant?)"),
        (["serve", "more"], "'more' is one word too many"),
        (["matrix", "--zzz"], "--zzz is no option"),
        (["acp", "--confrm=all", "--", "true", "--yes"], "--confrm is no option (is --confirm"),
        (["acp", "--app", "demo"], "the agent's command is missing, as in: abp-bridge acp"),
    ],
)
def test_a_command_line_that_means_nothing_is_one_line_with_what_would(
    words: list[str], said: str
) -> None:
    ended = run(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"abp-bridge: {said}")
    assert ended.stderr.count("\n") == 1


def test_a_misspelt_setting_is_a_warning_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABP_ANSWER", "x.json")
    asked = run("ask", "confirm", "Go on?", "--on", "page", "--timeout", "1ms")
    assert asked.returncode == 1
    assert (
        "abp-bridge: WARNING abp_bridge.settings: ABP_ANSWER in the environment is no setting:"
        " is ABP_ANSWERS meant?\n"
    ) in asked.stderr


EVERY_COMMAND = (
    ["serve"],
    ["acp", "--", "true"],
    ["ask", "confirm", "Go on?", "--on", "page", "--timeout", "1ms"],
    ["demo", "--answers", "/nonexistent"],
    ["matrix"],
    ["replay", "/nonexistent"],
    ["trace", "/nonexistent"],
)


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=[words[0] for words in EVERY_COMMAND])
def test_every_command_names_a_misspelt_setting_once(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABP_HEADLES", "yes")
    said = run(*words).stderr
    assert said.count("ABP_HEADLES in the environment is no setting: is ABP_HEADLESS meant?") == 1


def test_a_misspelt_setting_whose_value_is_a_secret_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ABP_QUESTION_PASSWORD", "planted-key-5be1")
    asked = run("ask", "confirm", "Go on?", "--on", "page", "--timeout", "1ms")
    assert "ABP_QUESTIONS_PASSWORD meant?" in asked.stderr
    assert "planted" not in asked.stderr


SET: dict[str, Any] = {
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
}


def test_settings_are_said_as_the_environment_that_makes_them_again(tmp_path: Path) -> None:
    made = Settings(**SET, roots=(str(tmp_path), "/"))
    again = read_settings({**to_environment(made), "ABP_QUESTIONS_PASSWORD": "secret"})
    assert again == dataclasses.replace(made, output_dir=None)


def test_a_time_is_said_again_to_the_millisecond() -> None:
    said = {"ABP_CALL_TIMEOUT": "1234567", "ABP_PERSON_FLOOR": "0.3"}
    assert to_environment(read_settings(said)) == said


def test_a_flag_overrules_the_environment_even_one_that_is_wrong() -> None:
    assert read_settings({"ABP_PAGE": "upside down"}, page="link").page == "link"
    with pytest.raises(SettingsError, match="ABP_PAGE='upside down' cannot be used: it must be"):
        read_settings({"ABP_PAGE": "upside down"})


def test_a_path_begins_at_home_where_no_shell_has_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts give variables as they stand in their files, and no shell reads `--root=~/x`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    there = str(tmp_path / "x")
    Path(there).mkdir()
    paths = {name: row for name, row in TABLE.items() if row.path}
    made = read_settings({row.variable: "~/x" for row in paths.values()})
    assert {name: getattr(made, name) for name in paths} == {
        **dict.fromkeys(paths, there),
        "roots": (there,),
    }
    flags: dict[str, Any] = {**dict.fromkeys(paths, "~/x"), "roots": ["~/x", "/"]}
    assert read_settings({}, **flags) == dataclasses.replace(made, roots=(there, "/"))
    assert read_settings({"ABP_TOOL_CACHE": "off"}).tool_cache == "off"


def test_what_is_written_to_a_file_at_home_makes_no_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("ABP_LOG_FILE", "~/log")
    assert run("ask", "confirm", "Go on?", "--timeout", "1ms", cwd=tmp_path).returncode == 1
    assert [each.name for each in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home/log").exists()


def test_every_row_can_be_given_and_says_what_it_is_for() -> None:
    for name, row in TABLE.items():
        assert row.help, name
        assert row.flag or row.variable, name
        assert bool(row.metavar) or row.const is not None or bool(row.choices) or not row.flag, name


@pytest.mark.parametrize("command", ["serve", "acp", "ask", "demo", "matrix", "replay", "trace"])
def test_a_command_has_the_options_that_the_table_gives_it(command: str) -> None:
    words = run(command, "--help").stdout
    for row in TABLE.values():
        if row.flag and row.flag != "--answers":  # the demo has one of its own
            assert (f"{row.flag} " in words or f"{row.flag}\n" in words) == (
                command in row.commands
            ), row.flag


def test_a_variable_that_is_empty_is_as_none() -> None:
    """Hosts give a server one so that their person has not filled in."""
    names = [row.variable for row in TABLE.values() if row.variable]
    assert read_settings(dict.fromkeys(names, "")) == Settings()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"ABP_BROWSER_URL": "http://127.0.0.1:9222"},
            ["login", "not-an-address", "--profile", "x"],
        ),
        ({"ABP_SAMPLING": "none"}, ["login", "not-an-address", "--profile", "x"]),
        ({"ABP_SAMPLING": "none", "ABP_ANSWERS": "/nowhere"}, ["check", "not-an-app"]),
    ],
)
def test_what_a_command_has_no_option_for_does_not_stop_it(
    variables: dict[str, str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ended = run(*words)
    assert "not-an-a" in ended.stderr, ended.stderr
    assert not any(name in ended.stderr for name in ("--browser-url", "--sampling", "/nowhere"))


def test_a_surface_that_is_not_set_up_is_named_with_the_commands_that_set_it_up() -> None:
    with pytest.raises(SettingsError, match=r"give --ask-via-model \(of serve, acp\) too"):
        read_settings({}, ask_on=("model-relay",))


FLAGS = [name for name in REMOVED if name.startswith("--")]
VARIABLES = [name for name in REMOVED if name.startswith("ABP_")]
MODELS = [name for name in REMOVED if name.startswith("cli:")]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("words", [["serve"], ["mcp"], ["try", "demo"], []])
def test_removed_flag_is_named_with_what_replaces_it(words: list[str], flag: str) -> None:
    ended = run(*words, f"{flag}=x", "--", "true")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"abp-bridge: {flag} was removed.\n{REMOVED[flag]}.\n"
    assert flag not in {row.flag for row in TABLE.values()}


def test_removed_flag_of_another_program_passes() -> None:
    ended = run("acp", "--", "true", *FLAGS)
    assert "was removed" not in ended.stderr


@pytest.mark.parametrize("variable", VARIABLES)
def test_removed_variable_is_named_with_what_replaces_it(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match=f"{variable} was removed"):
        read_settings({variable: "x"})
    assert read_settings({variable: ""}) == Settings()
    assert list(misspelt([variable])) == []
    monkeypatch.setenv(variable, "x")
    ended = run("serve")
    assert ended.returncode == 2
    assert ended.stderr == f"abp-bridge: {variable} was removed.\n{REMOVED[variable]}.\n"


@pytest.mark.parametrize("model", MODELS)
def test_removed_model_is_named_with_what_replaces_it(model: str) -> None:
    said = f"abp-bridge: {model} was removed.\n{REMOVED[model]}.\n"
    ended = run("serve", "--sampling", model)
    assert (ended.returncode, ended.stderr) == (2, said)
