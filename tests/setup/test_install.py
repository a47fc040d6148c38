"""`abp-bridge install` and `uninstall` on a file of each host.

The file afterwards, a second run that changes nothing, and the way back to the byte.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.terminal import ENTER, Screen

from abp_bridge.cli import install
from abp_bridge.cli.host_file import Proposal, carry_out
from abp_bridge.cli.main import main
from abp_bridge.core.json_value import JsonObject
from abp_bridge.setup.entries import (
    Launch,
    Machine,
    Server,
    list_servers,
    locate,
    own_arguments,
    read_value,
    wrapped_command,
)
from abp_bridge.setup.file import BACKUP, SetupError, read_file, write_file
from abp_bridge.setup.hosts import HOSTS

OWN_COMMAND = install.own_command
GOLDEN = Path(__file__).with_name("golden")
OURS = ["/opt/abp/bin/abp-bridge"]
# Claude Code's own command, which writes its file.
CLAUDE = """#!/bin/sh
echo "$@" >> "$HOME/claude.log"
case "$2" in
add-json) printf '{"mcpServers": {"%s": %s}}' "$5" "$6" > "$HOME/.claude.json" ;;
remove) printf '{"mcpServers": {}}' > "$HOME/.claude.json" ;;
esac
"""

Bridge = Callable[..., tuple[int, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, which is a project too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(install, "own_command", lambda: OURS)
    return tmp_path


@pytest.fixture
def bridge(home: Path, capsys: pytest.CaptureFixture[str]) -> Bridge:
    """Run a command: its exit code, and its stdout and stderr."""

    def run(*words: str) -> tuple[int, str]:
        code = main(words)
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


class Claude:
    """Claude Code's own command, without a process.

    Attributes:
        folder: The folder whose servers it keeps under `local`.
        refuses: It has no room for an entry that contains this.
        breaks: What it does wrong with one verb.
    """

    def __init__(self, home: Path) -> None:
        self._file = home / ".claude.json"
        self.folder = str(home)
        self.refuses: str | None = None
        self.breaks = ""

    def run(self, command: Sequence[str], **how: Any) -> subprocess.CompletedProcess[str]:
        _, _, verb, _, scope, name, *entry = command
        try:
            value = json.loads(self._file.read_text())
        except ValueError:
            value = {}
        place = value if scope == "user" else value["projects"][self.folder]
        servers = place.setdefault("mcpServers", {})
        if verb == "remove":
            del servers[name]
        elif self.breaks == "never ends":
            raise subprocess.TimeoutExpired(command, 60)
        elif self.refuses is not None and self.refuses in entry[0]:
            return subprocess.CompletedProcess(command, 3, "", "no room for t-123")
        else:
            assert name not in servers
            servers[name] = json.loads(entry[0])
        is_broken = (verb, self.breaks) == ("remove", "writes no JSON")
        self._file.write_text("{" if is_broken else json.dumps(value))
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def claude(home: Path, monkeypatch: pytest.MonkeyPatch) -> Claude:
    install_claude(home, "", monkeypatch)
    made = Claude(home)
    monkeypatch.setattr("abp_bridge.cli.host_file.subprocess.run", made.run)
    return made


def install_claude(home: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = write(home / "bin/claude", text)
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def file_of(host: str) -> Path:
    row = HOSTS[host]
    found = locate(row, "user" if row.user else "project", Machine())
    assert found is not None
    return found


def servers_of(host: str) -> list[Server]:
    return list_servers(HOSTS[host], read_value(HOSTS[host], file_of(host)))


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def golden(host: str, name: str) -> bytes:
    (found,) = GOLDEN.glob(f"{host}.{name}.*")
    return found.read_bytes()


WRITTEN = [host for host, row in HOSTS.items() if not row.add]


@pytest.mark.parametrize("host", WRITTEN)
def test_install_adds_only_our_entry(host: str, bridge: Bridge) -> None:
    before = golden(host, "before")
    file = write(file_of(host), before)
    code, said = bridge("install", host, "--app", "demo", "--yes")
    assert code == 0, said
    assert file.read_bytes() == golden(host, "after")
    assert file.with_name(file.name + BACKUP).read_bytes() == before
    code, said = bridge("install", host, "--app", "demo")
    assert (code, said.partition(":")[0]) == (0, "Nothing to do")
    code, said = bridge("uninstall", host, "--yes")
    assert code == 0, said
    assert file.read_bytes() == before
    assert "again what it was, to the byte" in said
    assert not file.with_name(file.name + BACKUP).exists()
    assert bridge("uninstall", host)[0] == 0


@pytest.mark.parametrize("host", WRITTEN)
def test_uninstall_removes_a_file_that_install_made(host: str, bridge: Bridge, home: Path) -> None:
    file = file_of(host)
    assert bridge("install", host, "--yes")[0] == 0
    assert file.exists()
    code, said = bridge("install", host, "--app", "demo", "--yes")
    assert code == 0, said
    code, said = bridge("uninstall", host, "--yes")
    assert code == 0, said
    assert [*home.iterdir()] == []


def test_relative_file_in_a_command_is_reported(bridge: Bridge, home: Path) -> None:
    (home / "app.py").touch()
    server = ("install", "codex", "--name", "x", "--", "python3")
    assert f"write {home}/app.py in its place" in bridge(*server, "app.py")[1]
    assert "in its place" not in bridge(*server, f"{home}/app.py")[1]


def test_folder_that_cannot_be_written_is_reported_and_not_left(
    bridge: Bridge, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    code, said = bridge("install", "goose", "--yes")
    assert (code, [*home.iterdir()]) == (2, [])
    assert "config.yaml cannot be written: No space left on device" in said
    assert "--print shows what to put in by hand" in said


# --- what a person has in the file ----------------------------------------------------------------


def test_install_keeps_what_the_user_changed_in_our_entry(bridge: Bridge) -> None:
    file = file_of("codex")
    assert bridge("install", "codex", "--yes")[0] == 0
    text = file.read_text().replace("required = true", "required = false # slow")
    text = text.replace("tool_timeout_sec = 900", "tool_timeout_sec = 60\ncwd = '/work'")
    file.write_text(text + "\n[mcp_servers.docs]\ncommand = 'x'\n")
    assert bridge("install", "codex")[1].startswith("Nothing to do")
    code, said = bridge("install", "codex", "--app", "demo", "--env", "ABP_PAGE=open", "--yes")
    assert code == 0
    changed = [line for line in said.splitlines() if line.startswith(("+", "-"))][2:]
    changed = [line for line in changed if not line.startswith("- ")]
    assert changed == [
        '-args = ["serve", "--page", "open"]',
        '-env = { ABP_HOST_PATIENCE = "900000" }',
        '+args = ["serve", "--app", "demo"]',
        '+env = { ABP_HOST_PATIENCE = "900000", ABP_PAGE = "open" }',
    ]
    assert bridge("uninstall", "codex", "--yes")[0] == 0
    assert file.read_text() == "\n[mcp_servers.docs]\ncommand = 'x'\n"


@pytest.mark.parametrize(
    ("there", "given", "after"),
    [
        ("--page --tty T --app demo", "ABP_PAGE=open", "--tty T --app demo"),
        ("--page OPEN --tty T", "ABP_PAGE=off", "--tty T"),
        ("--page=open --tty T", "ABP_PAGE=off", "--tty T"),
        ("--app demo --page", "ABP_PAGE=off", "--app demo"),
        ("--notify --app demo", "ABP_NOTIFY=0", "--app demo"),
        ("--timeout 5 --timeout=6 --page", "ABP_QUESTION_TIMEOUT=9000", "--page"),
    ],
)
def test_env_option_replaces_the_same_option_in_an_entry(
    there: str, given: str, after: str, bridge: Bridge
) -> None:
    words = json.dumps(["serve", *there.split()])
    write(file_of("codex"), f'[mcp_servers.abp]\ncommand = "{OURS[0]}"\nargs = {words}\n')
    assert bridge("install", "codex", "--env", given, "--yes")[0] == 0
    (server,) = servers_of("codex")
    assert server.own == ("serve", *after.split())
    name, _, value = given.partition("=")
    assert server.launch is not None
    assert server.launch.env[name] == value


def test_uninstall_keeps_what_was_changed_since(bridge: Bridge) -> None:
    file = write(file_of("zed"), '{\n  "theme": "One",\n}\n')
    bridge("install", "zed", "--yes")
    file.write_text(file.read_text().replace('"One"', '"Two"'))
    code, said = bridge("uninstall", "zed", "--yes")
    assert (code, "may differ" in said) == (0, False)
    assert file.read_text() == '{\n  "theme": "Two",\n}\n'
    file = write(file_of("qwen"), '{"theme": "x"}')
    bridge("install", "qwen", "--yes")
    file.write_text(json.dumps(json.loads(file.read_text()), indent=2))
    code, said = bridge("uninstall", "qwen", "--yes")
    assert (code, "blanks and line ends may differ" in said) == (0, True)
    assert json.loads(file.read_text()) == {"theme": "x"}


LIMIT = 2_000  # values in a file, as these tests set it
REFUSED: dict[str, tuple[str, str | bytes, str]] = {
    "a name that is taken": (
        "cursor",
        '{"mcpServers": {"abp": {"command": "npx", "args": ["x"]}}}',
        'has a server "abp" already that is not abp-bridge',
    ),
    "no server": ("cursor", '{"mcpServers": {"abp": 5}}', 'something at "abp" that is no server'),
    "not understood": ("cursor", '{\n"a": 1,\n}', "line 2: a comma before a closing bracket"),
    "twice": ("copilot", '{"mcpServers": {}, "mcpServers": {}}', '"mcpServers" twice'),
    "no object at all": ("cursor", "[1]", "the file is no object. Mend that first"),
    "too large": ("cursor", b'{"a": "' + b"x" * 2**23 + b'"}', "more than 8 MiB: it is left alone"),
    "no text": ("gemini", b"\xff\xfe{}", "line 1: this is no UTF-8"),
    "dense JSON": (
        "cursor",
        f"[{'[],' * LIMIT}[]]",
        f"more than {LIMIT:,} values. Put our entry in",
    ),
    "long YAML": ("goose", "#" * 2**20 + "\n", "more than 1,048,576 characters. Put our entry in"),
}
# Files that say nothing certain about what is to be taken out.
AMBIGUOUS = {
    "twice": REFUSED["twice"],
    "ours twice": (
        "cursor",
        '{"mcpServers": {"abp": {"command": "abp-bridge"}, "abp": {"command": "x"}}}',
        '"mcpServers" has "abp" twice: leave one of them',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_file_that_cannot_take_an_entry_is_unchanged(
    case: str, bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abp_bridge.setup.formats.jsonc.MAX_VALUES", LIMIT)
    host, content, reason = REFUSED[case]
    file = write(file_of(host), content)
    before = file.read_bytes()
    code, said = bridge("install", host, "--yes")
    assert (code, reason in said, str(file) in said, said.count("\n")) == (2, True, True, 1), said
    code, said = bridge("doctor", "--files", host)
    assert (code, str(file) in said, "Traceback" in said) == (1, True, False)
    code, said = bridge("install", "--list")
    assert (code, str(file) in said) == (0, True)
    assert file.read_bytes() == before
    assert len(list(file.parent.iterdir())) == 1


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_uninstall_from_an_ambiguous_file_is_refused(case: str, bridge: Bridge) -> None:
    host, content, reason = AMBIGUOUS[case]
    file = write(file_of(host), content)
    before = file.read_bytes()
    code, said = bridge("uninstall", host, "--yes")
    assert (code, reason in said, said.count("\n")) == (2, True, 1), said
    assert "Mend that first" in said
    assert file.read_bytes() == before


def test_print_works_for_a_file_that_cannot_be_edited(bridge: Bridge) -> None:
    write(file_of("goose"), REFUSED["long YAML"][1])
    code, said = bridge("install", "goose", "--print")
    assert (code, said.splitlines()[:2]) == (0, ["extensions:", "  abp:"])
    assert bridge("install", "goose", "--wrap", "x", "--print")[0] == 2


def test_another_server_is_not_uninstalled(bridge: Bridge) -> None:
    file = write(file_of("cursor"), '{"mcpServers": {"abp": {"command": "npx"}}}')
    code, said = bridge("uninstall", "cursor", "--yes")
    assert (code, "is not abp-bridge: it stays" in said) == (2, True)
    assert "npx" in file.read_text()


def test_install_updates_our_entry_of_another_path(bridge: Bridge) -> None:
    entry = '{"command": "/old/python3", "args": ["-m", "abp_bridge", "serve"], "disabled": true}'
    file = write(file_of("kiro"), f'{{"mcpServers": {{"abp": {entry}}}}}')
    code, said = bridge("install", "kiro", "--yes")
    assert (code, '"abp" is switched off in this file' in said) == (0, True)
    found = json.loads(file.read_text())["mcpServers"]["abp"]
    assert (found["command"], found["disabled"]) == (OURS[0], True)


# --- the file on disk -----------------------------------------------------------------------------


def test_install_follows_a_link_and_keeps_the_mode(bridge: Bridge, home: Path) -> None:
    kept = write(home / "dotfiles/config.toml", 'model = "x"\n')
    kept.chmod(0o640)
    link = file_of("codex")
    link.parent.mkdir()
    link.symlink_to(kept)
    assert bridge("install", "codex", "--yes")[0] == 0
    assert link.is_symlink()
    backup = kept.with_name(kept.name + BACKUP)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (kept, backup)] == [0o640, 0o640]
    assert "mcp_servers.abp" in kept.read_text()
    assert bridge("uninstall", "codex", "--yes")[0] == 0
    assert kept.read_text() == 'model = "x"\n'
    assert sorted(each.name for each in kept.parent.iterdir()) == ["config.toml"]


def test_new_file_is_private(bridge: Bridge) -> None:
    bridge("install", "codex", "--yes")
    assert stat.S_IMODE(file_of("codex").stat().st_mode) == 0o600


def test_file_that_changes_meanwhile_is_not_overwritten(home: Path) -> None:
    file = write(home / "a.json", "{}")
    found = read_file(file)
    way_back = write(found.backup, "before we came")
    file.write_text('{"theirs": 1}')
    with pytest.raises(SetupError, match="has changed meanwhile: run this again"):
        write_file(found, b"ours", backup=True)
    assert way_back.read_text() == "before we came"
    way_back.unlink()
    with pytest.raises(SetupError, match="has changed meanwhile"):
        write_file(found, None, backup=False)
    assert file.read_text() == '{"theirs": 1}'
    new = read_file(home / "b.json")
    write(new.path, "theirs")
    with pytest.raises(SetupError, match="has changed meanwhile"):
        write_file(new, b"ours", backup=True)
    assert sorted(each.name for each in home.iterdir()) == ["a.json", "b.json"]


def test_file_that_cannot_be_read_or_written_is_reported(bridge: Bridge, home: Path) -> None:
    (home / "folder").mkdir()
    os.mkfifo(home / "pipe")
    (home / "loop").symlink_to(home / "loop")
    write(home / "file", "")
    for name, reason in {
        "folder": "folder cannot be read: Is a directory",
        "pipe": "pipe cannot be read: it is a device or a pipe",
        "loop": "loop is a link that leads back to itself. Mend that first",
        "file/a.json": "cannot be",
    }.items():
        code, said = bridge("install", "cursor", "--file", name, "--yes")
        assert (code, reason in said) == (2, True), said


@pytest.mark.process
def test_install_removes_what_a_killed_one_left(bridge: Bridge, home: Path) -> None:
    """A part of the file, which may have tokens, lies beside it until then."""
    file = write(file_of("cursor"), '{"token": "theirs"}')
    kill = "import os; os.replace = lambda *_: os.kill(os.getpid(), 9)"
    code = f"{kill}; from abp_bridge.cli.main import main; main(['install', 'cursor', '--yes'])"
    subprocess.run([sys.executable, "-c", code], check=False, stdout=-3)
    assert len(list(file.parent.iterdir())) == 2
    theirs = write(file.with_name(".abp-bridge-notes-of-theirs"), "")
    assert bridge("install", "cursor", "--yes")[0] == 0
    assert {*file.parent.iterdir()} == {file, file.with_name(file.name + BACKUP), theirs}


@pytest.mark.parametrize("home_is", ["", "here"])
def test_without_a_home_nothing_is_written(
    home_is: str, bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", home_is)
    code, said = bridge("install", "codex", "--yes")
    assert (code, "set HOME to its whole path" in said) == (2, True)


# --- consent, and how it is told ------------------------------------------------------------------


def test_install_without_a_terminal_only_shows_the_change(bridge: Bridge) -> None:
    code, said = bridge("install", "codex")
    assert (code, file_of("codex").exists()) == (1, False)
    assert '+args = ["serve", "--page", "open"]' in said
    assert "Nothing was changed: this is no terminal to ask at. --yes does it without" in said
    assert "There is no codex on the PATH here." in said


def test_diff_shows_no_lines_around_the_change(bridge: Bridge) -> None:
    write(file_of("goose"), "extensions:\n  a:\n    envs:\n      KEY: sk-123\nOTHER: sk-456\n")
    assert "sk-" not in bridge("install", "goose")[1]


@pytest.mark.process
@pytest.mark.terminal
def test_install_on_a_terminal_asks_the_user(home: Path) -> None:
    code = (
        "from abp_bridge.cli.main import main; words = ['install', 'codex'];"
        "raise SystemExit(10 * main(words) + main(words))"
    )
    with Screen([sys.executable, "-c", code], env={**os.environ}) as screen:
        screen.until("Do this? [y/N]")
        screen.press("n", ENTER)
        screen.until("Nothing was changed.")
        screen.until("Do this? [y/N]")
        assert not file_of("codex").exists()
        screen.press("y", ENTER)
        assert screen.end() == 10
    assert file_of("codex").exists()


def test_programs_get_an_object(bridge: Bridge) -> None:
    code, said = bridge("install", "copilot", "--json", "--yes")
    told = json.loads(said)
    assert (code, told["status"], told["host"]) == (0, "done", "copilot")
    assert told["entry"]["timeout"] == 900_000
    assert told["verify"] == "copilot mcp get abp"
    assert json.loads(bridge("install", "copilot", "--json")[1])["status"] == "nothing to do"
    shown = json.loads(bridge("uninstall", "copilot", "--json")[1])
    assert (shown["status"], shown["entry"]) == ("shown", None)
    assert any("-" in line for line in shown["diff"])


def test_terminal_codes_in_a_file_are_escaped(bridge: Bridge, home: Path) -> None:
    entry = '"abp\\u001b[2J\\nforged": {"command": "/gone/abp-bridge"}'
    write(home / ".mcp.json", f'{{"mcpServers": {{{entry}}}, "servers": {{{entry}}}}}')
    write(home / ".vscode/mcp.json", '{\n"servers": {\n"a": {} // \x1b[2J\n}}')
    said = [
        bridge("install", "--list")[1],
        bridge("install", "mcp-json", "--wrap", "abq")[1],
        bridge("doctor", "--files", "claude")[1],
        bridge("install", "vscode", "--project")[1],
    ]
    assert [each for each in said if "\x1b" in each or "\nforged" in each] == []
    assert "\\u001b[2J" in said[3]


def test_all_hosts_are_listed(bridge: Bridge) -> None:
    bridge("install", "kiro", "--yes")
    write(file_of("cursor"), "{,}")
    code, said = bridge("install", "--list")
    rows = {line.split()[0]: line for line in said.splitlines()}
    assert (code, list(rows)) == (0, list(HOSTS))
    assert rows["kiro"].endswith("(has abp)")
    assert rows["codex"].endswith("(not there yet; no codex on the PATH)")
    assert rows["claude-desktop"].endswith("(not there yet)"), "it has no program to look for"
    assert "is not understood" in rows["cursor"]
    told = [json.loads(line) for line in bridge("install", "--list", "--json")[1].splitlines()]
    assert [each["ours"] for each in told if each["host"] == "kiro"] == [["abp"]]


WRONG = {
    ("codx",): "is 'codex' meant?",
    ("Claude Code",): "is 'claude' meant?",
    ("emacs",): "there are codex, goose",
    (): "name a host: 'abp-bridge install --list' has them",
    ("codex", "--app", "htps://x"): "--app",
    ("codex", "--page", "open"): "a setting of ours is given by --env here: --env ABP_PAGE=VALUE",
    ("codex", "--ap", "demo"): "put -- before that command: abp-bridge install HOST --name NAME"
    " [OPTION]... -- SERVER [ARGUMENT]....",
    ("codex", "--env", "ABP_PAEG=open"): "ABP_PAEG is no setting: is ABP_PAGE meant?",
    ("codex", "--env", "ABP_ACP_DRAFT=2"): "ABP_ACP_DRAFT was removed",
    ("codex", "--env", "ABP_SAMPLING=cli:goose"): "--env cli:goose was removed",
    ("codex", "--env", "ABP_PAGE=opne"): "ABP_PAGE='opne' cannot be used",
    ("codex", "--", "npx", "x"): "--name says what the server is called there",
    ("codex", "--wrap", "docs", "--name", "x", "--", "npx"): "goes with neither",
    ("codex", "--name", "x", "--", "pr\udcffog"): "is no UTF-8",
    ("codex", "--name", "a.b"): "must be letters, digits, - and _",
    ("codex", "--agent", "goose acp"): "Codex starts no agents from a file",
    ("zed", "--agent", ""): "--agent wants a command",
    ("zed", "--agent", "'x"): "No closing quotation",
    ("goose", "--project"): "Goose has no file for a project",
}


@pytest.mark.parametrize("words", WRONG)
def test_error_of_install_says_what_to_do(words: tuple[str, ...], bridge: Bridge) -> None:
    code, said = bridge("install", *words)
    assert (code, WRONG[words] in said) == (2, True), said


# --- servers and agents behind us -----------------------------------------------------------------

MONGODB = {
    "cursor": '{"mcpServers": {"mongodb": {"command": "npx", "args": ["-y", "m"]}}}',
    "opencode": '{"mcp": {"mongodb": {"type": "local", "command": ["npx", "-y", "m"]},},}',
    "codex": '[mcp_servers.mongodb]\ncommand = "npx" # mine\nargs = [\n  "-y", "m",\n]\n',
    "goose": "extensions:\n  mongodb:\n    cmd: npx\n    args:\n    - -y\n    - m\n",
    "cline": '{"mcpServers": {"mongodb": {"transport": {"command": "npx", "args": ["-y", "m"]}}}}',
}


@pytest.mark.parametrize("host", MONGODB)
def test_wrap_and_unwrap_of_a_server(host: str, bridge: Bridge) -> None:
    file = write(file_of(host), MONGODB[host])
    code, said = bridge("install", host, "--wrap", "mongodb", "--yes")
    assert code == 0, said
    (server,) = servers_of(host)
    assert server.launch is not None
    assert server.launch.words[:2] == (*OURS, "mcp")
    assert wrapped_command(server.launch.words) == ("npx", "-y", "m")
    assert bridge("install", host, "--wrap", "mongodb")[1].startswith("Nothing to do")
    code, said = bridge("install", host, "--name", "mongodb", "--yes")
    assert (code, "is a server behind abp-bridge, which would go" in said) == (2, True)
    code, said = bridge("uninstall", host)
    assert (code, f"abp-bridge uninstall {host} --wrap mongodb\n" in said) == (0, True), said
    code, said = bridge("uninstall", host, "--wrap", "mongodb", "--yes")
    assert code == 0, said
    assert file.read_text() == MONGODB[host]
    told = said[said.index("Done: ") :]
    assert '"mongodb" does not go through abp-bridge any more, in ' in told
    for words in ("abp-bridge doctor", *HOSTS[host].traps):  # which are about us
        assert words not in told
    assert "--wrap" not in bridge("uninstall", host)[1]
    again = bridge("uninstall", host, "--wrap", "mongodb")[1]
    assert again.startswith('Nothing to do: "mongodb" does not go through abp-bridge in ')


def test_server_that_the_user_put_behind_us_is_updated_and_unwrapped(bridge: Bridge) -> None:
    words = '"command": "/gone/abp-bridge", "args": ["mcp", "--timeout", "9", "--", "npx", "-y"]'
    content = f'{{"mcpServers": {{"db": {{{words}}}}}}}'
    file = write(file_of("cursor"), content)
    backup = file.with_name(file.name + BACKUP)
    assert bridge("install", "cursor", "--wrap", "db", "--yes")[0] == 0
    assert backup.read_text() == content
    (server,) = servers_of("cursor")
    assert server.launch == Launch(OURS[0], ("mcp", "--timeout", "9", "--", "npx", "-y"))
    for is_wrapped_in_backup in (False, True):
        if is_wrapped_in_backup:
            write(backup, content)
            write(file, content)
        assert bridge("uninstall", "cursor", "--wrap", "db", "--yes")[0] == 0
        (server,) = servers_of("cursor")
        assert server.launch == Launch("npx", ("-y",))


@pytest.mark.parametrize("command", ["install", "uninstall"])
@pytest.mark.parametrize(
    ("host", "content"),
    [
        ("goose", "extensions:\n  db:\n    cmd: abp-bridge\n    args: [mcp, --, npx, -p, 8080]\n"),
        ("cursor", '{"mcpServers": {"db": {"command": "npx", "args": "one two"}}}'),
    ],
    ids=["number", "one text"],
)
def test_wrap_of_arguments_that_are_not_a_list_of_texts_is_refused(
    command: str, host: str, content: str, bridge: Bridge
) -> None:
    file = write(file_of(host), content)
    code, said = bridge(command, host, "--wrap", "db", "--yes")
    assert (code, '"db" has arguments that are no list of texts' in said) == (2, True), said
    assert file.read_text() == content


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_each_wrapped_server_can_be_restored(order: tuple[str, str], bridge: Bridge) -> None:
    server = '[mcp_servers.{}]\ncommand = "npx"\nargs = [\n  # "--readOnly",\n  "m",\n]\n'
    before = f"{server.format('a')}\n{server.format('b')}"
    file = write(file_of("codex"), before)
    backup = file.with_name(file.name + BACKUP)
    for name in ("a", "b"):
        assert bridge("install", "codex", "--wrap", name, "--yes")[0] == 0
        assert backup.read_text() == before
    both = file.read_bytes()
    assert bridge("install", "codex", "--yes")[0] == 0
    assert backup.read_text() == before
    assert bridge("uninstall", "codex", "--yes")[0] == 0
    assert (file.read_bytes(), backup.read_text()) == (both, before)
    code, said = bridge("uninstall", "codex", "--wrap", order[0], "--yes")
    assert (code, "may have added" in said) == (0, False), said
    assert server.format(order[0]) in file.read_text()
    assert backup.read_text() == before
    code, said = bridge("uninstall", "codex", "--wrap", order[1], "--yes")
    assert (code, "again what it was, to the byte" in said) == (0, True), said
    assert (file.read_text(), backup.exists()) == (before, False)


def test_a_server_at_an_address_is_not_wrapped(bridge: Bridge) -> None:
    write(
        file_of("cursor"),
        '{"mcpServers": {"far": {"url": "https://x"}, "abp": {"command": "abp-bridge"}}}',
    )
    assert '"far" has no command' in bridge("install", "cursor", "--wrap", "far")[1]
    by_uvx = '{"mcpServers": {"t": {"command": "uvx", "args": ["abp-bridge@1", "mcp", "--", "x"]}}}'
    write(file_of("kiro"), by_uvx)
    assert "goes through abp-bridge already" in bridge("install", "kiro", "--wrap", "t")[1]
    assert '"abp" is abp-bridge itself' in bridge("install", "cursor", "--wrap", "abp")[1]
    assert "is 'far' meant?" in bridge("install", "cursor", "--wrap", "fra")[1]


def test_new_server_is_installed_behind_us(bridge: Bridge) -> None:
    words = ("--name", "db", "--", "npx", "--yes", "mongodb-mcp-server", "--", "-x")
    assert bridge("install", "opencode", "--yes", *words)[0] == 0
    (server,) = servers_of("opencode")
    assert server.name == "db"
    assert server.own == ("mcp", "--timeout", "240s", *words[2:])
    code, said = bridge("uninstall", "opencode", "--name", "db", "--yes")
    assert code == 0, said


def test_agent_is_installed_behind_us(bridge: Bridge, home: Path) -> None:
    code, _ = bridge("install", "zed", "--agent", "sh -c 'x y'", "--app", "demo", "--yes")
    assert code == 0
    entry = json.loads(file_of("zed").read_text())["agent_servers"]["ABP"]
    shell = entry["args"][4]
    assert entry["args"] == ["acp", "--app", "demo", "--", shell, "-c", "x y"]
    assert (entry["type"], os.path.isabs(shell)) == ("custom", True)
    assert entry["env"]["PATH"] == os.environ["PATH"]
    assert bridge("uninstall", "zed", "--agent", "--yes")[0] == 0
    assert not file_of("zed").exists()


def test_a_host_that_starts_agents_alone_is_given_one(bridge: Bridge) -> None:
    said = bridge("install", "JetBrains", "--app", "demo", "--print")[1]
    assert json.loads(said)["agent_servers"]["ABP"]["args"] == ["serve", "--app", "demo"]
    code, said = bridge("install", "jetbrains", "--name", "db", "--print", "--", "npx", "x")
    assert (code, "JetBrains AI Assistant starts agents alone" in said) == (2, True)
    write(file_of("jetbrains"), golden("jetbrains", "before"))
    told = json.loads(bridge("install", "jetbrains", "--wrap", "Goose", "--json")[1])
    assert told["entry"]["args"] == ["acp", "--", "/usr/local/bin/goose", "acp"]


def test_a_projects_file_has_nothing_of_this_desktop(bridge: Bridge, home: Path) -> None:
    code, said = bridge("install", "cursor", "--project", "--yes")
    assert (code, "others who have the project install it too" in said) == (0, True)
    entry = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["abp"]
    assert "env" not in entry


def test_approve_option_writes_the_hosts_approval(bridge: Bridge) -> None:
    assert "approve" not in bridge("install", "codex", "--print")[1]
    assert '= "approve"' in bridge("install", "codex", "--approve", "--print")[1]
    code, said = bridge("install", "cursor", "--approve", "--yes")
    assert (code, "Cursor has no word" in said) == (0, True)


def test_setting_of_the_host_that_declines_questions_is_named(bridge: Bridge) -> None:
    write(file_of("codex"), 'approval_policy = "never"\n')
    assert 'This file has approval_policy = "never"' in bridge("install", "codex", "--yes")[1]


# --- a host that writes its file itself -----------------------------------------------------------


def test_claude_code_is_given_its_own_command(bridge: Bridge, home: Path) -> None:
    code, said = bridge("install", "claude", "--app", "demo", "--yes")
    words = "there is no claude here; install Claude Code first, or put it on the PATH"
    assert (code, words in said) == (1, True)
    assert 'claude mcp add-json --scope user abp \'{"type": "stdio"' in said
    assert bridge("install", "claude", "--print")[1].startswith("claude mcp add-json")


@pytest.mark.process
def test_claude_code_writes_its_file_with_consent(
    bridge: Bridge, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install_claude(home, CLAUDE, monkeypatch)
    code, said = bridge("install", "claude")
    assert (code, "this is no terminal to ask at" in said) == (1, True)
    assert not (home / "claude.log").exists()
    assert bridge("install", "claude", "--yes")[0] == 0
    assert bridge("install", "claude")[1].startswith("Nothing to do")
    assert bridge("install", "claude", "--app", "demo", "--yes")[0] == 0
    assert json.loads((home / ".claude.json").read_text())["mcpServers"]["abp"]["args"][1:3] == [
        "--app",
        "demo",
    ]
    assert bridge("uninstall", "claude", "--yes")[0] == 0
    did = [line.split()[1] for line in (home / "claude.log").read_text().splitlines()]
    assert did == ["add-json", "remove", "add-json", "remove"]
    program.write_text("#!/bin/sh\necho 'no room' >&2\nexit 3\n")
    code, said = bridge("install", "claude", "--yes")
    assert (code, "claude mcp add-json ended with 3: no room" in said) == (2, True)
    program.write_text("#!/bin/sh\n")
    code, said = bridge("install", "claude", "--yes")
    assert (code, 'ended well, but "abp"' in said) == (2, True)


DOCS: JsonObject = {"type": "stdio", "command": "npx", "args": ["docs"], "env": {}}


def test_wrap_of_a_server_that_claude_code_has_for_one_folder(
    bridge: Bridge, home: Path, claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`claude mcp add` without a scope writes such an entry."""
    shop = home / "shop"
    (shop / ".git").mkdir(parents=True)
    (shop / "in").mkdir()
    everywhere = {"docs": {**DOCS, "args": ["all"]}, "far": {"url": "https://x.y"}}
    before = {"mcpServers": everywhere, "projects": {str(shop): {"mcpServers": {"docs": DOCS}}}}
    file = write(home / ".claude.json", json.dumps(before))
    claude.folder = str(shop)
    monkeypatch.chdir(shop / "in")

    def there(value: Any) -> tuple[Any, Any]:
        return value["mcpServers"], value["projects"][str(shop)]["mcpServers"]["docs"]["args"]

    code, said = bridge("install", "claude", "--wrap", "docs", "--yes")
    assert code == 0
    another = 'Another "docs", for all folders, stays: it counts where there is no other'
    for words in (
        "claude mcp remove --scope local docs\n",
        "claude mcp add-json --scope local docs ",
        f"Claude Code itself writes {file} (for {shop} alone):",
        f'Done: "docs" is in {file} (for {shop} alone)\n',
        another,
    ):
        assert words in said
    again = json.loads(bridge("install", "claude", "--wrap", "docs", "--json")[1])
    assert (again["folder"], another in again["notes"][0]) == (str(shop), True)
    assert there(json.loads(file.read_text())) == (everywhere, ["mcp", "--", "npx", "docs"])
    assert "(has docs for this folder alone" in bridge("install", "--list")[1]
    assert "abp-bridge uninstall claude --wrap docs" in bridge("uninstall", "claude")[1]
    assert bridge("install", "claude", "--wrap", "doc")[1].endswith("is 'docs' meant?\n")
    assert bridge("uninstall", "claude", "--wrap", "docs", "--yes")[0] == 0
    assert there(json.loads(file.read_text())) == (everywhere, ["docs"])
    monkeypatch.chdir(home)
    assert bridge("install", "claude", "--wrap", "docs", "--yes")[0] == 0
    assert there(json.loads(file.read_text()))[0]["docs"]["args"] == ["mcp", "--", "npx", "all"]


def test_entry_that_overrides_a_projects_is_reported(bridge: Bridge, home: Path) -> None:
    (home / ".git").mkdir()
    said = f'Your own "abp" for {home} alone goes before this one there.'
    assert said not in bridge("install", "claude", "--project", "--yes")[1]
    local = {"mcpServers": {"abp": DOCS}}
    file = write(home / ".claude.json", json.dumps({"projects": {str(home): local}}))
    assert said in bridge("install", "claude", "--project")[1]
    assert said not in bridge("install", "claude", "--project", "--name", "two")[1]
    assert said not in bridge("uninstall", "claude", "--project")[1]
    file.write_text("{")
    assert bridge("uninstall", "claude", "--project", "--yes")[0] == 0


def test_print_of_claude_command_says_what_to_run_first(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (home / ".git").mkdir()
    servers = {str(home): {"mcpServers": {"docs": {**DOCS, "env": {"TOKEN": "t-123"}}}}}
    write(home / ".claude.json", json.dumps({"projects": servers}))
    assert main(["install", "claude", "--wrap", "docs", "--print"]) == 0
    said = capfd.readouterr()
    assert said.out.startswith("claude mcp add-json --scope local docs ")
    assert said.err.splitlines() == [
        f"abp-bridge: this is for {home} alone: run it in this folder",
        "abp-bridge: one of this name is there: claude mcp remove --scope local docs comes first",
        f"abp-bridge: {install.HIDDEN_HERE}",
    ]


def test_entry_that_claude_code_removes_in_another_folder_is_not_replaced(
    bridge: Bridge, home: Path, claude: Claude
) -> None:
    (home / ".git").mkdir()
    claude.folder = "/b"
    docs = {"mcpServers": {"docs": DOCS}}
    before: Any = {"projects": {str(home): docs, "/b": docs}}
    file = write(home / ".claude.json", json.dumps(before))
    code, said = bridge("install", "claude", "--wrap", "docs", "--yes")
    backup = file.with_name(file.name + BACKUP)
    assert (code, f"The file as it was before is in {backup}" in said) == (2, True)
    assert json.loads(backup.read_text()) == before
    assert json.loads(file.read_text())["projects"]["/b"]["mcpServers"] == {}


# What Claude Code does wrong -> whether the old entry is there again.
FAILURES = {
    "refuses ours": True,
    "refuses everything": False,
    "never ends": False,
    "writes no JSON": True,
}


@pytest.mark.parametrize("failure", FAILURES)
def test_entry_that_claude_code_removed_is_not_lost(
    failure: str, bridge: Bridge, home: Path, claude: Claude
) -> None:
    before = {"mcpServers": {"docs": {"command": "npx", "env": {"T": "t-123"}}}}
    file = write(home / ".claude.json", json.dumps(before))
    claude.breaks = failure
    claude.refuses = {"refuses ours": "abp-bridge", "refuses everything": ""}.get(failure)
    code, said = bridge("install", "claude", "--wrap", "docs", "--yes")
    backup = file.with_name(file.name + BACKUP)
    lost = f'"docs" is not what it was. The file as it was before is in {backup}'
    told = '"docs" is again what it was' if FAILURES[failure] else lost
    assert (code, told in said, "t-123" in said) == (2, True, False), said
    assert ("ended with 3: no room for" in said) == ("refuses" in failure)
    assert json.loads((file if FAILURES[failure] else backup).read_text()) == before


def test_claude_code_keeps_an_entry_that_changed_while_you_were_asked(
    bridge: Bridge, home: Path, claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(home / ".claude.json", '{"mcpServers": {"docs": {"command": "a"}}}')
    theirs = '{"mcpServers": {"docs": {"command": "b"}}}'

    def carry_out_late(proposal: Proposal, options: Namespace) -> int:
        write(file, theirs)
        return carry_out(proposal, options)

    monkeypatch.setattr(install, "carry_out", carry_out_late)
    code, said = bridge("install", "claude", "--wrap", "docs", "--yes")
    assert (code, "has changed meanwhile: run this again" in said) == (2, True)
    assert file.read_text() == theirs


SECRET = """{"mcpServers": {
"docs": {"command": "npx", "args": ["d", "--api-key", "k-123", "db://a:p-123@h"],
 "env": {"T": "t-123", "P": "/opt/abp"}},
"far": {"url": "https://x", "headers": {"Authorization": "Bearer b-123"}}},
"githubToken": "g-123"}"""


def test_secrets_of_a_file_are_not_shown(bridge: Bridge, home: Path) -> None:
    for file in (home / ".claude.json", file_of("cursor"), file_of("kiro")):
        write(file, SECRET if file.name != "mcp.json" else SECRET.replace("\n", ""))
    code, said = bridge("install", "claude", "--wrap", "docs")
    assert (code, "there is no claude here; install Claude Code first, or put it on" in said) == (
        1,
        True,
    )
    assert '"T": "…"' in said
    for words in (["--wrap", "docs"], []):
        for more in (["--json"], ["--yes"]):
            said += bridge("install", "cursor", *words, *more)[1]
            said += bridge("install", "kiro", *words, *more)[1]
    said += bridge("uninstall", "cursor", "--wrap", "docs", "--json")[1]
    assert [each for each in ("k-123", "p-123", "t-123", "b-123", "g-123") if each in said] == []
    assert "t-123" in file_of("cursor").read_text()
    printed = bridge("install", "kiro", "--wrap", "docs", "--print")[1]
    assert [each for each in ("k-123", "p-123", "t-123") if each in printed] == []
    shown = bridge("install", "cursor", "--name", "two", "--json")[1]
    assert json.loads(shown)["entry"]["command"] == OURS[0]


HIDDEN_IN = {
    "an address": '"far": {"url": "https://x.y/sse?api=S3CRET"}',
    "the path of an address": (
        '"far": {"command": "npx", "args": ["r", "https://x.y/s/S3CRET/mcp"]}'
    ),
    "an escape": '"far": {"env": {"T": "S3CRET\\/\\u0061"}}',
    "a command in one text": '"far": {"command": "npx x --api-key S3CRET"}',
    "ours": '"abp": {OURS "args": ["serve"], "env": {"ABP_MODEL_KEY": "S3CRET"}}',
    "an app of ours": '"abp": {OURS "args": ["serve", "--app", "mcp:x --token S3CRET"]}',
    "one behind us": '"abp": {OURS "args": ["mcp", "--", "x"], "env": {"T": "S3CRET"}}',
}


@pytest.mark.parametrize("case", HIDDEN_IN)
def test_a_secret_in_the_same_line_is_not_shown(case: str, bridge: Bridge) -> None:
    server = HIDDEN_IN[case].replace("OURS", '"command": "abp-bridge",')
    file = write(file_of("cursor"), f'{{"mcpServers": {{{server}}}}}')
    for words in (["install"], ["install", "--name", "new"], ["uninstall"]):
        for more in ([], ["--json"]):
            said = bridge(words[0], "cursor", *words[1:], *more)[1]
            assert "S3CRET" not in said
    assert "S3CRET" in file.read_text()


# --- our own command ------------------------------------------------------------------------------


def test_our_command_is_a_whole_path() -> None:
    command = OWN_COMMAND()
    assert os.path.isabs(command[0])
    assert own_arguments([*command, "serve"]) == ("serve",)


def test_a_copy_that_may_be_cleared_is_known() -> None:
    assert install.is_temporary("/home/a/.cache/uv/archive-v0/x/bin/abp-bridge", {})
    assert install.is_temporary("/c/x/abp-bridge", {"UV_CACHE_DIR": "/c"})
    assert not install.is_temporary("/home/a/.abp/bin/abp-bridge", {"UV_CACHE_DIR": ""})
