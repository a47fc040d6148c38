"""`doctor` finds each silent trap of a host's configuration, and none in what `install` writes."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from abp_bridge.cli import install
from abp_bridge.cli.doctor import judge_answer
from abp_bridge.cli.main import main
from abp_bridge.core.json_value import JsonObject
from abp_bridge.setup.doctor.finding import Verdict
from abp_bridge.setup.doctor.gather import find_hosts, gather
from abp_bridge.setup.doctor.machine import environment, patience
from abp_bridge.setup.doctor.questions import reach_all, what_can_be_asked
from abp_bridge.setup.doctor.start import judge as judge_proof
from abp_bridge.setup.doctor.traps import TRAPS, judge
from abp_bridge.setup.entries import Machine, locate
from abp_bridge.setup.hosts import HOSTS

Json = Any


NOTHING: Mapping[str, str] = {}
FILES = {
    "codex": ".codex/config.toml",
    "claude": ".claude.json",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "qwen": ".qwen/settings.json",
    "kiro": ".kiro/settings/mcp.json",
    "zed": ".config/zed/settings.json",
    "goose": ".config/goose/config.yaml",
    "copilot": ".copilot/mcp-config.json",
    "vscode": ".config/Code/User/mcp.json",
    "opencode": ".config/opencode/opencode.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "jetbrains": ".jetbrains/acp.json",
}
CODEX, CLAUDE, GEMINI, CURSOR = (FILES[host] for host in ("codex", "claude", "gemini", "cursor"))
_ENTRY = '{"command": "ABP", "args": ["serve", "--page", "open"]}'
_SERVERS = f'{{"mcpServers": {{"abp": {_ENTRY}}}}}'
_CODEX = '[mcp_servers.abp]\ncommand = "ABP"\nargs = ["serve"]\nrequired = true\n'
_GOOSE = (
    "extensions:\n  abp:\n    type: stdio\n    name: abp\n    cmd: ABP\n    args:\n    - serve\n"
    "    timeout: 900\n"
)


def _servers(**members: Json) -> str:
    entry = {"command": "ABP", "args": ["serve", "--page", "open"], **members}
    return json.dumps({"mcpServers": {"abp": entry}})


ROWS: tuple[Any, ...] = (
    ("withheld tools", "codex", _CODEX + "enabled_tools = []\n", "0 of our tools"),
    ("withheld tools", "kiro", _servers(disabledTools=["abp_answer"]), "disabledTools: 1"),
    (
        "silent agent",
        "jetbrains",
        '{"agent_servers": {"ABP": {"command": "ABP",'
        ' "args": ["acp", "--", "npx", "@zed-industries/codex-acp@0.16.0"]}}}',
        "never answers",
    ),
    *(
        ("left alone", "cursor", text, says)
        for text, says in (
            ('{"mcpServers": []}', '"mcpServers" is no object'),
            ('{"mcpServers": {"abp": 5}}', '"abp" is no object'),
            ('{"mcpServers": {"abp": {}, "abp": {}}}', '"abp" twice'),
        )
    ),
    *(
        ("text", "cursor", _servers(**members), says)
        for members, says in (
            ({"env": {"A=B": "x"}}, '"abp" has a variable whose name is empty or has a = in it.'),
            ({"args": ["serve", "\0"]}, '"abp" has an argument with a NUL character in it.'),
            ({"args": ["serve", "\ud800"]}, '"abp" has an argument with half a character in it.'),
        )
    ),
    (
        "member",
        "cursor",
        _servers(command=" ", args=["abp-bridge", "serve"]),
        '"abp" has no command that is one word',
    ),
    ("file", "codex", "[a]\nb = 1\n[a]\n", "line 3"),
    ("file", "claude", {"here/.mcp.json": '{"mcpServers": {} // mine\n}'}, ".mcp.json"),
    ("file", "gemini", '{"a": 1,}', "every command of Gemini CLI fails"),
    (
        "another file",
        "codex",
        {CODEX: _CODEX, "moved/config.toml": "model = 'a'\n"},
        "which Codex does not read",
        {"CODEX_HOME": "HOME/moved"},
    ),
    (
        "another file",
        "claude-desktop",
        {
            "roaming/Claude/claude_desktop_config.json": _SERVERS,
            "local/Packages/Claude_x1/LocalCache/Roaming/Claude/claude_desktop_config.json": "{}",
        },
        "roaming",
        {"APPDATA": "HOME/roaming", "LOCALAPPDATA": "HOME/local"},
        "win32",
    ),
    ("key", "vscode", _SERVERS, "under mcpServers"),
    ("key", "codex", _CODEX.replace("mcp_servers", "mcpServers"), "mcp_servers is"),
    ("member", "goose", _GOOSE.replace("cmd", "command"), "cmd"),
    (
        "member",
        "opencode",
        '{"mcp": {"abp": {"type": "local", "command": "ABP"}}}',
        "a list of words",
    ),
    ("type", "zed", '{"agent_servers": {"ABP": {"command": "ABP"}}}', 'type = "custom"'),
    ("switched off", "goose", _GOOSE + "    enabled: false\n", "enabled: false"),
    ("command", "cursor", _servers(command="GONE"), "GONE/abp-bridge, which is not"),
    ("command", "codex", _CODEX.replace('"ABP"', '"abp-bridge serve"'), "which go to args"),
    ("PATH", "cursor", _servers(command="abp-bridge"), "on the PATH of"),
    ("relative path", "codex", _CODEX.replace('"ABP"', '"bin/abp-bridge"'), "the folder"),
    ("~", "codex", _CODEX.replace('"ABP"', '"~/bin/abp-bridge"'), "what ~ stands for"),
    (
        "variables",
        "codex",
        _CODEX.replace('["serve"', '["serve", "--root", "${HOME}"'),
        "leaves so",
    ),
    ("variables", "claude", _servers(env={"DISPLAY": "${env:DISPLAY}"}), "DISPLAY of its env"),
    (
        "copies",
        "codex",
        _CODEX
        + _CODEX.replace("servers.abp", "servers.mine")
        + _CODEX.replace("servers.abp", "servers.his"),
        '"abp", "mine" and "his" are the same: each tool is there 3 times.',
    ),
    ("two scopes", "cursor", {CURSOR: _SERVERS, "here/.cursor/mcp.json": _SERVERS}, "one"),
    (
        "two scopes",
        "claude",
        {
            "here/.git/HEAD": "",
            CLAUDE: f'{{"mcpServers": {{"abp": {_ENTRY}}}, "projects": {{"HERE": {_SERVERS}}}}}',
        },
        "(local)",
    ),
    ("name", "codex", _CODEX.replace("servers.abp", 'servers."my abp"'), '"my abp"'),
    ("name", "claude", _SERVERS.replace('"abp"', '"workspace"'), '"workspace"'),
    ("call limit", "zed", f'{{"context_servers": {{"abp": {_ENTRY}}}}}', "after 60 s"),
    ("call limit", "goose", _GOOSE.replace("    timeout: 900\n", ""), "after 300 s"),
    ("call limit", "claude", _SERVERS, "after 30 s", {"MCP_TOOL_TIMEOUT": "30000"}),
    (
        "call limit",
        "claude",
        {CLAUDE: _SERVERS, ".claude/settings.json": '{"env": {"MCP_TOOL_TIMEOUT": "45000"}}'},
        "after 45 s",
    ),
    ("unit", "claude", _servers(timeout=900), "milliseconds"),
    ("nobody asked", "windsurf", _servers(args=["serve"]), "shows"),
    ("answers file", "cursor", _servers(env={"ABP_ANSWERS": "a"}), "answers"),
    ("settings", "cursor", _servers(env={"ABP_PAEG": "1"}), "ABP_PAGE"),
    (
        "removed setting",
        "cursor",
        _servers(env={"ABP_SAMPLING": "cli:goose"}),
        '"abp" sets ABP_SAMPLING=cli:goose, which was removed: Use the agent over ACP',
    ),
    ("uvx", "codex", _CODEX.replace('"ABP"', '"uvx"').replace('["', '["abp-bridge", "'), "uvx"),
    ("misspelt key", "codex", _CODEX + "tool_timeout = 5\n", "tool_timeout_sec meant"),
    ("wrong value", "codex", _CODEX.replace("true", '"yes"'), "true or false"),
    ("wrong value", "codex", _CODEX + "url = 'http://x'\n", "command and url"),
    (
        "wrong value",
        "codex",
        "approval_policy = { granular = { rules = true } }\n" + _CODEX,
        "lacks sandbox_approval, mcp_elicitations",
    ),
    ("never asks", "codex", 'approval_policy = "never"\n' + _CODEX, "declines every"),
    (
        "never asks",
        "codex",
        'profile = "x"\n[profiles.x]\napproval_policy = "never"\n' + _CODEX,
        "(profile x)",
    ),
    (
        "elicitation mode",
        "fast-agent",
        {
            "here/fastagent.config.yaml": "mcp:\n  servers:\n    abp:\n      command: ABP\n"
            "      args: [serve]\n      elicitation:\n        mode: auto-cancel\n"
        },
        "auto-cancel",
    ),
    (
        "granular policy",
        "codex",
        "approval_policy = { granular = { rules = true, sandbox_approval = true,"
        " mcp_elicitations = false } }\n" + _CODEX,
        "mcp_elicitations = false",
    ),
    ("untrusted project", "codex", {"here/.codex/config.toml": _CODEX}, "does not trust"),
    ("not required", "codex", _CODEX.replace("required = true", ""), "waits a second"),
    ("display", "codex", _CODEX, "no page opens", {"DISPLAY": ":1"}),
    ("approval", "claude", {"here/.mcp.json": _SERVERS}, "waits for your approval"),
    (
        "rejected",
        "claude",
        {
            "here/.mcp.json": _SERVERS,
            "here/.claude/settings.local.json": '{"disabledMcpjsonServers": ["abp"]}',
        },
        "disabledMcpjsonServers",
    ),
    (
        "disabled here",
        "claude",
        {
            "here/.git/HEAD": "",
            CLAUDE: f'{{"mcpServers": {{"abp": {_ENTRY}}},'
            ' "projects": {"HERE": {"disabledMcpServers": ["abp"]}}}',
        },
        "disabledMcpServers",
    ),
    (
        "disabled here",
        "gemini",
        {
            GEMINI: _SERVERS,
            ".gemini/mcp-server-enablement.json": '{"abp": {"enabled": false}}',
            ".gemini/trustedFolders.json": '{"HERE": "TRUST_FOLDER"}',
        },
        "mcp-server-enablement.json",
    ),
    ("settings.json", "claude", {".claude/settings.json": _SERVERS}, "reads no servers there"),
    ("folder not trusted", "gemini", _SERVERS, "whether to trust"),
    (
        "folder distrusted",
        "gemini",
        {
            GEMINI: _SERVERS,
            ".gemini/trustedFolders.json": '{"HOME": "TRUST_FOLDER", "HERE": "DO_NOT_TRUST"}',
        },
        "told not to trust",
    ),
    (
        "allowed servers",
        "gemini",
        _SERVERS[:-1] + ', "mcp": {"allowed": ["other"]}}',
        "no mcp.allowed",
    ),
)


class Planted(NamedTuple):
    """A trap in the files of a user's folder; a text is the content of the host's own file.

    `ABP` in them is a program of ours, `GONE` one that is not there, `HERE` the project's folder.
    """

    trap: str
    host: str
    files: str | Mapping[str, str]
    says: str
    environ: Mapping[str, str] = NOTHING
    platform: str = "linux"


PLANTED = [Planted(*row) for row in ROWS]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's folder with a program of ours, and a project in it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "here").mkdir()
    program = tmp_path / "bin/abp-bridge"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return tmp_path


def machine(home: Path, environ: Mapping[str, str] = NOTHING, platform: str = "linux") -> Machine:
    given = {name: value.replace("HOME", str(home)) for name, value in environ.items()}
    path = {"PATH": f"{home}/bin:/usr/bin:/bin"}
    return Machine({**path, **given}, home, home / "here", platform)


def plant(home: Path, files: Mapping[str, str]) -> None:
    places = {"HERE": "/here", "ABP": "/bin/abp-bridge", "GONE": "/GONE/abp-bridge", "HOME": ""}
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        filled = text.replace(": ABP\n", f": {home}/bin/abp-bridge\n")
        for word, place in places.items():
            filled = filled.replace(f'"{word}"', f'"{home}{place}"')
        path.write_text(filled)


@pytest.mark.parametrize("row", PLANTED, ids=lambda row: f"{row.trap}-{row.host}")
def test_planted_trap_is_found(row: Planted, home: Path) -> None:
    plant(home, {FILES[row.host]: row.files} if isinstance(row.files, str) else row.files)
    found = judge(gather(HOSTS[row.host], machine(home, row.environ, row.platform)))
    said = {each.check: each for each in found if each.verdict is not Verdict.NOTE}
    assert row.trap in said, said
    assert row.says in said[row.trap].says
    assert said[row.trap].cure


def test_each_trap_that_can_be_seen_is_planted() -> None:
    assert {each.trap for each in PLANTED} == {each.name for each in TRAPS if each.find is not None}


# What a person has done beside installing: nothing of that is ours to write.
_TRUSTED = {".gemini/trustedFolders.json": '{"HERE": "TRUST_FOLDER"}'}


@pytest.mark.parametrize(
    ("name", "project"),
    [
        (name, project)
        for name, host in HOSTS.items()
        for project in (False, True)
        if (host.project if project else host.user)
    ],
)
def test_what_install_writes_is_no_trap(
    name: str, project: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, here = HOSTS[name], machine(home, {"DISPLAY": ":7"})
    path = locate(host, "project" if project else "user", here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.chdir(home / "here")
    monkeypatch.setattr(install, "own_command", lambda: [str(home / "bin/abp-bridge")])
    words = ["--agent", "claude-agent-acp"] if not host.layouts else []
    words += ["--project"] if project else []
    assert main(["install", name, *words, "--file", str(path), "--yes"]) == 0
    plant(home, _TRUSTED)
    if project:  # as its user does next
        trusted = f'[projects."{home}/here"]\ntrust_level = "trusted"\n'
        enabled = '{"enabledMcpjsonServers": ["abp"]}'
        plant(home, {CODEX: trusted, "here/.claude/settings.local.json": enabled})
    facts = gather(host, here)
    assert len(facts.entries) == 1
    assert [each for each in judge(facts) if each.verdict is not Verdict.NOTE] == []
    assert not any(each.verdict.fails for each in what_can_be_asked(facts))


def test_doctor_shows_no_secret_of_a_file(home: Path) -> None:
    secret = "env = { TOKEN = 's3cret', N = 1 }\nargs = ['serve', '--x', 's3cret']\n"
    plant(home, {CODEX: _CODEX.replace('args = ["serve"]\n', "") + secret})
    told = judge(gather(HOSTS["codex"], machine(home)))
    told.append(judge_proof(HOSTS["claude"], "abp", "c", 0, "abp: x s3cret - ✓ Connected"))
    assert "s3cret" not in str(told)
    assert [each.check for each in told if each.verdict.fails] == ["wrong value"]


@pytest.mark.parametrize(
    ("host", "file", "word"),
    [
        ("claude", CLAUDE, "${Key_2:-none}"),
        ("gemini", GEMINI, "$KEY_2"),
        ("opencode", ".config/opencode/opencode.json", "{env:key_2}"),
    ],
)
def test_a_variable_that_the_host_knows_is_no_trap(
    host: str, file: str, word: str, home: Path
) -> None:
    words = ["serve", "--page", "open", "--app", word]
    entry: Json = {"command": "ABP", "args": words, "timeout": 900_000, "env": {"A": word}}
    servers: Json = {"mcpServers": {"abp": entry}}
    if host == "opencode":
        entry = {"type": "local", "command": ["ABP", *words], "environment": {"A": word}}
        servers = {"mcp": {"abp": {**entry, "timeout": 900_000}}}
    plant(home, {file: json.dumps(servers), **_TRUSTED})
    assert [each for each in judge(gather(HOSTS[host], machine(home))) if each.verdict.fails] == []


def test_hosts_of_a_machine(home: Path) -> None:
    assert find_hosts(machine(home)) == []
    for host in HOSTS.values():
        assert judge(gather(host, machine(home))) == []
    plant(home, {"here/.mcp.json": _SERVERS})  # which several hosts read
    assert [each.name for each in find_hosts(machine(home))] == ["claude"]
    plant(home, {".copilot/mcp-config.json": "{}"})
    assert [each.name for each in find_hosts(machine(home))] == ["claude", "copilot"]


@pytest.mark.parametrize(
    ("host", "text", "given"),
    [
        ("codex", _CODEX + 'env_vars = ["DISPLAY"]\n', {"HOME", "PATH", "DISPLAY"}),
        ("goose", _GOOSE, {"HOME", "PATH", "DISPLAY", "TOKEN"}),
        ("cursor", _servers(env={"A": "b"}), {"HOME", "PATH", "DISPLAY", "A"}),
    ],
)
def test_server_gets_the_environment_that_its_host_passes(
    host: str, text: str, given: set[str], home: Path
) -> None:
    plant(home, {FILES[host]: text})
    here = machine(home, {"HOME": "HOME", "DISPLAY": ":1", "TOKEN": "t"})
    got = environment(HOSTS[host], gather(HOSTS[host], here).entries[0], here.environ, "linux")
    assert set(got) == given
    assert (f"{home}/bin" in got["PATH"]) == (host != "cursor")


@pytest.mark.parametrize(
    ("line", "seconds"),
    [("", 30), ("startup_timeout_sec = 2\n", 2), ("startup_timeout_ms = 1500\n", 1.5)],
)
def test_codex_waits_as_long_as_its_file_says(line: str, seconds: float, home: Path) -> None:
    plant(home, {CODEX: _CODEX + line})
    (entry,) = gather(HOSTS["codex"], machine(home)).entries
    assert patience(HOSTS["codex"], entry) == (seconds, False)


@pytest.mark.parametrize(
    ("host", "code", "said", "verdict"),
    [
        ("claude", 0, "abp: /x/abp-bridge serve - ✓ Connected", Verdict.WORKS),
        ("claude", 0, "abp: /x/abp-bridge serve - ✗ Failed to connect", Verdict.FAILS),
        ("claude", 0, "abp: /x - Pending approval", Verdict.FAILS),
        ("claude", 0, "No MCP servers configured. Use `claude mcp add`", Verdict.FAILS),
        ("gemini", 0, "✗ abp: /x (stdio) - Disconnected", Verdict.FAILS),
        ("codex", 0, "abp\n  enabled: true", Verdict.WORKS),
        ("codex", 1, "Error: No MCP server named 'abp' found.", Verdict.FAILS),
        ("claude", 1, "error: you are not signed in", Verdict.WARNING),
        ("claude", None, "", Verdict.NOT_TRIED),
    ],
)
def test_a_hosts_own_word_is_understood(
    host: str, code: int | None, said: str, verdict: Verdict
) -> None:
    assert judge_proof(HOSTS[host], "abp", "its command", code, said).verdict is verdict


@pytest.mark.parametrize(
    ("by", "outcome", "verdict"),
    [
        ("person", "accepted", Verdict.WORKS),
        ("person", "declined", Verdict.WORKS),
        ("script", "accepted", Verdict.POLICY),
        ("nobody", "timed_out", Verdict.UNANSWERED),
        ("nobody", "unsupported", Verdict.UNSUPPORTED),
    ],
)
def test_outcome_of_the_doctors_question_is_a_verdict(
    by: str, outcome: str, verdict: Verdict
) -> None:
    told: JsonObject = {"answeredBy": by, "outcome": outcome, "route": "terminal", "latencyMs": 5}
    assert judge_answer({"success": True, "metadata": told}).verdict is verdict


Doctor = Callable[..., tuple[int, Any]]


@pytest.fixture
def doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Run `doctor --json` in the user's folder: its exit code, and its findings by section."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ABP_CHROME", "/usr/bin/false")
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, Any]:
        code = main(["doctor", "--json", *words])
        said = capsys.readouterr()
        assert said.err == ""
        told = json.loads(said.out)
        assert told["passed"] is (code == 0)
        return code, {each["name"]: each["findings"] for each in told["sections"]}

    return run


OURS = json.dumps(str(Path(sys.executable).with_name("abp-bridge")))


@pytest.mark.process
@pytest.mark.network
def test_doctor_starts_the_servers_of_all_hosts(
    tmp_path: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(
        tmp_path,
        {CODEX: _CODEX.replace('"ABP"', OURS), CLAUDE: _servers(command="/gone/abp-bridge")},
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("ABP_PAGE_PORT", str(taken.getsockname()[1]))
        code, sections = doctor()
    assert (code, list(sections)) == (1, ["machine", "codex", "claude"])
    (page,) = (each for each in sections["machine"] if each["check"] == "page")
    assert "Address already in use" in page["says"]
    started = {each["check"]: each for each in sections["codex"]}["start"]
    assert started["verdict"] == "works", started
    assert "MCP 2025-06-18" in started["says"]
    failed = {each["check"]: each for each in sections["claude"]}
    assert failed["command"]["failed"]
    assert failed["start"]["verdict"] == "not tried"


def test_setup_hint_has_another_name_if_ours_is_taken_in_this_folder(
    tmp_path: Path, doctor: Doctor
) -> None:
    theirs = {"mcpServers": {"abp": {"command": "npx", "args": ["x"]}}}
    plant(tmp_path, {".git/HEAD": "", CLAUDE: json.dumps({"projects": {str(tmp_path): theirs}})})
    (entry, *_) = doctor("claude")[1]["claude"]
    assert entry["cure"].endswith("abp-bridge install claude --name abp-bridge")


IN_FULL = "abp-bridge doctor TARGET (as the entry has it)"  # of an address with a key in it


@pytest.fixture
def apps(tmp_path: Path) -> Iterator[str]:
    """Plant an entry for Codex with an app that listens, one that does not, and one to be started.

    Yields the address of the first.
    """
    with socket.create_server(("127.0.0.1", 0)) as there:
        here = f"http://127.0.0.1:{there.getsockname()[1]}/a"
        named = f'"--app", "{here}?key=s3cret", "--app", "ws://127.0.0.1:9", "--app=mcp:no-such"'
        entry = _CODEX.replace('"ABP"', OURS).replace('"serve"]', f'"serve", {named}]')
        plant(tmp_path, {CODEX: f'{entry}env = {{ ABP_CHROME = "/usr/bin/false" }}\n'})
        yield here


@pytest.mark.process
@pytest.mark.network
@pytest.mark.parametrize("words", [("codex",), ()], ids=["one host", "all"])
def test_app_that_is_not_reached_is_reported_with_what_to_do(
    words: tuple[str, ...], apps: str, doctor: Doctor
) -> None:
    findings = doctor(*words)[1]["codex"]
    told = [(each["verdict"], each["says"], each["cure"]) for each in findings]
    assert [each for each in told if " is not connected" in each[1] or each[0] == "fails"][:3] == [
        (
            "fails",
            "Nothing answers at ws://127.0.0.1:9: Connection refused.",
            "Start its server, or look at the address; abp-bridge doctor ws://127.0.0.1:9 tries it",
        ),
        (
            "fails",
            "mcp:no-such cannot be started: on the PATH that its bridge has there is no program of"
            " that name.",
            "Install it, or write its whole path; abp-bridge doctor mcp:no-such tries it",
        ),
        ("not tried", f"{apps} is not connected here.", IN_FULL),
    ]
    found = {each["check"]: each for each in findings}
    assert found["start"]["verdict"] == "works"
    if words:
        assert found["browser"]["verdict"] == "fails"
    assert found["app"]["cure"] == IN_FULL
    assert found["program"]["says"] == "There is no codex on the PATH of this terminal."


SAID = {
    # an app -> what is wrong with it, without its credentials
    "http://ada:hunter2#x@localhost/": "is no address: its host or its port cannot be read.",
    "http://ada:hunter2@loc\u2100lhost/": "is no address: its host or its port cannot be read.",
    "stdio://127.0.0.1:9/no-such": "cannot be started: on the PATH that its bridge has",
    "http://127.0.0.1:0/": "Nothing answers at http://127.0.0.1:0/",
    "demo:page": "",
}


@pytest.mark.network
async def test_unreachable_app_is_described_without_its_secrets() -> None:
    problems = await reach_all(dict.fromkeys(SAID, ""))
    assert set(problems) == {app for app in SAID if SAID[app]}
    assert all(SAID[app] in problem for app, problem in problems.items())
    assert not any("hunter2" in problem for problem in problems.values())


@pytest.mark.process
@pytest.mark.network
def test_program_of_app_is_looked_for_on_the_path_of_its_entry(
    apps: str, tmp_path: Path, doctor: Doctor
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "no-such").symlink_to("/bin/true")
    file = tmp_path / CODEX
    file.write_text(file.read_text().replace("env = {", f'env = {{ PATH = "{folder}",'))
    said = [each["says"] for each in doctor("codex")[1]["codex"]]
    assert "mcp:no-such is not connected here." in said


@pytest.mark.network
def test_files_option_connects_to_no_app(apps: str, doctor: Doctor) -> None:
    (findings,) = doctor("codex", "--files")[1].values()
    assert [each["says"] for each in findings if each["check"] == "app"] == [
        f"{each} is not connected here." for each in (apps, "ws://127.0.0.1:9", "mcp:no-such")
    ]


@pytest.mark.parametrize("text", ['{"mcpServers": []}', '{"mcpServers": {"a": {}}', '{"a": 1} x'])
def test_setup_hint_is_not_an_install_that_would_be_refused(
    text: str, home: Path, doctor: Doctor
) -> None:
    plant(home, {CURSOR: text})
    findings = doctor("cursor")[1]["cursor"]
    failed = [each["check"] for each in findings if each["verdict"] == "fails"]
    assert failed in (["left alone"], ["file"])


def test_setup_hint_is_to_install_a_host_that_writes_its_own_file(doctor: Doctor) -> None:
    (entry,) = [each for each in doctor("claude")[1]["claude"] if each["failed"]]
    assert entry["cure"] == "install Claude Code first, then abp-bridge install claude"


def test_setup_hint_installs_beside_another_server(home: Path, doctor: Doctor) -> None:
    plant(home, {CURSOR: '{"mcpServers": {"abp": {"command": "other"}}}'})
    (entry,) = [each for each in doctor("cursor")[1]["cursor"] if each["failed"]]
    words = entry["cure"].partition("abp-bridge ")[2].split()
    assert main([*words, "--yes"]) == 0
    servers = json.loads((home / CURSOR).read_text())["mcpServers"]
    assert servers.keys() == {"abp", "abp-bridge"}
    assert servers["abp"] == {"command": "other"}


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("echo 'no such option' >&2; exit 3", "it ended: exit code 3; its last words: no such"),
        (
            'read -r line; echo \'{"jsonrpc":"2.0","id":"doctor-1","error":{"code":1,"message":'
            '"not today."}}\'; read -r line',
            "does not start: not today.",
        ),
    ],
    ids=["it ends", "it refuses"],
)
def test_server_that_does_not_start_is_reported(
    program: str, says: str, home: Path, doctor: Doctor
) -> None:
    (home / "bin/abp-bridge").write_text(f"#!/bin/sh\n{program}\n")
    plant(home, {CURSOR: _servers()})
    (start,) = [each for each in doctor("cursor")[1]["cursor"] if each["check"] == "start"]
    assert (start["verdict"], says in start["says"]) == ("fails", True), start


@pytest.mark.process
def test_server_of_a_project_is_started_only_with_project_option(
    tmp_path: Path, doctor: Doctor
) -> None:
    servers = _servers(command="/bin/sh", args=["-c", "echo > started", "abp-bridge"])
    plant(tmp_path, {".mcp.json": servers})
    for words in ((), ("--project",)):
        found = {each["check"]: each for each in doctor("claude", *words)[1]["claude"]}
        assert found["start"]["verdict"] == ("fails" if words else "not tried")
        assert (tmp_path / "started").exists() is bool(words)


def test_surfaces_of_a_host_are_those_that_were_measured(home: Path) -> None:
    plant(home, {FILES["copilot"]: _SERVERS})
    said = [each.says for each in what_can_be_asked(gather(HOSTS["copilot"], machine(home)))]
    assert [each for each in said if each.endswith("as it says of itself.")] == []
    assert any(each.endswith("by its own model.") for each in said)


@pytest.mark.parametrize(
    ("args", "env", "verdict"),
    [
        ("'serve', '--page', 'open'", {}, "warning"),
        ("'serve', '--page', 'open'", {"DISPLAY": ":7"}, "works"),
        ("'serve', '--page', 'link'", {}, "works"),
        ("'serve', '--page', 'open', '--tty', '/dev/pts/3'", {}, "works"),
    ],
)
def test_page_works_only_if_a_browser_can_be_opened(
    args: str,
    env: Mapping[str, str],
    verdict: str,
    home: Path,
    doctor: Doctor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (home / "bin/abp-bridge").rename(home / "bin/xdg-open")
    monkeypatch.setenv("PATH", str(home / "bin"))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    entry = _CODEX.replace("ABP", "/opt/bin/abp-bridge").replace('"serve"', args)
    plant(home, {CODEX: entry + 'env_vars = ["DISPLAY"]\n'})
    findings = doctor("codex", "--files")[1]["codex"]
    (page,) = (each for each in findings if "on the bridge's page" in each["says"])
    assert page["verdict"] == verdict
    assert ("no browser can be opened" in page["says"]) is ("--tty" in page["cure"])


def test_file_in_the_users_own_folder_is_not_a_projects(tmp_path: Path) -> None:
    plant(tmp_path, {CODEX: _CODEX})
    facts = gather(HOSTS["codex"], Machine({}, home=tmp_path, folder=tmp_path))
    assert [each.scope for each in facts.entries] == ["user"]
    assert [each.scope for each in facts.files] == ["user"]


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("codex", _CODEX.replace("required = true\n", "").replace('"serve"', '"mcp", "--", "npx"')),
        ("zed", f'{{"context_server_timeout": 900, "context_servers": {{"abp": {_ENTRY}}}}}'),
    ],
    ids=["a wrapped server need not be required", "a limit of all servers counts"],
)
def test_entry_that_is_no_trap(host: str, text: str, home: Path) -> None:
    plant(home, {FILES[host]: text})
    found = judge(gather(HOSTS[host], machine(home)))
    assert [each for each in found if each.check in ("not required", "call limit")] == []


def test_entries_of_one_name_are_told_apart(home: Path) -> None:
    both = f'{{"mcpServers": {{"abp": {_ENTRY}}}, "projects": {{"HERE": {_SERVERS}}}}}'
    loose = _CODEX.replace("required = true\n", "")
    plant(home, {"here/.git/HEAD": "", CLAUDE: both, CODEX: loose, f"here/{CODEX}": loose})
    shown = [each.shown for each in gather(HOSTS["claude"], machine(home)).entries]
    file = home / CLAUDE
    assert shown == [f'"abp" of {file}', f'"abp" of {file} (for {home}/here alone)']
    said = [each.says for each in judge(gather(HOSTS["codex"], machine(home)))]
    without = "is not required: Codex waits a second for it, then does without."
    assert [each for each in said if each.endswith(without)] == [
        f'"abp" of {home}/{file} {without}' for file in (CODEX, f"here/{CODEX}")
    ]
