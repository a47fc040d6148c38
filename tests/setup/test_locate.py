"""Where hosts keep their files, and which servers are in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.entries import (
    Launch,
    Machine,
    find_layout,
    list_servers,
    locate,
    own_arguments,
    read_value,
    repository_folder,
    wrapped_command,
)
from abp_bridge.setup.hosts import HOSTS

LINUX = {
    "codex": ".codex/config.toml",
    "goose": ".config/goose/config.yaml",
    "claude": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "copilot": ".copilot/mcp-config.json",
    "gemini": ".gemini/settings.json",
    "qwen": ".qwen/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "zed": ".config/zed/settings.json",
    "jetbrains": ".jetbrains/acp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "kiro": ".kiro/settings/mcp.json",
    "cline": ".cline/data/settings/cline_mcp_settings.json",
    "cline-vscode": ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings"
    "/cline_mcp_settings.json",
    "kilo": ".config/kilo/kilo.jsonc",
    "fast-agent": None,
    "mcp-json": None,
}
PROJECT = {
    "codex": ".codex/config.toml",
    "claude": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "copilot": ".mcp.json",
    "gemini": ".gemini/settings.json",
    "qwen": ".qwen/settings.json",
    "opencode": "opencode.json",
    "zed": ".zed/settings.json",
    "kiro": ".kiro/settings/mcp.json",
    "kilo": "kilo.jsonc",
    "fast-agent": "fastagent.config.yaml",
    "mcp-json": ".mcp.json",
}
# host -> variables, platform, the file
ELSEWHERE: tuple[tuple[str, dict[str, str], str, str], ...] = (
    ("codex", {"CODEX_HOME": "/c"}, "linux", "/c/config.toml"),
    ("goose", {"GOOSE_PATH_ROOT": "/g", "XDG_CONFIG_HOME": "/x"}, "linux", "/g/config/config.yaml"),
    ("goose", {"XDG_CONFIG_HOME": "/x"}, "linux", "/x/goose/config.yaml"),
    ("goose", {"APPDATA": "/a"}, "win32", "/a/Block/goose/config/config.yaml"),
    ("claude", {"CLAUDE_CONFIG_DIR": "/d"}, "linux", "/d/.claude.json"),
    ("copilot", {"COPILOT_HOME": "/c", "XDG_CONFIG_HOME": "/x"}, "linux", "/c/mcp-config.json"),
    ("copilot", {"XDG_CONFIG_HOME": "/x"}, "linux", "/home/.copilot/mcp-config.json"),
    ("gemini", {"GEMINI_CLI_HOME": "/g"}, "linux", "/g/.gemini/settings.json"),
    ("vscode", {}, "darwin", "/home/Library/Application Support/Code/User/mcp.json"),
    ("zed", {"XDG_CONFIG_HOME": "/x"}, "darwin", "/home/.config/zed/settings.json"),
)


@pytest.mark.parametrize("name", HOSTS)
def test_each_host_has_its_file(name: str) -> None:
    machine = Machine({}, Path("/home"), Path("/project"), "linux")
    user, project = LINUX[name], PROJECT.get(name)
    assert locate(HOSTS[name], "user", machine) == (Path("/home", user) if user else None)
    wanted = Path("/project", project) if project else None
    assert locate(HOSTS[name], "project", machine) == wanted


@pytest.mark.parametrize(("name", "environ", "platform", "file"), ELSEWHERE)
def test_variables_and_systems_move_it(
    name: str, environ: dict[str, str], platform: str, file: str
) -> None:
    machine = Machine(environ, Path("/home"), Path("/project"), platform)
    assert locate(HOSTS[name], "user", machine) == Path(file)


def test_claude_desktop_of_the_store_reads_its_own_file(tmp_path: Path) -> None:
    environ = {"LOCALAPPDATA": str(tmp_path), "APPDATA": str(tmp_path / "Roaming")}
    machine = Machine(environ, tmp_path, tmp_path, "win32")
    host = HOSTS["claude-desktop"]
    plain = tmp_path / "Roaming/Claude/claude_desktop_config.json"
    assert locate(host, "user", machine) == plain
    store = tmp_path / "Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude"
    store.mkdir(parents=True)
    assert locate(host, "user", machine) == store / "claude_desktop_config.json"


def test_servers_are_listed_with_their_commands(tmp_path: Path) -> None:
    ours = '{"type": "local", "command": ["/x/abp-bridge", "serve"], "environment": {"A": "b"}}'
    far = '{"type": "remote", "url": "https://mcp.example", "enabled": false}'
    file = tmp_path / ".config/opencode/opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text(f'{{ // mine\n"mcp": {{"abp": {ours}, "far": {far}, "odd": 5,}},\n}}')
    found = locate(HOSTS["opencode"], "user", Machine({}, tmp_path, tmp_path, "linux"))
    assert found == file
    abp, other = list_servers(HOSTS["opencode"], read_value(HOSTS["opencode"], found))
    assert (abp.name, abp.path, abp.enabled) == ("abp", ("mcp", "abp"), True)
    assert abp.launch == Launch("/x/abp-bridge", ("serve",), {"A": "b"})
    assert abp.own == ("serve",)
    assert (other.launch, other.own, other.enabled) == (None, None, False)


def _worktree(
    shared: str, *, back: str = "HERE/shop/.git", shared_by: str = "../.."
) -> dict[str, str]:
    """The files by which a worktree and its repository know each other."""
    kept = shared.replace("HERE/", "").replace("../", "") + "/worktrees/shop"
    return {
        "shop/.git": f"gitdir: {shared}/worktrees/shop\n",
        f"{kept}/commondir": f"{shared_by}\n",
        f"{kept}/gitdir": f"{back}\n",
    }


REPOSITORIES: dict[str, tuple[dict[str, str], str]] = {  # case -> (its files, where it is)
    "a folder": ({"shop/.git/HEAD": ""}, "shop"),
    "a worktree": (_worktree("HERE/main/.git"), "main"),
    "a worktree that names its main one from where it is": (_worktree("../main/.git"), "main"),
    "a worktree of a repository without a folder": (_worktree("HERE/main.git"), "main.git"),
    "a copy of a worktree": (_worktree("HERE/main/.git", back="HERE/first/.git"), "shop"),
    "a worktree that is kept elsewhere": (_worktree("HERE/main/.git", shared_by=".."), "shop"),
    "a link in place of a file": (
        {
            **_worktree("HERE/main/.git"),
            "main/.git/worktrees/shop/other": "../..\n",
            "main/.git/worktrees/shop/commondir": "-> other",
        },
        "shop",
    ),
    "a worktree whose way back is no path": (_worktree("HERE/main/.git", back="/\0"), "shop"),
    "a submodule": (
        {"shop/.git": "gitdir: ../.git/modules/shop\n", ".git/modules/shop/HEAD": ""},
        "shop",
    ),
}


@pytest.mark.parametrize("case", REPOSITORIES)
def test_the_folder_of_a_repository_is_that_of_the_main_one(case: str, tmp_path: Path) -> None:
    files, where = REPOSITORIES[case]
    folder = tmp_path / "shop/in"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).unlink(missing_ok=True)
        if text.startswith("-> "):
            (tmp_path / name).symlink_to(text.removeprefix("-> "))
        else:
            (tmp_path / name).write_text(text.replace("HERE", str(tmp_path)))
    assert repository_folder(folder) == tmp_path / where


def test_a_folder_in_no_repository_is_its_own() -> None:
    nowhere = Path("/no/such/folder")  # above a temporary one there may be anything
    assert repository_folder(nowhere) == nowhere


def test_a_repository_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    for name, text in _worktree("HERE/main/.git").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("HERE", str(tmp_path)))
    pipe = tmp_path / "main/.git/worktrees/shop/commondir"
    pipe.unlink()
    os.mkfifo(pipe)
    assert repository_folder(tmp_path / "shop") == tmp_path / "shop"


def test_missing_file_has_no_servers(tmp_path: Path) -> None:
    machine = Machine({}, tmp_path, tmp_path, "linux")
    codex, goose = (
        locate(HOSTS["codex"], "user", machine),
        locate(HOSTS["goose"], "project", machine),
    )
    assert (codex, goose) == (tmp_path / ".codex/config.toml", None)
    assert list_servers(HOSTS["codex"], read_value(HOSTS["codex"], codex)) == []
    assert list_servers(HOSTS["goose"], read_value(HOSTS["goose"], goose)) == []


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"mcp": {"a": {"type": "local"}}}, ("mcp",)),
        ({}, ("mcp",)),
        ({"mcp": {"servers": {"type": "local", "command": ["x"]}}}, ("mcp",)),
        ({"mcp": {"servers": {"a": {"type": "local"}}}}, ("mcp", "servers")),
    ],
    ids=["old", "none", "server of that name", "new"],
)
def test_layout_of_a_file_is_found(value: JsonValue, key: tuple[str, ...]) -> None:
    layout = find_layout(HOSTS["opencode"], value)
    assert layout is not None
    assert layout.key == key


def test_ours_is_known_by_its_command() -> None:
    assert own_arguments(["C:\\Programs\\abp-bridge.exe", "serve"]) == ("serve",)
    assert own_arguments(["/usr/bin/python3", "-m", "abp_bridge", "mcp"]) == ("mcp",)
    assert own_arguments(["/usr/bin/python3", "-m", "abp_bridge_of_others"]) is None
    assert own_arguments([]) is None
    assert wrapped_command(["abp-bridge", "mcp", "--page", "off", "--", "npx", "x"]) == ("npx", "x")
    assert wrapped_command(["abp-bridge", "serve", "--", "npx"]) is None
    assert wrapped_command(["abp-bridge", "mcp", "--"]) is None
