"""Where each host keeps its MCP servers or ACP agents, and how it writes them: a table.

`install`, `uninstall`, `doctor` and docs/install.md use it. Paths are those of late 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.words import nearest
from abp_bridge.settings import Settings

# `commented`: JSON with comments, but no comma before a closing bracket
FormatName = Literal["json", "commented", "jsonc", "toml", "yaml"]
Unit = Literal["s", "ms"]
FileScope = Literal["user", "project"]  # whose a file is: a person's, or a project's
Scope = Literal[FileScope, "local"]  # ... and what a person's has for one folder alone
# What a server that the host starts gets of its environment: all of it, only the variables that its
# entry names, or too little to find a browser, or nobody knows how much.
Environment = Literal["whole", "named", "bare"]

NAME = "abp"  # of our entry
OTHER_NAME = "abp-bridge"  # where that is taken
PATIENCE = 900.0  # seconds for one call, the time of its person included
QUESTION_TIMEOUT = Settings().question_timeout  # seconds

# Without these a browser, or the way to one, is not found.
DISPLAY_VARIABLES = (
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_CURRENT_DESKTOP",
    "DBUS_SESSION_BUS_ADDRESS",
    "BROWSER",
    "SSH_CONNECTION",
)
BROWSER_VARIABLES = ("PLAYWRIGHT_BROWSERS_PATH", "ABP_CHROME")


@dataclass(frozen=True, slots=True)
class Files:
    """Where a file may be.

    Attributes:
        folders: With `~` and `$NAME`; the first with set variables and a match for `*` counts.
        names: The first that exists, else the first.
    """

    folders: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a host writes a command.

    Attributes:
        args: The member for arguments; "" if `command` is one list of all.
        env: The member for variables and their values.
        env_names: The member for names of variables to pass on.
        within: The member that holds command, args and env, if not the entry.
        fixed: Members that every entry needs.
        defaults: Members that are set once; the user may change them.
        approve: Members that let the host call our tools without asking.
        timeout: The member for a call's time limit, as a path; `unit` is its unit.
        disabled: (member, its value) that disables an entry.
        named: The member that repeats the entry's name.
    """

    command: str = "command"
    args: str = "args"
    env: str = "env"
    env_names: str = ""
    within: str = ""
    fixed: JsonObject = field(default_factory=dict)
    defaults: JsonObject = field(default_factory=dict)
    approve: JsonObject = field(default_factory=dict)
    timeout: tuple[str, ...] = ()
    unit: Unit = "ms"
    disabled: tuple[str, bool] | None = None
    named: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in a file the entries are, by name, and their shape."""

    key: tuple[str, ...]
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupHost:
    """How one host is configured: its files, and how it writes a server.

    Attributes:
        user: Platform (`sys.platform` or `*`) -> the user's file.
        project: The file in a project's folder, if any.
        layouts: Where its servers are; the last one in its file, else the first.
        agents: Where its ACP agents are.
        local: The member of the user's file for one folder alone, by path.
        patience: Measured seconds until it abandons a call, the user's time included.
        tells_patience: Pass `patience` to the bridge, which assumes less by default.
        asks: It shows the user what a server asks.
        environment: Which variables a server gets.
        on_desktop: It is started from a desktop, with that PATH.
        add, remove: Its commands to change a server, as it rewrites its file itself. `{scope}`
            is `user` or `local`.
        verify: Its command that shows or starts our server, as `verify_reach` says.
        client: Its `clientInfo.name`, if known.
        then: What the user does next, as a sentence.
        warnings: (path in its file, a value there, what goes wrong).
    """

    name: str
    title: str
    format: FormatName
    user: Mapping[str, Files] = field(default_factory=dict)
    project: Files | None = None
    layouts: tuple[Layout, ...] = ()
    agents: Layout | None = None
    local: tuple[str, ...] = ()
    patience: float | None = None
    tells_patience: bool = False
    asks: bool = False
    environment: Environment = "bare"
    on_desktop: bool = False
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    verify_reach: Literal["entry", "server", "model"] = "server"
    client: str = ""
    then: str = "Start a new session"
    traps: tuple[str, ...] = ()
    warnings: tuple[tuple[tuple[str, ...], JsonValue, str], ...] = ()

    @property
    def program(self) -> str:
        return next((each[0] for each in (self.add, self.verify) if each), "")


def _everywhere(folders: tuple[str, ...], *names: str) -> Mapping[str, Files]:
    return {"*": Files(folders, names)}


def _in_project(folder: str, *names: str) -> Files:
    return Files((folder,), names)


_SERVERS = ("mcpServers",)
_STDIO: JsonObject = {"type": "stdio"}
_PLAIN = Shape()
_TYPED = Shape(fixed=_STDIO)
_TIMED = Shape(timeout=("timeout",), approve={"trust": True})
_AGENTS = Layout(("agent_servers",), Shape(fixed={"type": "custom"}))
_CODE_USER = {  # the folder of VS Code's default profile
    "*": ("$XDG_CONFIG_HOME/Code/User", "~/.config/Code/User"),
    "darwin": ("~/Library/Application Support/Code/User",),
    "win32": ("$APPDATA/Code/User",),
}
_CLINE = "globalStorage/saoudrizwan.claude-dev/settings"
_LIST = Shape(  # opencode's, and that of what is made from it
    args="",
    env="environment",
    fixed={"type": "local"},
    defaults={"enabled": True},
    timeout=("timeout",),
    disabled=("enabled", False),
)
_LIST_V2 = Shape(
    args="",
    env="environment",
    fixed={"type": "local"},
    timeout=("timeout", "request"),
    disabled=("disabled", True),
)
_LISTS = (Layout(("mcp",), _LIST), Layout(("mcp", "servers"), _LIST_V2))

_ROWS = (
    SetupHost(
        name="codex",
        title="Codex",
        format="toml",
        user=_everywhere(("$CODEX_HOME", "~/.codex"), "config.toml"),
        project=_in_project(".codex", "config.toml"),
        layouts=(
            Layout(
                ("mcp_servers",),
                Shape(
                    env_names="env_vars",
                    defaults={"required": True, "startup_timeout_sec": 60},
                    approve={"default_tools_approval_mode": "approve"},
                    timeout=("tool_timeout_sec",),
                    unit="s",
                    disabled=("enabled", False),
                ),
            ),
        ),
        patience=PATIENCE,
        tells_patience=True,
        asks=True,
        environment="named",
        verify=("codex", "mcp", "get", "{name}"),
        verify_reach="entry",
        client="codex-mcp-client",
        traps=(
            "Codex ignores a misspelt key without a word, and does not start with a wrong value.",
            'With approval_policy = "never", and in codex exec, it declines every question itself.',
            "A project's .codex/config.toml is read only where that project is trusted.",
            "A second `codex mcp add` of the name drops what it cannot set.",
        ),
        warnings=(
            (
                ("approval_policy",),
                "never",
                'This file has approval_policy = "never": Codex declines every question by itself.',
            ),
        ),
    ),
    SetupHost(
        name="goose",
        title="Goose",
        format="yaml",
        user={
            "*": Files(
                ("$GOOSE_PATH_ROOT/config", "$XDG_CONFIG_HOME/goose", "~/.config/goose"),
                ("config.yaml",),
            ),
            "win32": Files(
                ("$GOOSE_PATH_ROOT/config", "$APPDATA/Block/goose/config"), ("config.yaml",)
            ),
        },
        layouts=(
            Layout(
                ("extensions",),
                Shape(
                    command="cmd",
                    env="envs",
                    named="name",
                    fixed=_STDIO,
                    defaults={"enabled": True},
                    timeout=("timeout",),
                    unit="s",
                    disabled=("enabled", False),
                ),
            ),
        ),
        patience=PATIENCE,
        tells_patience=True,
        asks=True,
        environment="whole",
        verify=("goose", "doctor"),
        verify_reach="model",
        client="goose-cli",
        traps=("`goose run` ends at the first question; `goose session` shows it.",),
    ),
    SetupHost(
        name="claude",
        title="Claude Code",
        format="json",
        user=_everywhere(("$CLAUDE_CONFIG_DIR", "~"), ".claude.json"),
        project=_in_project(".", ".mcp.json"),
        layouts=(Layout(_SERVERS, Shape(fixed=_STDIO, timeout=("timeout",))),),
        local=("projects",),
        patience=PATIENCE,
        asks=True,
        environment="whole",
        add=("claude", "mcp", "add-json", "--scope", "{scope}"),
        remove=("claude", "mcp", "remove", "--scope", "{scope}"),
        verify=("claude", "mcp", "list"),
        client="claude-code",
        traps=(
            "A server of .mcp.json is pending until you approve it in claude.",
            "One comment or trailing comma in .mcp.json, and all its servers are gone.",
            "claude -p dismisses every question by itself.",
        ),
    ),
    SetupHost(
        name="claude-desktop",
        title="Claude Desktop",
        format="json",
        user={
            "*": Files(
                ("$XDG_CONFIG_HOME/Claude", "~/.config/Claude"), ("claude_desktop_config.json",)
            ),
            "darwin": Files(
                ("~/Library/Application Support/Claude",), ("claude_desktop_config.json",)
            ),
            # the build of the Windows Store reads its own, and sees no other
            "win32": Files(
                (
                    "$LOCALAPPDATA/Packages/Claude_*/LocalCache/Roaming/Claude",
                    "$APPDATA/Claude",
                ),
                ("claude_desktop_config.json",),
            ),
        },
        layouts=(Layout(_SERVERS, _PLAIN),),
        patience=60.0,
        on_desktop=True,
        then="Quit it wholly, and start it again",
        traps=("Its clock for a call cannot be set: a minute in older builds, four in newer.",),
    ),
    SetupHost(
        name="cursor",
        title="Cursor",
        format="json",
        user=_everywhere(("~/.cursor",), "mcp.json"),
        project=_in_project(".cursor", "mcp.json"),
        layouts=(Layout(_SERVERS, _PLAIN),),
        asks=True,
        on_desktop=True,
        then="Switch abp on under Customize > MCPs: Cursor 3 registers a new server switched off",
        traps=("Cursor's home window for projects loads no servers of a project.",),
    ),
    SetupHost(
        name="vscode",
        title="VS Code with Copilot",
        format="jsonc",
        user={name: Files(folders, ("mcp.json",)) for name, folders in _CODE_USER.items()},
        project=_in_project(".vscode", "mcp.json"),
        layouts=(Layout(("servers",), _TYPED),),
        asks=True,
        on_desktop=True,
        then="Start the server there (MCP: List Servers), and trust it",
        traps=(
            "Another profile than the default one has a file of its own: name it with --file.",
            "VS Code's own Add Server takes the comments out of this file.",
        ),
    ),
    SetupHost(
        name="copilot",
        title="GitHub Copilot CLI",
        format="jsonc",
        user=_everywhere(("$COPILOT_HOME", "~/.copilot"), "mcp-config.json"),
        project=_in_project(".", ".mcp.json", ".github/mcp.json"),
        layouts=(
            Layout(
                _SERVERS,
                Shape(fixed={"type": "local"}, defaults={"tools": ["*"]}, timeout=("timeout",)),
            ),
        ),
        patience=PATIENCE,
        tells_patience=True,
        asks=True,
        verify=("copilot", "mcp", "get", "{name}"),
        verify_reach="entry",
        client="copilot-cli",
        traps=("`copilot mcp add` takes all comments out of this file.",),
    ),
    SetupHost(
        name="gemini",
        title="Gemini CLI",
        format="commented",
        user=_everywhere(("$GEMINI_CLI_HOME/.gemini", "~/.gemini"), "settings.json"),
        project=_in_project(".gemini", "settings.json"),
        layouts=(Layout(_SERVERS, _TIMED),),
        patience=PATIENCE,
        tells_patience=True,
        environment="whole",
        verify=("gemini", "mcp", "list"),
        client="gemini-cli-mcp-client",
        traps=(
            "In a folder that is not trusted Gemini CLI starts no server, your own neither.",
            "A trailing comma in its settings makes every command fail.",
        ),
    ),
    SetupHost(
        name="qwen",
        title="Qwen Code",
        format="commented",
        user=_everywhere(("$QWEN_HOME", "~/.qwen"), "settings.json"),
        project=_in_project(".qwen", "settings.json"),
        layouts=(Layout(_SERVERS, _TIMED),),
        patience=PATIENCE,
        tells_patience=True,
        environment="whole",
        verify=("qwen", "mcp", "list"),
        client="qwen-cli-mcp-client",
        traps=("`qwen mcp add` takes all comments out of its settings, and moves them about.",),
    ),
    SetupHost(
        name="opencode",
        title="opencode",
        format="jsonc",
        user=_everywhere(
            ("$XDG_CONFIG_HOME/opencode", "~/.config/opencode"), "opencode.json", "opencode.jsonc"
        ),
        project=_in_project(".", "opencode.json", "opencode.jsonc"),
        layouts=_LISTS,
        patience=300.0,  # whatever is said, in releases of mid 2026
        tells_patience=True,
        environment="whole",
        verify=("opencode", "mcp", "list"),
        client="opencode",
    ),
    SetupHost(
        name="zed",
        title="Zed",
        format="jsonc",
        user={
            "*": Files(("$XDG_CONFIG_HOME/zed", "~/.config/zed"), ("settings.json",)),
            "darwin": Files(("~/.config/zed",), ("settings.json",)),
            "win32": Files(("$APPDATA/Zed",), ("settings.json",)),
        },
        project=_in_project(".zed", "settings.json"),
        layouts=(
            Layout(
                ("context_servers",),
                Shape(timeout=("timeout",), unit="s", disabled=("enabled", False)),
            ),
        ),
        agents=_AGENTS,
        patience=PATIENCE,
        tells_patience=True,
        on_desktop=True,
        then="Zed reads it when it is saved",
        traps=("Zed gives a tool 60 seconds, unless `timeout` says more.",),
    ),
    SetupHost(
        name="jetbrains",
        title="JetBrains AI Assistant",
        format="json",
        user=_everywhere(("~/.jetbrains",), "acp.json"),
        agents=Layout(("agent_servers",), _PLAIN),
        asks=True,
        on_desktop=True,
        then="Choose ABP among the agents of the AI chat",
        traps=("Agents do not run under WSL.",),
    ),
    SetupHost(
        name="windsurf",
        title="Windsurf",
        format="json",
        user=_everywhere(("~/.codeium/windsurf",), "mcp_config.json"),
        layouts=(Layout(_SERVERS, _PLAIN),),
        on_desktop=True,
        then="Press refresh in its list of MCP servers",
        traps=("It takes 100 tools in all; an enterprise must have switched MCP on.",),
    ),
    SetupHost(
        name="kiro",
        title="Kiro",
        format="json",
        user=_everywhere(("~/.kiro/settings",), "mcp.json"),
        project=_in_project(".kiro/settings", "mcp.json"),
        layouts=(Layout(_SERVERS, Shape(disabled=("disabled", True))),),
        on_desktop=True,
        then="Kiro reads it when it is saved",
    ),
    SetupHost(
        name="cline",
        title="Cline CLI",
        format="json",
        user=_everywhere(
            ("$CLINE_DIR/data/settings", "~/.cline/data/settings"), "cline_mcp_settings.json"
        ),
        layouts=(Layout(_SERVERS, Shape(within="transport", fixed=_STDIO)),),
    ),
    SetupHost(
        name="cline-vscode",
        title="Cline in VS Code",
        format="json",
        user={
            name: Files(tuple(f"{each}/{_CLINE}" for each in folders), ("cline_mcp_settings.json",))
            for name, folders in _CODE_USER.items()
        },
        layouts=(Layout(_SERVERS, Shape(disabled=("disabled", True))),),
        on_desktop=True,
        then="Look for abp in its list of MCP servers",
    ),
    SetupHost(
        name="kilo",
        title="Kilo Code",
        format="jsonc",
        user=_everywhere(("$XDG_CONFIG_HOME/kilo", "~/.config/kilo"), "kilo.jsonc", "kilo.json"),
        project=_in_project(".", "kilo.jsonc", "kilo.json"),
        layouts=_LISTS,
        patience=300.0,
    ),
    SetupHost(
        name="fast-agent",
        title="fast-agent",
        format="yaml",
        project=_in_project(".", "fastagent.config.yaml"),
        layouts=(Layout(("mcp", "servers"), _PLAIN),),
        asks=True,
        client="fast-agent-mcp",
        traps=("fast-agent dismisses every question by itself where it runs without a terminal.",),
    ),
    SetupHost(
        name="mcp-json",
        title="any host that reads .mcp.json",
        format="json",
        project=_in_project(".", ".mcp.json"),
        layouts=(Layout(_SERVERS, _TYPED),),
        asks=True,
        then="Start a new session of the host in this folder",
    ),
)

HOSTS: Mapping[str, SetupHost] = {row.name: row for row in _ROWS}


def nearest_host(word: str) -> str:
    """The name of the host that may be meant, by its name or title; empty where none is near."""
    titles = {row.title.lower().replace(" ", "-"): row.name for row in _ROWS}
    names = {**titles, **{name: name for name in HOSTS}}
    return names.get(nearest(word.lower().replace(" ", "-"), names), "")
